/*
 * test_soft_faults.c - every call that the software HCA makes while a process attaches to the
 * fabric and opens, creates and registers, and while a fabric is read and set up, fails once.
 */
#include "core/log.h"
#include "core/sysfs.h"
#include "ib/soft/fabric.h"
#include "ib/soft/objects.h"
#include "ib/soft/sysfs_tree.h"
#include "tests/torture/faults.h"
#include "tests/torture/torture.h"
#include "tests/unit/ib/soft/rig.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#define ENDS_CNT 2
#define ACCESS   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define WHY      256

static struct {
	struct sxt_soft_engine *engine; /* attached, for the count; else NULL */
	char dir[PATH_MAX];             /* of the fabric of this process */
	char other[PATH_MAX];           /* of the fabric that is made */
	char file[PATH_MAX];            /* that it is read from */
	struct sxt_soft_state *state;   /* made, and open */
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_mr *dmabuf_mr;
	struct ibv_qp *qps[ENDS_CNT];
	struct ibv_mr *mrs[ENDS_CNT];
	uint8_t *memory[ENDS_CNT]; /* shared, and private */
	int memory_fd;
	struct sxt_soft_plan plan;
} bench = {.memory_fd = -1};

static void sink(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	(void)text;
	if (level <= SXT_LOG_WARN)
		torture_said();
}

static void nothing(void)
{
}

static long files_cnt;

static int count_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)st;
	(void)type;
	(void)at;
	files_cnt++;
	return 0;
}

static long count_files(const char *dir)
{
	files_cnt = 0;
	sxt_ignore(nftw(dir, count_file, 8, FTW_PHYS));
	return files_cnt;
}

static long count_items(const struct sxt_soft_table *table)
{
	long cnt = 0;

	for (uint32_t i = 0; i < table->high; i++)
		cnt += table->items[i] != NULL;
	return cnt;
}

/* Files of the state folder, slots, and bytes of the arena's heap. */
static long count_soft(void)
{
	const struct sxt_soft_engine *engine = bench.engine;
	long cnt = count_files(bench.dir) + count_files(bench.other);

	if (engine == NULL)
		return cnt;
	cnt += count_items(&engine->qps) + count_items(&engine->cqs) + count_items(&engine->srqs) +
	       count_items(&engine->mrs);
	for (uint32_t i = 0; i < SXT_SOFT_CONTEXTS_MAX; i++)
		cnt += atomic_load(&engine->self->arena->contexts[i].live) != 0;
	cnt += (long)SXT_SOFT_ARENA_HEAP;
	for (const struct sxt_soft_extent *at = engine->free_extents; at != NULL; at = at->next)
		cnt -= (long)at->bytes;
	return cnt;
}

static int check(int rc, void *const *out)
{
	if (rc == 0)
		assert_ptr_not_equal(*out, TORTURE_POISON);
	else
		assert_ptr_equal(*out, TORTURE_POISON);
	return rc;
}

/* Calls a function whose last argument is an output; what is not made is NULL afterwards. */
#define MAKE(out, function, ...)                                            \
	__extension__({                                                     \
		void *made_ = TORTURE_POISON;                               \
		int rc_;                                                    \
                                                                            \
		(out) = made_;                                              \
		rc_ = check(function(__VA_ARGS__, &(out)), (void *)&(out)); \
		if (rc_ != 0)                                               \
			(out) = NULL;                                       \
		rc_;                                                        \
	})

static int attach(void)
{
	struct sxt_soft_engine *engine = TORTURE_POISON;
	int rc = sxt_soft_engine_get(&engine);

	return check(rc, (void *)&engine);
}

static void detach(void)
{
	sxt_soft_engine_detach();
}

static void use_fabric(void)
{
	const struct rig_options options = {.mapped = true};
	struct rig_pair pair;

	rig_pair_open(&pair, &options, NULL);
	memset(pair.a.memory, 0x17, 4096);
	rig_pair_wr(&pair, IBV_WR_RDMA_WRITE, 4096);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.memory, pair.b.memory, 4096);
	rig_pair_close(&pair);
}

static const char *const attach_calls[] = {"calloc",          "open",  "mmap",  "realpath", "read",
					   "posix_fallocate", "flock", "mkdir", "fstat",    NULL};
/* What is known of processes comes from files in /proc: without them there is no such process. */
static const int attach_errors[] = {-ESRCH, 0};

