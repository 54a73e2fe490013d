/*
 * test_processes.c - queue pairs between two processes: data, deaths, forks.
 */
#include "tests/unit/ib/soft/rig.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	CHILD,
	PARENT
};

/* What the two processes share besides the fabric. */
struct meeting {
	struct rig_address address[2]; /* CHILD, PARENT */
	_Atomic int step;              /* see wait_step() */
};

static struct meeting *meeting_make(void)
{
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(meeting != MAP_FAILED);
	return meeting;
}

/* Waits for the other process to get that far. */
static void wait_step(struct meeting *meeting, int step)
{
	uint64_t until = sxt_soft_now_ns() + 10000000000u;

	while (atomic_load(&meeting->step) < step && sxt_soft_now_ns() < until)
		usleep(100);
	assert_true(atomic_load(&meeting->step) >= step);
}

/* One process's half of connecting to the other. */
static void meet(struct meeting *meeting, struct rig_end *end, int me, const struct rig_path *path)
{
	rig_address_of(end, &meeting->address[me]);
	rig_to_init(end, path);
	if (me == CHILD)
		assert_int_equal(rig_post_recv(end, 11, 4096, 4096), 0);
	atomic_fetch_add(&meeting->step, 1);
	wait_step(meeting, 2);
	rig_to_rtr(end, &meeting->address[1 - me], path);
	rig_to_rts(end, path);
	atomic_fetch_add(&meeting->step, 1);
	wait_step(meeting, 4);
}

/* The child receives one message without any verb after posting the receive, then one WRITE. */
static void child_of_send_and_write(struct meeting *meeting, const struct rig_options *options)
{
	struct rig_end end;
	struct ibv_wc wc;

	setenv("SEXTANT_SOFT_HOST", "b", 1);
	rig_end_open(&end, options);
	meet(meeting, &end, CHILD, NULL);
	wait_step(meeting, 5);
	assert_int_equal(end.memory[0], 0x77);
	assert_int_equal(end.memory[99999], 0x77);
	assert_int_equal(end.memory[100000], 0);
	rig_poll(end.recv_cq, &wc);
	assert_int_equal(wc.wr_id, 11);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_int_equal(wc.qp_num, end.qp->qp_num);
	assert_int_equal(wc.src_qp, meeting->address[PARENT].qpn);
	rig_end_close(&end);
	sxt_soft_engine_detach();
}

static void parent_of_send_and_write(struct meeting *meeting, const struct rig_options *options,
				     pid_t child)
{
	struct rig_end end;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)child;
	rig_end_open(&end, options);
	meet(meeting, &end, PARENT, NULL);
	memset(end.memory, 0x77, 100000);
	rig_wr(&end, &meeting->address[CHILD], IBV_WR_SEND_WITH_IMM, 100, &sge, &wr);
	wr.imm_data = 0x12345678;
	assert_int_equal(rig_post(&end, &wr), 0);
	rig_expect(end.send_cq, 7, IBV_WC_SUCCESS);
	rig_wr(&end, &meeting->address[CHILD], IBV_WR_RDMA_WRITE, 100000, &sge, &wr);
	assert_int_equal(rig_post(&end, &wr), 0);
	rig_expect(end.send_cq, 7, IBV_WC_SUCCESS);
	atomic_fetch_add(&meeting->step, 1);
	rig_end_close(&end);
}

/* Forks: @child runs in the new process and ends it with status 0; @parent may be told of it. */
struct act {
	void (*child)(struct meeting *meeting, const struct rig_options *options);
	void (*parent)(struct meeting *meeting, const struct rig_options *options, pid_t child);
};

/* Return: how the child ended. */
static int two_processes(const struct act *act, const struct rig_options *options)
{
	struct meeting *meeting = meeting_make();
	int status;
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		act->child(meeting, options);
		_exit(0);
	}
	act->parent(meeting, options, child);
	assert_int_equal(waitpid(child, &status, 0), child);
	munmap(meeting, sizeof(*meeting));
	return status;
}

