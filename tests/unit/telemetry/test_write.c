/*
 * test_write.c - making a segment: name, mode, size, identity; where it cannot be made; ports;
 * what a forked child may do to it.
 */
#include "telemetry/own.h"
#include "tests/unit/telemetry/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int wait_for(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_segment_is_named_for_its_process_and_private(void **state)
{
	struct sxt_tele *tele = rig_create(16);
	char wanted[PATH_MAX];
	struct stat info;

	(void)state;
	snprintf(wanted, sizeof(wanted), "%s/sextant-%u-%d-%llu", rig_dir, geteuid(), getpid(),
		 (unsigned long long)sxt_tele_start_time());
	assert_string_equal(tele->path, wanted);
	assert_int_equal(stat(wanted, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0600);
	assert_int_equal(info.st_size, sxt_tele_bytes(16));
	assert_true((uint64_t)info.st_blocks * 512 >= sxt_tele_bytes(16)); /* reserved */
	sxt_tele_destroy(tele);
	assert_int_equal(stat(wanted, &info), -1);
	assert_int_equal(rig_warn_cnt, 0);
}

static void the_size_is_what_the_documentation_says(void **state)
{
	(void)state;
	assert_int_equal(sxt_tele_bytes(0), 4096 + 256 * (64 + 1024 + 1024) + 64 * 256 + 160 * 110);
	assert_int_equal(sxt_tele_bytes(4096), 11064512);
	assert_int_equal(sxt_tele_bytes(SXT_TELE_CONNS_MAX),
			 sxt_tele_bytes(0) + 2560ull * SXT_TELE_CONNS_MAX);
}

static void a_name_that_is_taken_is_counted_on(void **state)
{
	struct sxt_tele *first = rig_create(1);
	struct sxt_tele *second = rig_create(1);

	(void)state;
	assert_string_not_equal(first->path, second->path);
	assert_int_equal(rig_files(), 2);
	sxt_tele_destroy(first);
	sxt_tele_destroy(second);
	assert_int_equal(rig_files(), 0);
}

static void the_header_says_who_wrote_it(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	const struct sxt_tele_header *header = sxt_tele_header(view);
	char host[65] = "";

	(void)state;
	gethostname(host, sizeof(host) - 1);
	assert_int_equal(header->pid, getpid());
	assert_int_equal(header->uid, geteuid());
	assert_int_equal(header->start_time, sxt_tele_start_time());
	assert_true(header->pid_ns != 0);
	assert_string_equal(header->host, host);
	assert_string_equal(header->release, "0.1.0");
	assert_string_equal(header->command, "test_tele_write");
	assert_int_equal(header->abi, 0);
	sxt_tele_note_abi(tele, 11);
	assert_true(sxt_tele_refresh(view));
	assert_int_equal(header->abi, 11);
	assert_true(header->made_mono_ns <= sxt_sys_host.now_ns());
	assert_true(sxt_tele_now(view) >= header->made_ticks);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

/* One row: variables "NAME=VALUE" of a launcher, and what becomes of them. */
struct launcher {
	const char *variables[4];
	const char *job;
	int rank;
	int ranks;
};

static void identify(const struct launcher *launcher, struct sxt_tele_header *out)
{
	static const char *const all[] = {"RANK",
					  "WORLD_SIZE",
					  "OMPI_COMM_WORLD_RANK",
					  "OMPI_COMM_WORLD_SIZE",
					  "PMI_RANK",
					  "PMI_SIZE",
					  "SLURM_PROCID",
					  "SLURM_NTASKS",
					  "SLURM_JOB_ID",
					  "SLURM_STEP_ID",
					  "POD_NAMESPACE",
					  "POD_NAME",
					  "KUBERNETES_SERVICE_HOST",
					  "HOSTNAME",
					  "TORCHELASTIC_RUN_ID"};

	for (size_t i = 0; i < SXT_ARRAY_LEN(all); i++)
		unsetenv(all[i]);
	for (size_t i = 0; i < 4 && launcher->variables[i] != NULL; i++) {
		char name[128];
		char *value;

		snprintf(name, sizeof(name), "%s", launcher->variables[i]);
		value = strchr(name, '=');
		*value = '\0';
		setenv(name, value + 1, 1);
	}
	memset(out, 0, sizeof(*out));
	sxt_tele_identify(out, "1");
}

static void job_and_rank_come_from_the_launcher(void **state)
{
	static const struct launcher launchers[] = {
		{{NULL}, "", -1, -1},
		{{"SLURM_JOB_ID=123", "SLURM_STEP_ID=0", "SLURM_PROCID=3", "SLURM_NTASKS=8"},
		 "slurm:123.0",
		 3,
		 8},
		{{"SLURM_JOB_ID=123"}, "slurm:123", -1, -1},
		{{"POD_NAMESPACE=ml", "POD_NAME=job-0", "RANK=1", "WORLD_SIZE=2"},
		 "k8s:ml/job-0",
		 1,
		 2},
		{{"KUBERNETES_SERVICE_HOST=10.0.0.1", "HOSTNAME=job-1"}, "k8s:job-1", -1, -1},
		{{"HOSTNAME=node1"}, "", -1, -1},
		{{"TORCHELASTIC_RUN_ID=abc", "RANK=0", "WORLD_SIZE=1"}, "torchrun:abc", 0, 1},
		{{"TORCHELASTIC_RUN_ID=none"}, "", -1, -1},
		{{"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=6"}, "", 5, 6},
		{{"PMI_RANK=5", "PMI_SIZE=6"}, "", 5, 6},
		{{"RANK=1", "WORLD_SIZE=4", "SLURM_PROCID=0", "SLURM_NTASKS=1"}, "", 1, 4},
		{{"RANK=1x", "WORLD_SIZE=4", "PMI_RANK=0", "PMI_SIZE=1"}, "", 0, 1},
		{{"RANK=4", "WORLD_SIZE=4"}, "", -1, -1},
		{{"RANK=99999999999", "WORLD_SIZE=4"}, "", -1, -1},
		{{"RANK=", "WORLD_SIZE=4"}, "", -1, -1},
		{{"SLURM_JOB_ID=1\n2"}, "slurm:1?2", -1, -1},
	};
	struct sxt_tele_header header;

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(launchers); i++) {
		identify(&launchers[i], &header);
		assert_string_equal(header.job, launchers[i].job);
		assert_int_equal(header.rank, launchers[i].rank);
		assert_int_equal(header.ranks, launchers[i].ranks);
	}
}

static void a_folder_that_is_missing_turns_telemetry_off(void **state)
{
	const struct sxt_tele_options options = {"/dev/shm/sxt_tele_none", 16, 3600, 60, "0.1.0"};
	struct sxt_tele *tele = (void *)&options;

	(void)state;
	assert_int_equal(sxt_tele_create(&options, &tele), -ENOENT);
	assert_ptr_equal(tele, &options);
	assert_int_equal(rig_warn_cnt, 1);
	assert_non_null(strstr(rig_warn, "sxt_tele_none: No such file or directory"));
	assert_non_null(strstr(rig_warn, "SEXTANT_TELEMETRY=0"));
}

/* In a child, since the mount lasts as long as the namespace. Return: its exit status. */
static int create_on_a_mount(unsigned long flags, const char *data, int wanted, const char *word)
{
	const struct sxt_tele_options options = {rig_dir, 16, 3600, 60, "0.1.0"};
	struct sxt_tele *tele = NULL;
	pid_t child = fork();

	if (child != 0)
		return wait_for(child);
	if (unshare(CLONE_NEWNS | (geteuid() != 0 ? CLONE_NEWUSER : 0)) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", rig_dir, "tmpfs", flags, data) != 0)
		_exit(77);
	if (sxt_tele_create(&options, &tele) != wanted)
		_exit(1);
	if (rig_warn_cnt != 1 || strstr(rig_warn, word) == NULL)
		_exit(2);
	_exit(flags == 0 && rig_files() != 0 ? 3 : 0);
}

static void a_folder_without_room_turns_telemetry_off(void **state)
{
	int status = create_on_a_mount(0, "size=64k", -ENOSPC, "65536 bytes are free");

	(void)state;
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
	/* Room for the segment, but not for as much again: that is somebody else's. */
	assert_int_equal(create_on_a_mount(0, "size=800k", -ENOSPC, "half of what is free"), 0);
}

static void a_folder_that_is_read_only_turns_telemetry_off(void **state)
{
	int status = create_on_a_mount(MS_RDONLY, NULL, -EROFS, "Read-only file system");

	(void)state;
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static void a_port_is_seen_and_its_changes_are_told(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_port port = {.state = SXT_TELE_PORT_UP, .hca = "mlx5_0", .num = 1};
	struct sxt_tele_port seen;
	struct sxt_tele_event event;

	(void)state;
	assert_false(sxt_tele_port_get(view, 2, &seen));
	sxt_tele_port_set(tele, 2, &port);
	port.flaps = 3;
	sxt_tele_port_set(tele, 2, &port); /* no change of state, no event */
	port.state = SXT_TELE_PORT_DOWN;
	snprintf(port.reason, sizeof(port.reason), "link down");
	sxt_tele_port_set(tele, 2, &port);
	sxt_tele_port_set(tele, SXT_TELE_PORTS_CAP, &port); /* ignored */
	assert_true(sxt_tele_port_get(view, 2, &seen));
	assert_int_equal(seen.state, SXT_TELE_PORT_DOWN);
	assert_int_equal(seen.flaps, 3);
	assert_string_equal(seen.hca, "mlx5_0");
	sxt_tele_refresh(view);
	assert_int_equal(sxt_tele_header(view)->events, 2);
	assert_true(sxt_tele_event_get(view, 1, &event));
	assert_string_equal(event.text, "mlx5_0:1 is down: link down");
	assert_int_equal(event.kind, SXT_TELE_EVENT_PORT);
	assert_int_equal(event.subject, 2);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void nothing_happens_without_a_segment(void **state)
{
	const struct sxt_tele_port port = {0};
	const struct sxt_tele_handle handle = {0};

	(void)state;
	sxt_tele_retire(NULL);
	sxt_tele_destroy(NULL);
	sxt_tele_note_abi(NULL, 11);
	sxt_tele_port_set(NULL, 0, &port);
	sxt_tele_conn_fail(NULL, &handle, 5, "");
	sxt_tele_conn_end(NULL, &handle);
	sxt_tele_event(NULL, SXT_TELE_EVENT_LINE, 0, "");
}

/* All that a child could do: count, open, tell, and end what it thinks is its own. */
static void misuse_as_child(struct sxt_tele *tele, struct sxt_tele_handle *handle)
{
	struct sxt_tele_handle more;

	sxt_tele_add64(&handle->counters->bytes, 1000);
	more = rig_open(tele, 5, 1);
	sxt_tele_conn_end(tele, &more);
	sxt_tele_conn_end(tele, handle);
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, 0, "from the child");
	sxt_tele_note_abi(tele, 99);
	sxt_tele_destroy(tele);
}

static void a_forked_child_leaves_the_segment_alone(void **state)
{
	struct sxt_tele *tele = rig_create(4);
	struct sxt_tele_handle handle = rig_open(tele, 1, 1);
	char *before = malloc(tele->bytes);
	pid_t child;

	(void)state;
	assert_non_null(before);
	memcpy(before, tele->header, tele->bytes);
	child = fork();
	if (child == 0) {
		misuse_as_child(tele, &handle);
		_exit(0);
	}
	assert_int_equal(wait_for(child), 0);
	assert_memory_equal(before, tele->header, tele->bytes);
	assert_int_equal(rig_files(), 1);
	free(before);
	sxt_tele_destroy(tele);
}

/* Else a worker that outlives its parent would make the parent seem alive. */
static void a_forked_child_does_not_hold_the_lock(void **state)
{
	struct sxt_tele *tele = rig_create(4);
	struct sxt_tele_view *view;
	char path[PATH_MAX];
	int runs[2]; /* the child tells that it does */
	int ends[2]; /* and is told to end */
	pid_t child;
	char byte = 0;

	(void)state;
	assert_int_equal(pipe(runs), 0);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit(write(runs[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(runs[0], &byte, 1), 1);
	rig_leave(tele, path);
	assert_int_equal(sxt_tele_open(path, &view), 0);
	assert_false(sxt_tele_refresh(view));
	sxt_tele_close(view);
	close(ends[1]);
	assert_int_equal(wait_for(child), 0);
	close(ends[0]);
	close(runs[0]);
	close(runs[1]);
}

static void a_retired_segment_may_still_be_written(void **state)
{
	struct sxt_tele *tele = rig_create(4);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_handle handle = rig_open(tele, 1, 1);

	(void)state;
	assert_true(sxt_tele_refresh(view));
	sxt_tele_retire(tele);
	assert_int_equal(rig_files(), 0);
	sxt_tele_add64(&handle.counters->bytes, 1);
	sxt_tele_conn_end(tele, &handle);
	assert_false(sxt_tele_refresh(view));
	assert_int_equal(sxt_tele_header(view)->state, SXT_TELE_CLOSED);
	assert_true(sxt_tele_header(view)->closed_wall_ns >= sxt_tele_header(view)->made_wall_ns);
	sxt_tele_destroy(tele);
	sxt_tele_close(view);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_segment_is_named_for_its_process_and_private),
		TEST(the_size_is_what_the_documentation_says),
		TEST(a_name_that_is_taken_is_counted_on),
		TEST(the_header_says_who_wrote_it),
		TEST(job_and_rank_come_from_the_launcher),
		TEST(a_folder_that_is_missing_turns_telemetry_off),
		TEST(a_folder_without_room_turns_telemetry_off),
		TEST(a_folder_that_is_read_only_turns_telemetry_off),
		TEST(a_port_is_seen_and_its_changes_are_told),
		TEST(nothing_happens_without_a_segment),
		TEST(a_forked_child_leaves_the_segment_alone),
		TEST(a_forked_child_does_not_hold_the_lock),
		TEST(a_retired_segment_may_still_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
