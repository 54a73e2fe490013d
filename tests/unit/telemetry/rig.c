/*
 * rig.c - what tests of the telemetry share.
 */
#include "tests/unit/telemetry/rig.h"

#include "core/log.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

char rig_dir[64];
unsigned rig_warn_cnt;
char rig_warn[2048];

static void hear(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	if (level != SXT_LOG_WARN)
		return;
	rig_warn_cnt++;
	snprintf(rig_warn, sizeof(rig_warn), "%s", text);
}

int rig_set_up(void **state)
{
	(void)state;
	snprintf(rig_dir, sizeof(rig_dir), "/dev/shm/sxt_tele_XXXXXX");
	assert_non_null(mkdtemp(rig_dir));
	rig_warn_cnt = 0;
	rig_warn[0] = '\0';
	sxt_log_set_sink(hear);
	return 0;
}

int rig_tear_down(void **state)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir = opendir(rig_dir);

	(void)state;
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", rig_dir, entry->d_name);
		unlink(path);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(rig_dir);
	return 0;
}

struct sxt_tele *rig_create(uint32_t conns_cap)
{
	const struct sxt_tele_options options = {rig_dir, conns_cap, 3600, 60, "0.1.0"};
	struct sxt_tele *tele = NULL;

	assert_int_equal(sxt_tele_create(&options, &tele), 0);
	return tele;
}

struct sxt_tele_view *rig_view(const struct sxt_tele *tele)
{
	struct sxt_tele_view *view = NULL;

	assert_int_equal(sxt_tele_open(tele->path, &view), 0);
	return view;
}

size_t rig_files(void)
{
	struct sxt_tele_file *files = NULL;
	size_t cnt = 0;

	assert_int_equal(sxt_tele_list(rig_dir, &files, &cnt), 0);
	free(files);
	return cnt;
}

struct sxt_tele_handle rig_open(struct sxt_tele *tele, uint32_t peer, uint32_t paths_cnt)
{
	struct sxt_tele_path paths[8];
	struct sxt_tele_handle handle;
	char name[32];
	const struct sxt_tele_conn_facts facts = {.direction = SXT_TELE_SENDS,
						  .id = 7,
						  .peer_id = 8,
						  .nic = "mlx5_0",
						  .peer = name,
						  .paths = paths,
						  .paths_cnt = paths_cnt};

	memset(paths, 0, sizeof(paths));
	for (uint32_t i = 0; i < paths_cnt; i++)
		paths[i].qpn = 100 * (peer + 1) + i;
	snprintf(name, sizeof(name), "node2:%u", peer);
	sxt_tele_conn_open(tele, &facts, &handle);
	return handle;
}

void rig_leave(struct sxt_tele *tele, char *path_out)
{
	if (path_out != NULL)
		snprintf(path_out, PATH_MAX, "%s", tele->path);
	/* As after a crash: the lock goes with the descriptor, nobody marks or removes the file. */
	tele->is_child = true;
	sxt_tele_destroy(tele);
}