static const struct act send_and_write = {child_of_send_and_write, parent_of_send_and_write};

static void processes_move_private_memory(void **state)
{
	(void)state;
	assert_int_equal(two_processes(&send_and_write, NULL), 0);
}

static void processes_move_mapped_memory(void **state)
{
	struct rig_options options = {.mapped = true};

	(void)state;
	assert_int_equal(two_processes(&send_and_write, &options), 0);
}

#define ADDS 20000u

/* Both ends add to the same word of the child's memory at the same time. */
static void add_many(struct rig_end *end, const struct rig_address *to)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	rig_wr(end, to, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, &sge, &wr);
	sge.addr += 4096;
	wr.wr.atomic.compare_add = 1;
	for (uint32_t i = 0; i < ADDS; i++) {
		assert_int_equal(rig_post(end, &wr), 0);
		rig_expect(end->send_cq, 7, IBV_WC_SUCCESS);
	}
}

static void child_of_adds(struct meeting *meeting, const struct rig_options *options)
{
	struct rig_end end;
	struct rig_end self;
	struct rig_address of_self;
	struct rig_address to;

	rig_end_open(&end, options);
	rig_end_open(&self, options);
	meet(meeting, &end, CHILD, NULL);
	rig_address_of(&self, &of_self);
	rig_to_init(&self, NULL);
	rig_to_rtr(&self, &of_self, NULL);
	rig_to_rts(&self, NULL);
	/* A loop over the own HCA, into the memory the parent adds to. */
	to = meeting->address[CHILD];
	assert_int_equal(sxt_soft_mr_deregister(self.mr), 0);
	self.mr = NULL;
	munmap(self.memory, self.bytes);
	{
		struct sxt_soft_mr_request request = {.addr = end.memory,
						      .iova = (uintptr_t)end.memory,
						      .length = RIG_BYTES,
						      .dmabuf_fd = -1,
						      .access = IBV_ACCESS_LOCAL_WRITE |
								IBV_ACCESS_REMOTE_ATOMIC |
								IBV_ACCESS_REMOTE_WRITE};

		assert_int_equal(sxt_soft_mr_register(self.pd, &request, &self.mr), 0);
	}
	self.memory = end.memory + 8192;
	to.rkey = self.mr->rkey;
	add_many(&self, &to);
	wait_step(meeting, 5);
	assert_int_equal(*(uint64_t *)(void *)end.memory, 2 * ADDS);
	_exit(0); /* objects and all: what is left behind must do no harm */
}

static void parent_of_adds(struct meeting *meeting, const struct rig_options *options, pid_t child)
{
	struct rig_end end;

	(void)child;
	rig_end_open(&end, options);
	meet(meeting, &end, PARENT, NULL);
	add_many(&end, &meeting->address[CHILD]);
	atomic_fetch_add(&meeting->step, 1);
	rig_end_close(&end);
}

static const struct act adds = {child_of_adds, parent_of_adds};

static void atomics_of_two_processes_do_not_lose_each_other(void **state)
{
	struct rig_options mapped = {.mapped = true};

	(void)state;
	assert_int_equal(two_processes(&adds, NULL), 0);
	assert_int_equal(two_processes(&adds, &mapped), 0);
}

/* Takes its own QP's lock to the grave, as a sender killed in the middle takes its peer's. */
static void child_that_dies(struct meeting *meeting, const struct rig_options *options)
{
	struct rig_end end;

	rig_end_open(&end, options);
	meet(meeting, &end, CHILD, NULL);
	sxt_soft_shared_lock(&SXT_CONTAINER_OF(end.qp, struct sxt_soft_qp, base)->shared->lock);
	atomic_fetch_add(&meeting->step, 1);
	kill(getpid(), SIGKILL);
}

static void bury(pid_t pid)
{
	struct sxt_soft_engine *engine;

	assert_int_equal(sxt_soft_engine_get(&engine), 0);
	for (uint32_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		struct sxt_soft_proc *proc = &engine->state->fabric->procs[i];

		if (proc->pid == pid)
			sxt_soft_proc_bury(engine->state, i, atomic_load(&proc->word));
	}
}

