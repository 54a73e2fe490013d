/*
 * identity.c - who this process is: host, command, job, rank (slow path).
 */
#include "core/config.h"
#include "core/sysfs.h"
#include "telemetry/own.h"
#include "telemetry/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t sxt_tele_start_time(void)
{
	char text[1024];
	char *field;
	int rc = sxt_sysfs_read("/", "/proc/self/stat", text, sizeof(text));

	if (rc != 0)
		return 0;
	/* The second field is a name in parentheses, which may hold anything. */
	field = strrchr(text, ')');
	for (int i = 2; i < 22 && field != NULL; i++)
		field = strchr(field + 1, ' ');
	return field != NULL ? strtoull(field, NULL, 10) : 0;
}

static uint64_t pid_namespace(void)
{
	struct stat info;

	return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

/* A number that is the whole value of a variable, -1 without one. */
static int32_t number_in(const char *variable)
{
	const char *text = sxt_env_get(variable);
	char *end;
	long value;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	return *end == '\0' && errno == 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

/* The first launcher that set both; one that only started the shell comes after the inner one. */
static void find_rank(struct sxt_tele_header *header)
{
	static const char *const pairs[][2] = {{"RANK", "WORLD_SIZE"},
					       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
					       {"PMI_RANK", "PMI_SIZE"},
					       {"SLURM_PROCID", "SLURM_NTASKS"}};

	header->rank = -1;
	header->ranks = -1;
	for (size_t i = 0; i < SXT_ARRAY_LEN(pairs); i++) {
		int32_t rank = number_in(pairs[i][0]);
		int32_t ranks = number_in(pairs[i][1]);

		if (rank < 0 || rank >= ranks)
			continue;
		header->rank = rank;
		header->ranks = ranks;
		return;
	}
}

static bool is_set(const char *text)
{
	return text != NULL && text[0] != '\0';
}

static void find_job(char *out, size_t out_bytes)
{
	const char *slurm = sxt_env_get("SLURM_JOB_ID");
	const char *step = sxt_env_get("SLURM_STEP_ID");
	const char *space = sxt_env_get("POD_NAMESPACE");
	const char *pod = sxt_env_get("POD_NAME");
	const char *run = sxt_env_get("TORCHELASTIC_RUN_ID");
	char text[512] = "";

	/* Kubernetes tells every container where it is served, and names the pod its host. */
	if (!is_set(pod) && is_set(sxt_env_get("KUBERNETES_SERVICE_HOST")))
		pod = sxt_env_get("HOSTNAME");
	if (is_set(slurm))
		snprintf(text, sizeof(text), "slurm:%s%s%s", slurm, is_set(step) ? "." : "",
			 is_set(step) ? step : "");
	else if (is_set(pod))
		snprintf(text, sizeof(text), "k8s:%s%s%s", is_set(space) ? space : "",
			 is_set(space) ? "/" : "", pod);
	else if (is_set(run) && strcmp(run, "none") != 0) /* torchrun's default */
		snprintf(text, sizeof(text), "torchrun:%s", run);
	sxt_tele_text_put(out, out_bytes, text);
}

void sxt_tele_identify(struct sxt_tele_header *header, const char *release)
{
	char text[256] = "";

	header->start_time = sxt_tele_start_time();
	header->pid_ns = pid_namespace();
	header->pid = (uint32_t)getpid();
	header->uid = (uint32_t)geteuid();
	find_rank(header);
	sxt_tele_text_put(header->release, sizeof(header->release), release);
	sxt_ignore(gethostname(text, sizeof(text) - 1)); /* stays empty */
	sxt_tele_text_put(header->host, sizeof(header->host), text);
	text[0] = '\0';
	sxt_ignore(sxt_sysfs_read("/", "/proc/self/comm", text, sizeof(text)));
	sxt_tele_text_put(header->command, sizeof(header->command), text);
	find_job(header->job, sizeof(header->job));
}
