/*
 * reap.c - segments that processes of this user left behind (slow path).
 */
#include "telemetry/own.h"
#include "telemetry/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file without a valid header may be about to get one. */
#define MAKING_SEC 60

struct dead {
	const char *path;
	uint64_t age_ns; /* since the last sign of life */
};

static uint64_t since(uint64_t wall_ns)
{
	uint64_t now_ns = sxt_sys_host.wall_ns();

	return now_ns > wall_ns ? now_ns - wall_ns : 0;
}

/*
 * How long ago a file showed a sign of life. Return: false of one that is being made: its lock may
 * not be touched, since its writer has to get it.
 */
static bool is_made(const struct sxt_tele_file *file, const struct stat *info, uint64_t *age_out)
{
	struct sxt_tele_view *view = NULL;

	if (sxt_tele_open(file->path, &view) == 0) {
		*age_out = since(sxt_tele_wall_ns(view, sxt_tele_now(view)));
		sxt_tele_close(view);
		return true;
	}
	*age_out = since((uint64_t)info->st_mtim.tv_sec * SXT_NS_PER_SEC);
	return *age_out >= MAKING_SEC * SXT_NS_PER_SEC;
}

/*
 * Who wrote it is gone when its lock is free, in whatever pid namespace it ran. Return: true, with
 * how long ago, of a segment of this user whose writer is gone.
 */
static bool is_dead(const struct sxt_tele_file *file, uint64_t *age_out)
{
	int fd = open(file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat info;
	bool dead;

	if (fd < 0)
		return false;
	dead = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
	       is_made(file, &info, age_out) && flock(fd, LOCK_SH | LOCK_NB) == 0;
	close(fd);
	return dead;
}

static int by_age(const void *a, const void *b)
{
	uint64_t left = ((const struct dead *)a)->age_ns;
	uint64_t right = ((const struct dead *)b)->age_ns;

	return (left < right) - (left > right);
}

void sxt_tele_reap(const char *dir, uint32_t keep_sec, uint64_t bytes)
{
	struct sxt_tele_file *files = NULL;
	struct dead *dead;
	uint64_t free_bytes;
	size_t dead_cnt = 0;
	size_t cnt = 0;

	if (sxt_tele_list(dir, &files, &cnt) != 0)
		return;
	dead = calloc(cnt + 1, sizeof(*dead));
	for (size_t i = 0; dead != NULL && i < cnt; i++) {
		if (files[i].uid != geteuid() || !is_dead(&files[i], &dead[dead_cnt].age_ns))
			continue;
		dead[dead_cnt++].path = files[i].path;
	}
	if (dead_cnt > 0)
		qsort(dead, dead_cnt, sizeof(*dead), by_age);
	for (size_t i = 0; i < dead_cnt; i++) {
		if (dead[i].age_ns > keep_sec * SXT_NS_PER_SEC ||
		    dead_cnt - i > SXT_TELE_DEAD_MAX || !sxt_tele_has_room(dir, bytes, &free_bytes))
			unlink(dead[i].path);
	}
	free(dead);
	free(files);
}
