/*
 * soft_write.c - what a WRITE on the software HCA costs beside the bare copy it is made of.
 *
 * Run by `sextant soft run` on a fabric of unlimited speed. A child on host 1 registers memory,
 * private and shared; the parent on host 0 writes to it through verbs and, in turns, with bare
 * process_vm_writev or memcpy. What is judged is the median over ROUNDS of the ratio of CPU
 * times within a round. A measurement that misses its bar is repeated, up to ATTEMPTS times in
 * all: noise passes, slowness stays.
 */
#include "core/compiler.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MAX ((size_t)4 << 20)
#define ROUNDS    31
#define ATTEMPTS  6
#define BATCH_NS  2000000ull /* of one side of one round, about */
#define WARM_UP   3

/* What an end tells the other one. */
struct hello {
	union ibv_gid gid;
	uint64_t private_addr;
	uint64_t shared_addr;
	uint32_t private_rkey;
	uint32_t shared_rkey;
	uint32_t qpn;
	int32_t pid;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *private_mr;
	struct ibv_mr *shared_mr;
	struct hello own;
	struct hello peer;
};

struct target {
	struct end *end;
	uint64_t remote_addr;
	uint32_t rkey;
	char *source;
	char *mapped; /* the shared memory as this process sees it, NULL for private memory */
};

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(2);
}

/* CPU time of this thread, in the kernel too: both sides only ever compute, others may disturb. */
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static char *map_private(void)
{
	char *memory = mmap(NULL, BYTES_MAX, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	memset(memory, 1, BYTES_MAX);
	return memory;
}

static char *map_shared(int fd)
{
	char *memory =
		mmap(NULL, BYTES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (memory == MAP_FAILED)
		die("mmap of a memfd");
	memset(memory, 1, BYTES_MAX);
	return memory;
}

static void end_open(struct end *end, const char *host)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_device **list;

	setenv("SEXTANT_SOFT_HOST", host, 1);
	list = ibv_get_device_list(NULL);
	if (list == NULL || list[0] == NULL)
		die("ibv_get_device_list");
	end->context = ibv_open_device(list[0]);
	if (end->context == NULL)
		die("ibv_open_device");
	ibv_free_device_list(list);
	end->pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 128, NULL, NULL, 0);
	if (end->pd == NULL || end->cq == NULL)
		die("ibv_create_cq");
	init.send_cq = end->cq;
	init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &init);
	if (end->qp == NULL)
		die("ibv_create_qp");
	if (ibv_query_gid(end->context, 1, 0, &end->own.gid) != 0)
		die("ibv_query_gid");
	end->own.qpn = end->qp->qp_num;
	end->own.pid = getpid();
}

