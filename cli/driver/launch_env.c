/*
 * launch_env.c - a rank's place as a launcher's environment tells it (slow path).
 */
#include "cli/driver/launch.h"

#include "cli/driver/boot.h"
#include "core/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT "29500" /* as torchrun's */

/* Names of one launcher's variables; the first whose rank is set is taken. */
struct launcher {
	const char *name;
	const char *rank;
	const char *ranks;
	const char *local_rank;
	const char *fallback_addr; /* variable for rank 0's host if MASTER_ADDR is not set */
};

static const struct launcher launchers[] = {
	{"torchrun-like variables", "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	 NULL},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_LAUNCH_NODE_IPADDR"},
};

static int read_number(const char *name, long min, long max, int *out, char *why, size_t why_bytes)
{
	const char *text = sxt_env_get(name);
	char *end = NULL;
	long value;

	if (text == NULL) {
		snprintf(why, why_bytes, "%s is not set", name);
		return -EINVAL;
	}
	errno = 0;
	value = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value < min || value > max) {
		snprintf(why, why_bytes, "%s must be %ld..%ld (got '%s')", name, min, max, text);
		return -EINVAL;
	}
	*out = (int)value;
	return 0;
}

/* Open MPI on one host needs no address. */
static bool all_local(const struct launcher *launcher)
{
	const char *size = sxt_env_get(launcher->ranks);
	const char *local = sxt_env_get("OMPI_COMM_WORLD_LOCAL_SIZE");

	return size != NULL && local != NULL && strcmp(size, local) == 0;
}

static int read_master(const struct launcher *launcher, struct sxt_drv_place *place, char *why,
		       size_t why_bytes)
{
	const char *addr = sxt_env_get("MASTER_ADDR");
	const char *port = sxt_env_get("MASTER_PORT");
	int number;

	if (addr == NULL && launcher->fallback_addr != NULL)
		addr = sxt_env_get(launcher->fallback_addr);
	if (addr == NULL && all_local(launcher))
		addr = "127.0.0.1";
	if (addr == NULL) {
		snprintf(why, why_bytes,
			 "%s gives a rank but MASTER_ADDR is not set: set it to the host of rank 0",
			 launcher->name);
		return -EINVAL;
	}
	if (port != NULL && read_number("MASTER_PORT", 1, 65535, &number, why, why_bytes) != 0)
		return -EINVAL;
	place->addr = addr;
	place->port = port != NULL ? port : DEFAULT_PORT;
	return 0;
}

int sxt_drv_launch_env(struct sxt_drv_place *out, char *why, size_t why_bytes)
{
	struct sxt_drv_place place = {.host = -1};
	const struct launcher *launcher = NULL;
	int rc;

	for (size_t i = 0; i < SXT_ARRAY_LEN(launchers) && launcher == NULL; i++) {
		if (sxt_env_get(launchers[i].rank) != NULL)
			launcher = &launchers[i];
	}
	if (launcher == NULL) {
		snprintf(
			why, why_bytes,
			"no ranks: give --ranks N to start N on this machine, or start one process "
			"per rank with RANK, WORLD_SIZE and MASTER_ADDR set (mpirun and srun too)");
		return -ENOENT;
	}
	rc = read_number(launcher->ranks, 1, SXT_DRV_MAX_RANKS, &place.ranks, why, why_bytes);
	if (rc == 0)
		rc = read_number(launcher->rank, 0, place.ranks - 1, &place.rank, why, why_bytes);
	if (rc == 0 && sxt_env_get(launcher->local_rank) != NULL)
		rc = read_number(launcher->local_rank, 0, SXT_DRV_MAX_RANKS, &place.local_rank, why,
				 why_bytes);
	if (rc == 0)
		rc = read_master(launcher, &place, why, why_bytes);
	if (rc == 0)
		*out = place;
	return rc;
}