static void a_process_attaches(void **state)
{
	static const struct torture_path path = {
		.name = "attaching to the fabric",
		.calls = attach_calls,
		.errors = attach_errors,
		.count = count_soft,
		.setup = nothing,
		.act = attach,
		.use = use_fabric,
		.undo = detach,
		.teardown = nothing,
	};

	(void)state;
	torture_run(&path);
}

static void open_memory(void)
{
	bench.memory_fd = memfd_create("torture", MFD_CLOEXEC);
	assert_true(bench.memory_fd >= 0);
	assert_int_equal(ftruncate(bench.memory_fd, RIG_BYTES), 0);
	bench.memory[0] =
		mmap(NULL, RIG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, bench.memory_fd, 0);
	bench.memory[1] =
		mmap(NULL, RIG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(bench.memory[0] != MAP_FAILED && bench.memory[1] != MAP_FAILED);
}

static void open_fabric(void)
{
	int cnt;

	assert_int_equal(sxt_soft_engine_get(&bench.engine), 0);
	assert_int_equal(sxt_soft_device_list(&bench.list, &cnt), 0);
	open_memory();
}

static void close_fabric(void)
{
	for (int i = 0; i < ENDS_CNT; i++)
		munmap(bench.memory[i], RIG_BYTES);
	close(bench.memory_fd);
	free(bench.list);
	bench.engine = NULL;
	sxt_soft_engine_detach();
}

static int make_context(void)
{
	struct verbs_context *verbs;
	int rc = MAKE(verbs, sxt_soft_context_open, bench.list[0]);

	bench.context = rc == 0 ? &verbs->context : NULL;
	return rc;
}

static int make_pd(void)
{
	return MAKE(bench.pd, sxt_soft_pd_alloc, bench.context);
}

static int make_channel(void)
{
	return MAKE(bench.channel, sxt_soft_channel_create, bench.context);
}

static int make_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64,
					   .wc_flags = IBV_WC_STANDARD_FLAGS,
					   .channel = bench.channel};
	struct ibv_cq_ex *cq;
	int rc = MAKE(cq, sxt_soft_cq_create, bench.context, &attr);

	bench.cq = rc == 0 ? ibv_cq_ex_to_cq(cq) : NULL;
	return rc;
}

static int make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 4}};

	return MAKE(bench.srq, sxt_soft_srq_create, bench.pd, &attr);
}

static int make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	assert_int_equal(sxt_soft_gid_query(bench.context, 1, 0, &attr.grh.dgid), 0);
	return MAKE(bench.ah, sxt_soft_ah_create, bench.pd, &attr);
}

/* The second with the extended interface. */
static int make_qp(int i)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = bench.cq,
		.recv_cq = bench.cq,
		.pd = bench.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap =
			{
				.max_send_wr = 16,
				.max_recv_wr = 16,
				.max_send_sge = 4,
				.max_recv_sge = 4,
				.max_inline_data = 64,
			},
	};

	if (i > 0) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	}
	return MAKE(bench.qps[i], sxt_soft_qp_create, bench.context, &attr);
}

static int make_mr(int i)
{
	const struct sxt_soft_mr_request request = {
		.addr = bench.memory[i],
		.iova = (uintptr_t)bench.memory[i],
		.length = RIG_BYTES,
		.access = ACCESS,
		.dmabuf_fd = -1,
	};

	return MAKE(bench.mrs[i], sxt_soft_mr_register, bench.pd, &request);
}

static int make_dmabuf_mr(void)
{
	const struct sxt_soft_mr_request request = {.length = RIG_BYTES,
						    .access = ACCESS,
						    .dmabuf_fd = bench.memory_fd};

	return MAKE(bench.dmabuf_mr, sxt_soft_mr_register, bench.pd, &request);
}

static void unmake_all(void)
{
	for (int i = 0; i < ENDS_CNT; i++) {
		if (bench.qps[i] != NULL)
			assert_int_equal(sxt_soft_qp_destroy(bench.qps[i]), 0);
		if (bench.mrs[i] != NULL)
			assert_int_equal(sxt_soft_mr_deregister(bench.mrs[i]), 0);
		bench.qps[i] = NULL;
		bench.mrs[i] = NULL;
	}
	if (bench.dmabuf_mr != NULL)
		assert_int_equal(sxt_soft_mr_deregister(bench.dmabuf_mr), 0);
	if (bench.ah != NULL)
		assert_int_equal(sxt_soft_ah_destroy(bench.ah), 0);
	if (bench.srq != NULL)
		assert_int_equal(sxt_soft_srq_destroy(bench.srq), 0);
	if (bench.cq != NULL)
		assert_int_equal(sxt_soft_cq_destroy(bench.cq), 0);
	if (bench.channel != NULL)
		assert_int_equal(sxt_soft_channel_destroy(bench.channel), 0);
	if (bench.pd != NULL)
		assert_int_equal(sxt_soft_pd_dealloc(bench.pd), 0);
	if (bench.context != NULL)
		sxt_soft_context_close(bench.context);
	bench.dmabuf_mr = NULL;
	bench.ah = NULL;
	bench.srq = NULL;
	bench.cq = NULL;
	bench.channel = NULL;
	bench.pd = NULL;
	bench.context = NULL;
}