static struct ibv_mr *end_register(struct end *end, void *memory)
{
	struct ibv_mr *mr = ibv_reg_mr(end->pd, memory, BYTES_MAX,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	if (mr == NULL)
		die("ibv_reg_mr");
	return mr;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	errno = ibv_modify_qp(qp, attr, mask);
	if (errno != 0)
		die("ibv_modify_qp");
}

static void end_connect(struct end *end)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = end->peer.qpn,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = end->peer.gid, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	modify(end->qp, &init,
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(end->qp, &rtr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(end->qp, &rts,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void exchange(struct end *end, int sock)
{
	if (write(sock, &end->own, sizeof(end->own)) != (ssize_t)sizeof(end->own) ||
	    recv(sock, &end->peer, sizeof(end->peer), MSG_WAITALL) != (ssize_t)sizeof(end->peer))
		die("hello");
}

/* The side that is written to: it calls no verbs until the other one is done. */
static _Noreturn void serve(int sock, int fd)
{
	struct end end = {0};
	char *private_memory = map_private();
	char *shared_memory = map_shared(fd);
	char byte;

	end_open(&end, "1");
	end.private_mr = end_register(&end, private_memory);
	end.shared_mr = end_register(&end, shared_memory);
	end.own.private_addr = (uintptr_t)private_memory;
	end.own.private_rkey = end.private_mr->rkey;
	end.own.shared_addr = (uintptr_t)shared_memory;
	end.own.shared_rkey = end.shared_mr->rkey;
	exchange(&end, sock);
	end_connect(&end);
	if (write(sock, "r", 1) != 1 || read(sock, &byte, 1) < 0)
		die("child");
	_exit(0);
}

static uint32_t source_lkey;

static void write_by_verbs(const struct target *target, size_t bytes)
{
	struct ibv_sge sge = {.addr = (uintptr_t)target->source,
			      .length = (uint32_t)bytes,
			      .lkey = source_lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = target->remote_addr, .rkey = target->rkey},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int cnt;

	errno = ibv_post_send(target->end->qp, &wr, &bad);
	if (errno != 0)
		die("ibv_post_send");
	do
		cnt = ibv_poll_cq(target->end->cq, 1, &wc);
	while (cnt == 0);
	if (cnt < 0 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "WRITE failed: %s\n", ibv_wc_status_str(wc.status));
		exit(2);
	}
}

static void write_by_kernel(const struct target *target, size_t bytes)
{
	struct iovec from = {.iov_base = target->source, .iov_len = bytes};
	struct iovec to = {.iov_base = (void *)(uintptr_t)target->remote_addr, .iov_len = bytes};

	if (process_vm_writev(target->end->peer.pid, &from, 1, &to, 1, 0) != (ssize_t)bytes)
		die("process_vm_writev");
}

static void write_by_copy(const struct target *target, size_t bytes)
{
	memcpy(target->mapped, target->source, bytes);
	__asm__ volatile("" : : "r"(target->mapped) : "memory");
}

typedef void write_fn(const struct target *target, size_t bytes);

static uint64_t time_ns(write_fn *fn, const struct target *target, size_t bytes, unsigned int cnt)
{
	uint64_t start = now_ns();

	for (unsigned int i = 0; i < cnt; i++)
		fn(target, bytes);
	return now_ns() - start;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare_doubles);
	return values[ROUNDS / 2];
}

/* One row of the report: verbs' time against a bare copy's, at most `bar` of it. */
struct row {
	const char *what;
	const struct target *target;
	write_fn *bare;
	size_t bytes;
	double bar;
};

/* Both sides of a round meet the same neighbours and the same clock rate: the ratio is theirs. */
static double measure(const struct row *row)
{
	double verbs_ns[ROUNDS];
	double bare_ns[ROUNDS];
	double ratios[ROUNDS];
	unsigned int cnt;
	double ratio;

	time_ns(write_by_verbs, row->target, row->bytes, WARM_UP);
	time_ns(row->bare, row->target, row->bytes, WARM_UP);
	cnt = (unsigned int)(BATCH_NS * WARM_UP /
			     (time_ns(row->bare, row->target, row->bytes, WARM_UP) + 1)) +
	      1;
	for (int i = 0; i < ROUNDS; i++) {
		verbs_ns[i] = (double)time_ns(write_by_verbs, row->target, row->bytes, cnt) / cnt;
		bare_ns[i] = (double)time_ns(row->bare, row->target, row->bytes, cnt) / cnt;
		ratios[i] = verbs_ns[i] / bare_ns[i];
	}
	ratio = median(ratios);
	printf("%-34s %8zu B  bare %10.0f ns  verbs %10.0f ns  ratio %.3f (bar %.3f)\n", row->what,
	       row->bytes, median(bare_ns), median(verbs_ns), ratio, row->bar);
	fflush(stdout);
	return ratio;
}

static bool meets_bar(const struct row *row)
{
	for (int i = 0; i < ATTEMPTS; i++)
		if (measure(row) <= row->bar)
			return true;
	printf("%s, %zu B: over its bar in %d attempts\n", row->what, row->bytes, ATTEMPTS);
	return false;
}

static bool judge(struct end *end, char *source, char *mapped)
{
	const struct target priv = {.end = end,
				    .remote_addr = end->peer.private_addr,
				    .rkey = end->peer.private_rkey,
				    .source = source};
	const struct target shared = {.end = end,
				      .remote_addr = end->peer.shared_addr,
				      .rkey = end->peer.shared_rkey,
				      .source = source,
				      .mapped = mapped};
	const struct row rows[] = {
		{"private, process_vm_writev", &priv, write_by_kernel, 8, 1.3},
		{"private, process_vm_writev", &priv, write_by_kernel, 256 << 10, 1 / 0.9},
		{"private, process_vm_writev", &priv, write_by_kernel, 1 << 20, 1 / 0.9},
		{"private, process_vm_writev", &priv, write_by_kernel, 4 << 20, 1 / 0.9},
		{"shared mapping, process_vm_writev", &shared, write_by_kernel, 8, 0.25},
		{"shared mapping, memcpy", &shared, write_by_copy, 256 << 10, 1 / 0.8},
		{"shared mapping, memcpy", &shared, write_by_copy, 1 << 20, 1 / 0.8},
		{"shared mapping, memcpy", &shared, write_by_copy, 4 << 20, 1 / 0.8},
	};
	bool good = true;

	for (size_t i = 0; i < SXT_ARRAY_LEN(rows); i++)
		good = meets_bar(&rows[i]) && good;
	return good;
}

/* Speed means nothing if the bytes do not arrive. */
static void check_data(const struct end *end, char *source, const char *mapped)
{
	const struct target shared = {.end = (struct end *)end,
				      .remote_addr = end->peer.shared_addr,
				      .rkey = end->peer.shared_rkey,
				      .source = source};

	for (size_t i = 0; i < BYTES_MAX; i++)
		source[i] = (char)(i * 7 + i / 251);
	write_by_verbs(&shared, BYTES_MAX);
	if (memcmp(source, mapped, BYTES_MAX) != 0) {
		fprintf(stderr, "a WRITE of %zu bytes arrived changed\n", BYTES_MAX);
		exit(2);
	}
}

int main(void)
{
	struct end end = {0};
	int status = 0;
	int socks[2];
	int fd = memfd_create("soft_write", 0);
	char *source;
	char *mapped;
	bool good;
	char byte;
	pid_t child;

	if (fd < 0 || ftruncate(fd, (off_t)BYTES_MAX) != 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, socks) != 0)
		die("set-up");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		close(socks[0]);
		serve(socks[1], fd);
	}
	close(socks[1]);
	end_open(&end, "0");
	source = map_private();
	mapped = map_shared(fd);
	end.private_mr = end_register(&end, source);
	source_lkey = end.private_mr->lkey;
	exchange(&end, socks[0]);
	end_connect(&end);
	if (read(socks[0], &byte, 1) != 1)
		die("child");
	check_data(&end, source, mapped);
	good = judge(&end, source, mapped);
	close(socks[0]);
	if (waitpid(child, &status, 0) != child || status != 0)
		die("child");
	return good ? 0 : 1;
}