static void parent_of_the_dead(struct meeting *meeting, const struct rig_options *options,
			       pid_t child)
{
	struct rig_end end;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	rig_end_open(&end, options);
	meet(meeting, &end, PARENT, NULL);
	wait_step(meeting, 5);
	/* A zombie still: its memory is gone, its name is not. */
	assert_int_equal(waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT), 0);
	if (options != NULL && options->mapped)
		bury(child);
	rig_wr(&end, &meeting->address[CHILD], IBV_WR_RDMA_WRITE, 100, &sge, &wr);
	assert_int_equal(rig_post(&end, &wr), 0);
	rig_expect(end.send_cq, 7, IBV_WC_RETRY_EXC_ERR);
	rig_end_close(&end);
	bury(child);
}

static const struct act death = {child_that_dies, parent_of_the_dead};

static void a_killed_peer_ends_in_retries_exceeded(void **state)
{
	struct rig_options mapped = {.mapped = true};

	(void)state;
	assert_int_equal(two_processes(&death, NULL), SIGKILL);
	assert_int_equal(two_processes(&death, &mapped), SIGKILL);
}

/* The child sends without a pause until it is killed; the parent's QP must stay usable. */
static void child_that_sends(struct meeting *meeting, const struct rig_options *options)
{
	const struct rig_path path = {.rnr_retry = 7};
	struct rig_end end;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	rig_end_open(&end, options);
	meet(meeting, &end, CHILD, &path);
	rig_wr(&end, &meeting->address[PARENT], IBV_WR_RDMA_WRITE_WITH_IMM, 4096, &sge, &wr);
	for (;;) {
		if (rig_post(&end, &wr) != 0)
			_exit(1);
		while (ibv_poll_cq(end.send_cq, 1, &wc) == 0)
			sched_yield();
	}
}

static void parent_of_the_sender(struct meeting *meeting, const struct rig_options *options,
				 pid_t child)
{
	struct rig_end end;
	struct ibv_wc wc;

	rig_end_open(&end, options);
	meet(meeting, &end, PARENT, NULL);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(rig_post_recv(&end, i, 0, 0), 0);
		rig_poll(end.recv_cq, &wc);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
	}
	assert_int_equal(rig_post_recv(&end, 1, 0, 0), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT), 0);
	rig_end_close(&end);
	bury(child);
}

static const struct act sender = {child_that_sends, parent_of_the_sender};

static void a_killed_sender_blocks_nobody(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++)
		assert_int_equal(two_processes(&sender, NULL), SIGKILL);
}

/* The parent sleeps; the child's completion wakes it. */
static void child_that_wakes(struct meeting *meeting, const struct rig_options *options)
{
	struct rig_end end;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	rig_end_open(&end, options);
	meet(meeting, &end, CHILD, NULL);
	wait_step(meeting, 5);
	usleep(20000);
	rig_wr(&end, &meeting->address[PARENT], IBV_WR_SEND, 8, &sge, &wr);
	assert_int_equal(rig_post(&end, &wr), 0);
	rig_expect(end.send_cq, 7, IBV_WC_SUCCESS);
	_exit(0);
}

static void parent_that_sleeps(struct meeting *meeting, const struct rig_options *options,
			       pid_t child)
{
	struct rig_end end;
	struct ibv_cq *cq;
	void *context;

	(void)child;
	rig_end_open(&end, options);
	meet(meeting, &end, PARENT, NULL);
	assert_int_equal(rig_post_recv(&end, 9, 0, 8), 0);
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
	atomic_fetch_add(&meeting->step, 1);
	assert_int_equal(sxt_soft_cq_event_get(end.channel, &cq, &context), 0);
	sxt_soft_cq_event_ack(cq, 1);
	rig_expect(end.recv_cq, 9, IBV_WC_SUCCESS);
	rig_end_close(&end);
}

static const struct act sleeper = {child_that_wakes, parent_that_sleeps};

