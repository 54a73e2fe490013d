/*
 * test_processes.c - queue pairs between two processes: data, deaths, forks.
 */
#include "tests/unit/ib/soft/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static void parent_of_send_and_write(struct meeting *meeting, const struct rig_options *options)
{
	struct rig_end end;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

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

static void two_processes(const struct rig_options *options)
{
	struct meeting *meeting = meeting_make();
	int status;
	pid_t child = fork();

	if (child == 0) {
		child_of_send_and_write(meeting, options);
		_exit(0);
	}
	parent_of_send_and_write(meeting, options);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	munmap(meeting, sizeof(*meeting));
}

static void processes_move_private_memory(void **state)
{
	(void)state;
	two_processes(NULL);
}

static void processes_move_mapped_memory(void **state)
{
	struct rig_options options = {.mapped = true};

	(void)state;
	two_processes(&options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(processes_move_private_memory),
		RIG_TEST(processes_move_mapped_memory),
	};

	return cmocka_run_group_tests(tests, rig_fabric, rig_fabric_gone);
}
