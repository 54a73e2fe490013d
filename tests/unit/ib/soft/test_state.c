/*
 * test_state.c - the shared state file: made, joined, left, buried, and refused when damaged.
 */
#include "ib/soft/event.h"
#include "ib/soft/state.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[64];
static char dir[128];

static int make_base(void **state)
{
	static struct sxt_soft_fabric fabric;

	(void)state;
	memset(&fabric, 0, sizeof(fabric));
	fabric.host_cnt = 2;
	fabric.hca_cnt = 2;
	fabric.port_cnt = 2;
	snprintf(fabric.hosts[0].name, SXT_SOFT_NAME_MAX, "a");
	snprintf(fabric.hosts[1].name, SXT_SOFT_NAME_MAX, "b");
	fabric.ports[0].gid_cnt = 2;
	fabric.ports[0].gids[1].raw[15] = 7;
	fabric.ports[1].lid = 0x10;
	fabric.ports[1].lmc = 2;
	snprintf(base, sizeof(base), "/tmp/sxt-state-XXXXXX");
	if (mkdtemp(base) == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s/state", base);
	return sxt_soft_state_create(dir, &fabric);
}

static int remove_base(void **state)
{
	char command[160];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", base);
	return system(command);
}

static void an_attached_process_is_seen_until_it_leaves(void **state)
{
	struct sxt_soft_state *mine;
	struct sxt_soft_state *watcher;
	char folder[256];

	(void)state;
	assert_int_equal(sxt_soft_state_open(dir, &watcher), 0);
	assert_int_equal(sxt_soft_state_attach(dir, "b", &mine), 0);
	assert_int_equal(mine->host, 1);
	assert_int_equal(watcher->fabric->procs[mine->proc].pid, getpid());
	assert_true(sxt_soft_proc_is_alive(watcher->fabric, mine->proc, mine->proc_word));
	snprintf(folder, sizeof(folder), "%s/proc/%u", dir, mine->proc);
	assert_int_equal(access(folder, F_OK), 0);
	sxt_soft_state_close(mine);
	assert_int_not_equal(access(folder, F_OK), 0);
	assert_int_equal(sxt_soft_proc_word_state(watcher->fabric->procs[0].word),
			 SXT_SOFT_PROC_FREE);
	sxt_soft_state_close(watcher);
}

static void a_slot_taken_again_has_another_word(void **state)
{
	struct sxt_soft_state *mine;
	uint32_t slot;
	uint64_t word;

	(void)state;
	assert_int_equal(sxt_soft_state_attach(dir, "a", &mine), 0);
	slot = mine->proc;
	word = mine->proc_word;
	sxt_soft_state_close(mine);
	assert_int_equal(sxt_soft_state_attach(dir, "0", &mine), 0);
	assert_int_equal(mine->proc, slot);
	assert_false(sxt_soft_proc_is_alive(mine->fabric, slot, word));
	sxt_soft_state_close(mine);
}

static void burying_concerns_only_the_process_of_that_word(void **state)
{
	struct sxt_soft_state *mine;

	(void)state;
	assert_int_equal(sxt_soft_state_attach(dir, "a", &mine), 0);
	sxt_soft_proc_bury(mine, mine->proc, mine->proc_word - 4);
	assert_true(sxt_soft_proc_is_alive(mine->fabric, mine->proc, mine->proc_word));
	sxt_soft_proc_bury(mine, mine->proc, mine->proc_word);
	assert_int_equal(sxt_soft_proc_word_state(mine->fabric->procs[mine->proc].word),
			 SXT_SOFT_PROC_DEAD);
	sxt_soft_state_close(mine);
}

static void a_forked_child_closing_leaves_the_parents_slot(void **state)
{
	struct sxt_soft_state *mine;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(sxt_soft_state_attach(dir, "a", &mine), 0);
	child = fork();
	if (child == 0) {
		sxt_soft_state_close(mine);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(sxt_soft_proc_is_alive(mine->fabric, mine->proc, mine->proc_word));
	sxt_soft_state_close(mine);
}

static void unknown_hosts_and_folders_are_refused(void **state)
{
	struct sxt_soft_state *untouched = NULL;

	(void)state;
	assert_int_equal(sxt_soft_state_attach(dir, "c", &untouched), -ENODEV);
	assert_int_equal(sxt_soft_state_attach(dir, "2", &untouched), -ENODEV);
	assert_int_equal(sxt_soft_state_attach(base, "a", &untouched), -ENOENT);
	unsetenv("SEXTANT_SOFT_STATE");
	assert_int_equal(sxt_soft_state_attach(NULL, "a", &untouched), -ENODEV);
	assert_null(untouched);
}

static void a_state_of_another_version_or_length_is_refused(void **state)
{
	struct sxt_soft_state *untouched = NULL;
	struct sxt_soft_state *writer;
	char path[256];

	(void)state;
	assert_int_equal(sxt_soft_state_open(dir, &writer), 0);
	writer->fabric->version++;
	assert_int_equal(sxt_soft_state_open(dir, &untouched), -EPROTO);
	writer->fabric->version--;
	sxt_soft_state_close(writer);
	snprintf(path, sizeof(path), "%s/fabric", dir);
	assert_int_equal(truncate(path, 4096 * 3), 0);
	assert_int_equal(sxt_soft_state_open(dir, &untouched), -EPROTO);
	assert_int_equal(truncate(path, 7), 0);
	assert_int_equal(sxt_soft_state_open(dir, &untouched), -EPROTO);
	assert_null(untouched);
}

static void ports_are_found_by_gid_and_by_lid(void **state)
{
	uint8_t gid[16] = {[15] = 7};
	struct sxt_soft_state *mine;

	(void)state;
	assert_int_equal(sxt_soft_state_open(dir, &mine), 0);
	assert_int_equal(sxt_soft_port_by_gid(mine->fabric, gid), 0);
	gid[0] = 1;
	assert_int_equal(sxt_soft_port_by_gid(mine->fabric, gid), -ENOENT);
	assert_int_equal(sxt_soft_port_by_lid(mine->fabric, 0x10), 1);
	assert_int_equal(sxt_soft_port_by_lid(mine->fabric, 0x13), 1);
	assert_int_equal(sxt_soft_port_by_lid(mine->fabric, 0x14), -ENOENT);
	assert_int_equal(sxt_soft_port_by_lid(mine->fabric, 0), -ENOENT);
	sxt_soft_state_close(mine);
}

static void a_changed_gid_table_is_everybodys_at_once(void **state)
{
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];
	struct sxt_soft_state *one;
	struct sxt_soft_state *other;

	(void)state;
	assert_int_equal(sxt_soft_state_open(dir, &one), 0);
	assert_int_equal(sxt_soft_state_open(dir, &other), 0);
	sxt_soft_gids_read(&one->fabric->ports[0], gids);
	/* Both tables take their turns; what is not changed is carried over. */
	for (uint8_t byte = 8; byte < 12; byte++) {
		const uint8_t before[16] = {[15] = (uint8_t)(byte - 1)};

		gids[1].raw[15] = byte;
		sxt_soft_gids_write(&one->fabric->ports[0], gids);
		memset(gids, 0xff, sizeof(gids));
		sxt_soft_gids_read(&other->fabric->ports[0], gids);
		assert_int_equal(gids[1].raw[15], byte);
		assert_true(sxt_soft_gid_is_empty(&gids[0]));
		assert_false(sxt_soft_gid_is_empty(&gids[1]));
		assert_int_equal(sxt_soft_port_by_gid(other->fabric, gids[1].raw), 0);
		assert_int_equal(sxt_soft_port_by_gid(other->fabric, before), -ENOENT);
	}
	sxt_soft_state_close(other);
	sxt_soft_state_close(one);
}

static void a_mapped_file_is_one_memory_for_all(void **state)
{
	struct sxt_soft_state *one;
	struct sxt_soft_state *other;
	void *first;
	void *second;

	(void)state;
	assert_int_equal(sxt_soft_state_open(dir, &one), 0);
	assert_int_equal(sxt_soft_state_open(dir, &other), 0);
	assert_int_equal(sxt_soft_state_map(one, "table", 8192, &first), 0);
	assert_int_equal(sxt_soft_state_map(other, "table", 4096, &second), 0);
	((char *)first)[100] = 'x';
	assert_int_equal(((char *)second)[100], 'x');
	assert_int_equal(sxt_soft_state_map(one, "proc/5/rings", 4096, &first), -ENOENT);
	sxt_soft_state_close(other);
	sxt_soft_state_close(one);
}

static void a_fault_is_taken_as_often_as_it_was_armed(void **state)
{
	_Atomic uint64_t word = sxt_soft_fault_word(12, 2);
	uint32_t value = 0;

	(void)state;
	assert_true(sxt_soft_fault_take(&word, &value));
	assert_int_equal(value, 12);
	assert_true(sxt_soft_fault_take(&word, &value));
	assert_false(sxt_soft_fault_take(&word, &value));
	assert_int_equal(word, 0);
}

static void an_event_reaches_every_context_of_its_hca(void **state)
{
	const struct sxt_soft_event sent = {.type = 10, .port_num = 1};
	struct sxt_soft_event got;
	struct sxt_soft_event_box mine[3];
	struct sxt_soft_state *attached;

	(void)state;
	assert_int_equal(sxt_soft_state_attach(dir, "a", &attached), 0);
	assert_int_equal(sxt_soft_event_open(attached, 1, &mine[0]), 0);
	assert_int_equal(sxt_soft_event_open(attached, 1, &mine[1]), 0);
	assert_int_equal(sxt_soft_event_open(attached, 11, &mine[2]), 0);
	assert_int_equal(sxt_soft_event_post(attached, 1, &sent), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(read(mine[i].fd, &got, sizeof(got)), sizeof(got));
		assert_memory_equal(&got, &sent, sizeof(got));
	}
	assert_int_equal(fcntl(mine[2].fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(read(mine[2].fd, &got, sizeof(got)), -1);
	for (int i = 0; i < 3; i++)
		sxt_soft_event_close(&mine[i]);
	assert_int_equal(sxt_soft_event_post(attached, 1, &sent), 0);
	sxt_soft_state_close(attached);
}

static void a_full_box_refuses_and_never_waits(void **state)
{
	const struct sxt_soft_event sent = {.type = 3, .object = 99};
	struct sxt_soft_event_box box;
	struct sxt_soft_state *attached;
	int rc = 0;

	(void)state;
	assert_int_equal(sxt_soft_state_attach(dir, "a", &attached), 0);
	assert_int_equal(sxt_soft_event_open(attached, 0, &box), 0);
	for (int i = 0; i < 1000000 && rc == 0; i++)
		rc = sxt_soft_event_send(box.path, &sent);
	assert_int_equal(rc, -ENOBUFS);
	sxt_soft_event_close(&box);
	sxt_soft_event_close(&box);
	sxt_soft_state_close(attached);
}

int main(void)
{
#define STATE_TEST(name) cmocka_unit_test_setup_teardown(name, make_base, remove_base)
	const struct CMUnitTest tests[] = {
		STATE_TEST(an_attached_process_is_seen_until_it_leaves),
		STATE_TEST(a_slot_taken_again_has_another_word),
		STATE_TEST(burying_concerns_only_the_process_of_that_word),
		STATE_TEST(a_forked_child_closing_leaves_the_parents_slot),
		STATE_TEST(unknown_hosts_and_folders_are_refused),
		STATE_TEST(a_state_of_another_version_or_length_is_refused),
		STATE_TEST(ports_are_found_by_gid_and_by_lid),
		STATE_TEST(a_changed_gid_table_is_everybodys_at_once),
		STATE_TEST(a_mapped_file_is_one_memory_for_all),
		STATE_TEST(a_fault_is_taken_as_often_as_it_was_armed),
		STATE_TEST(an_event_reaches_every_context_of_its_hca),
		STATE_TEST(a_full_box_refuses_and_never_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