static void a_sleeper_is_woken_by_another_process(void **state)
{
	struct rig_options options = {.with_channel = true};

	(void)state;
	assert_int_equal(two_processes(&sleeper, &options), 0);
}

/* Sends once; the parent sees to it that this never returns. */
static void child_that_is_stopped(struct meeting *meeting, const struct rig_options *options)
{
	struct rig_end end;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	rig_end_open(&end, options);
	end.memory[0] = 0x77;
	meet(meeting, &end, CHILD, NULL);
	wait_step(meeting, 5);
	rig_wr(&end, &meeting->address[PARENT], IBV_WR_SEND, 8, &sge, &wr);
	sxt_ignore(rig_post(&end, &wr));
}

static void wait_asleep(pid_t pid)
{
	char path[64];
	char text[512] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (strstr(text, ") S ") == NULL) {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		assert_non_null(fgets(text, sizeof(text), file));
		fclose(file);
	}
}

/* The data are there, the completion is not: the sender waits for the CQ's lock when it is killed.
 */
static void parent_that_kills(struct meeting *meeting, const struct rig_options *options,
			      pid_t child)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct sxt_soft_cq_shared *cq;
	struct rig_end end;

	rig_end_open(&end, options);
	meet(meeting, &end, PARENT, NULL);
	cq = SXT_CONTAINER_OF(end.recv_cq, struct sxt_soft_cq, base)->shared;
	assert_int_equal(rig_post_recv(&end, 1, 0, 8), 0);
	assert_int_equal(rig_post_recv(&end, 2, 8, 8), 0);
	sxt_soft_shared_lock(&cq->lock);
	atomic_fetch_add(&meeting->step, 1);
	while (*(volatile uint8_t *)end.memory != 0x77)
		usleep(100);
	wait_asleep(child);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT), 0);
	sxt_soft_shared_unlock(&cq->lock);
	assert_int_equal(sxt_soft_qp_modify(end.qp, &attr, IBV_QP_STATE), 0);
	rig_expect(end.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	rig_expect(end.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	rig_nothing(end.recv_cq);
	rig_end_close(&end);
	bury(child);
}

static const struct act stopped = {child_that_is_stopped, parent_that_kills};

static void a_killed_sender_loses_no_receive(void **state)
{
	(void)state;
	assert_int_equal(two_processes(&stopped, NULL), SIGKILL);
}

/* A sender killed right after the completion leaves the receive in the ring. */
static void a_receive_is_completed_once(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct rig_pair pair;
	struct sxt_soft_qp_shared *qp;

	(void)state;
	rig_pair_open(&pair, NULL, NULL);
	qp = SXT_CONTAINER_OF(pair.b.qp, struct sxt_soft_qp, base)->shared;
	assert_int_equal(rig_post_recv(&pair.b, 1, 0, 8), 0);
	assert_int_equal(rig_post_recv(&pair.b, 2, 8, 8), 0);
	rig_pair_wr(&pair, IBV_WR_SEND, 8);
	rig_pair_run(&pair, IBV_WC_SUCCESS);
	atomic_fetch_sub(&qp->rq.tail, 1);
	assert_int_equal(sxt_soft_qp_modify(pair.b.qp, &attr, IBV_QP_STATE), 0);
	rig_expect(pair.b.recv_cq, 1, IBV_WC_SUCCESS);
	rig_expect(pair.b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	rig_nothing(pair.b.recv_cq);
	rig_pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(processes_move_private_memory),
		RIG_TEST(processes_move_mapped_memory),
		RIG_TEST(atomics_of_two_processes_do_not_lose_each_other),
		RIG_TEST(a_killed_peer_ends_in_retries_exceeded),
		RIG_TEST(a_killed_sender_blocks_nobody),
		RIG_TEST(a_killed_sender_loses_no_receive),
		RIG_TEST(a_receive_is_completed_once),
		RIG_TEST(a_sleeper_is_woken_by_another_process),
	};

	return cmocka_run_group_tests(tests, rig_fabric, rig_fabric_gone);
}
