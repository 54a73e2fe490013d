/*
 * check_limits.c - what the process may use: locked memory, open files, /dev/shm.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAP_IPC_LOCK_BIT 14
#define MIB              (1024ull * 1024)
#define GIB              (1024 * MIB)
#define NOFILE_WANTED    4096
#define SHM_WANTED       (512 * MIB)
#define SHM_FREE_WANTED  (64 * MIB)

/* The soft limit of a row of /proc/self/limits. Return: UINT64_MAX for unlimited. */
static int read_limit(const char *limits, const char *row, uint64_t *out)
{
	const char *line = strstr(limits, row);
	unsigned long long value;
	char *end;

	if (line == NULL)
		return -ENODATA;
	line += strlen(row);
	line += strspn(line, " ");
	if (strncmp(line, "unlimited", 9) == 0) {
		*out = UINT64_MAX;
		return 0;
	}
	errno = 0;
	value = strtoull(line, &end, 10);
	if (end == line || errno != 0)
		return -ENODATA;
	*out = value;
	return 0;
}

/* Return: 1 if the process has the capability, 0 if not, -1 unknown. */
static int has_ipc_lock(const struct sxt_doctor *d)
{
	char *status = sxt_doctor_slurp(d, "/proc/self/status", NULL);
	const char *line = status != NULL ? strstr(status, "CapEff:") : NULL;
	int has = -1;

	if (line != NULL)
		has = (strtoull(line + strlen("CapEff:"), NULL, 16) >> CAP_IPC_LOCK_BIT & 1) != 0;
	free(status);
	return has;
}

static void check_memlock(struct sxt_doctor *d, const char *limits)
{
	int ipc_lock = has_ipc_lock(d);
	uint64_t bytes;

	if (ipc_lock == 0)
		sxt_doctor_add(d, SXT_FINDING_NO_IPC_LOCK, "this process", NULL,
			       "CapEff without bit 14");
	if (read_limit(limits, "Max locked memory", &bytes) != 0 || bytes == UINT64_MAX ||
	    ipc_lock == 1)
		return;
	sxt_doctor_add(d, bytes < GIB ? SXT_FINDING_MEMLOCK_LOW : SXT_FINDING_MEMLOCK_LIMITED,
		       "locked memory", "unlimited, or CAP_IPC_LOCK",
		       "limit %llu kB (ulimit -l), and no CAP_IPC_LOCK",
		       (unsigned long long)(bytes / 1024));
}

static void check_files(struct sxt_doctor *d, const char *limits)
{
	uint64_t files;

	if (read_limit(limits, "Max open files", &files) == 0 && files < NOFILE_WANTED)
		sxt_doctor_add(d, SXT_FINDING_NOFILE_LOW, "open files", "4096 or more",
			       "limit %llu (ulimit -n)", (unsigned long long)files);
}

static int fact_number(const struct sxt_doctor *d, const char *key, uint64_t *out)
{
	char text[32];
	char *end;

	if (sxt_doctor_fact(d, key, text, sizeof(text)) != 0)
		return -ENODATA;
	*out = strtoull(text, &end, 10);
	return end != text && *end == '\0' ? 0 : -ENODATA;
}

static void check_shm(struct sxt_doctor *d)
{
	uint64_t bytes;
	uint64_t free_bytes;

	if (fact_number(d, "shm_bytes", &bytes) != 0)
		return;
	if (bytes < SHM_WANTED)
		sxt_doctor_add(d, SXT_FINDING_SHM_SMALL, "/dev/shm", "1 GiB or more", "%llu MiB",
			       (unsigned long long)(bytes / MIB));
	else if (fact_number(d, "shm_free_bytes", &free_bytes) == 0 && free_bytes < SHM_FREE_WANTED)
		sxt_doctor_add(d, SXT_FINDING_SHM_FULL, "/dev/shm", "64 MiB free or more",
			       "%llu of %llu MiB free", (unsigned long long)(free_bytes / MIB),
			       (unsigned long long)(bytes / MIB));
}

void sxt_check_limits(struct sxt_doctor *d)
{
	char *limits = sxt_doctor_slurp(d, "/proc/self/limits", NULL);

	if (limits == NULL) {
		sxt_doctor_not_read(d, "/proc/self/limits", -errno);
	} else {
		check_memlock(d, limits);
		check_files(d, limits);
		free(limits);
	}
	check_shm(d);
}