static int make_all(void)
{
	static int (*const steps[])(void) = {make_context, make_pd, make_channel,  make_cq,
					     make_srq,     make_ah, make_dmabuf_mr};
	int rc = 0;

	for (size_t i = 0; i < SXT_ARRAY_LEN(steps) && rc == 0; i++)
		rc = steps[i]();
	for (int i = 0; i < ENDS_CNT && rc == 0; i++)
		rc = make_qp(i);
	for (int i = 0; i < ENDS_CNT && rc == 0; i++)
		rc = make_mr(i);
	if (rc != 0)
		unmake_all();
	return rc;
}

/* The first end writes from shared into private memory. */
static void use_all(void)
{
	struct rig_end ends[ENDS_CNT] = {{0}};
	struct rig_address address;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	for (int i = 0; i < ENDS_CNT; i++)
		ends[i] = (struct rig_end){
			.context = bench.context,
			.pd = bench.pd,
			.send_cq = bench.cq,
			.recv_cq = bench.cq,
			.qp = bench.qps[i],
			.mr = bench.mrs[i],
			.memory = bench.memory[i],
			.port_num = 1,
		};
	rig_connect(&ends[0], &ends[1], NULL);
	rig_address_of(&ends[1], &address);
	memset(bench.memory[0], 0x23, 4096);
	rig_wr(&ends[0], &address, IBV_WR_RDMA_WRITE, 4096, &sge, &wr);
	assert_int_equal(rig_post(&ends[0], &wr), 0);
	rig_expect(bench.cq, wr.wr_id, IBV_WC_SUCCESS);
	assert_memory_equal(bench.memory[0], bench.memory[1], 4096);
}

static const char *const all_calls[] = {"calloc",        "mkfifo", "open",  "timerfd_create",
					"epoll_create1", "mmap",   "fopen", "madvise",
					"epoll_ctl",     NULL};
static const int no_errors[] = {0};

static void everything_is_made(void **state)
{
	static const struct torture_path path = {
		.name = "opening a device, creating and registering",
		.calls = all_calls,
		.is_mute = true,
		.errors = no_errors,
		.count = count_soft,
		.setup = open_fabric,
		.act = make_all,
		.use = use_all,
		.undo = unmake_all,
		.teardown = close_fabric,
	};

	(void)state;
	torture_run(&path);
}

static const char fabric_text[] =
	"{\"version\": 1, \"hosts\": [{\"name\": \"h\", \"hcas\": [{\"name\": \"x\"}]}],\n"
	" \"faults\": [{\"at_ms\": 5, \"target\": \"h/x:1\", \"state\": \"down\"}]}\n";

/* A file, since reading it may fail too. */
static void write_plan(void)
{
	FILE *file = fopen(bench.file, "w");

	assert_non_null(file);
	assert_true(fputs(fabric_text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void remove_plan(void)
{
	assert_int_equal(unlink(bench.file), 0);
}

static int load_plan(void)
{
	struct sxt_soft_plan poisoned;
	char why[WHY] = "";
	int rc;

	memset(&poisoned, 0x5a, sizeof(poisoned));
	bench.plan = poisoned;
	rc = sxt_soft_plan_load(bench.file, &bench.plan, why, sizeof(why));
	if (rc == 0)
		return 0;
	assert_memory_equal(&bench.plan, &poisoned, sizeof(poisoned));
	if (why[0] != '\0')
		torture_said();
	return rc;
}

static int make_fabric(void)
{
	return sxt_soft_state_create(bench.other, bench.plan.fabric);
}

static void use_made_fabric(void)
{
	struct sxt_soft_state *made;

	assert_int_equal(sxt_soft_state_open(bench.other, &made), 0);
	assert_int_equal(made->fabric->host_cnt, bench.plan.fabric->host_cnt);
	assert_int_equal(sxt_soft_tree_create(made), 0);
	sxt_soft_state_close(made);
}

static void remove_fabric(void)
{
	assert_int_equal(sxt_soft_tree_remove(bench.other), 0);
}

static void use_plan(void)
{
	assert_int_equal(make_fabric(), 0);
	use_made_fabric();
	remove_fabric();
}

static void drop_plan(void)
{
	sxt_soft_plan_fini(&bench.plan);
}

/* The JSON library takes some of its own lacks of memory for an error of the text. */
static const int plan_errors[] = {-EINVAL, 0};
static const char *const plan_calls[] = {"fopen", "malloc", "calloc", NULL};

static void a_fabric_is_read(void **state)
{
	static const struct torture_path path = {
		.name = "reading a fabric",
		.calls = plan_calls,
		.errors = plan_errors,
		.count = count_soft,
		.setup = write_plan,
		.act = load_plan,
		.use = use_plan,
		.undo = drop_plan,
		.teardown = remove_plan,
	};

	(void)state;
	torture_run(&path);
}

static void take_plan(void)
{
	write_plan();
	assert_int_equal(load_plan(), 0);
	remove_plan();
}

static const char *const fabric_calls[] = {"malloc", "mkdir",     "mkfifo", "open",
					   "write",  "ftruncate", "rename", NULL};

static void a_fabric_is_made(void **state)
{
	static const struct torture_path path = {
		.name = "making a fabric's state folder",
		.calls = fabric_calls,
		.errors = no_errors,
		.count = count_soft,
		.setup = take_plan,
		.act = make_fabric,
		.use = use_made_fabric,
		.undo = remove_fabric,
		.teardown = drop_plan,
	};

	(void)state;
	torture_run(&path);
}

static void take_fabric(void)
{
	take_plan();
	assert_int_equal(make_fabric(), 0);
	assert_int_equal(sxt_soft_state_open(bench.other, &bench.state), 0);
}

static void remove_tree(void)
{
	char hosts[PATH_MAX];

	sxt_ignore(snprintf(hosts, sizeof(hosts), "%.*s/hosts", PATH_MAX - 16, bench.other));
	assert_int_equal(sxt_soft_tree_remove(hosts), 0);
}

/* What was written stays when it fails: its caller removes the whole folder. */
static int make_tree(void)
{
	int rc = sxt_soft_tree_create(bench.state);

	if (rc != 0)
		remove_tree();
	return rc;
}

static void use_tree(void)
{
	char root[PATH_MAX];
	char text[32];

	assert_int_equal(sxt_soft_tree_root(bench.state, 0, root), 0);
	assert_int_equal(sxt_sysfs_read(root, "/sys/class/infiniband/x/ports/1/state", text,
					sizeof(text)),
			 0);
	assert_string_equal(text, "4: ACTIVE");
}

static void drop_fabric(void)
{
	sxt_soft_state_close(bench.state);
	remove_fabric();
	drop_plan();
}

static const char *const tree_calls[] = {"mkdir",   "open",     "openat", "write",
					 "symlink", "renameat", NULL};

static void a_sysfs_tree_is_written(void **state)
{
	static const struct torture_path path = {
		.name = "writing a host's sysfs",
		.calls = tree_calls,
		.stride = 7, /* four calls a file */
		.errors = attach_errors,
		.count = count_soft,
		.setup = take_fabric,
		.act = make_tree,
		.use = use_tree,
		.undo = remove_tree,
		.teardown = drop_fabric,
	};

	(void)state;
	torture_run(&path);
}

static int setup(void **state)
{
	if (rig_fabric(state) != 0)
		return -1;
	sxt_ignore(snprintf(bench.dir, sizeof(bench.dir), "%s", getenv("SEXTANT_SOFT_STATE")));
	sxt_ignore(
		snprintf(bench.other, sizeof(bench.other), "%.*s-made", PATH_MAX - 16, bench.dir));
	sxt_ignore(snprintf(bench.file, sizeof(bench.file), "%.*s.json", PATH_MAX - 16, bench.dir));
	faults_free_clock();
	/* Its memory is ours then, and fails as ours does. */
	json_set_alloc_funcs(malloc, free);
	sxt_log_set_sink(sink);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_attaches),      cmocka_unit_test(everything_is_made),
		cmocka_unit_test(a_fabric_is_read),        cmocka_unit_test(a_fabric_is_made),
		cmocka_unit_test(a_sysfs_tree_is_written),
	};

	return cmocka_run_group_tests(tests, setup, rig_fabric_gone);
}
