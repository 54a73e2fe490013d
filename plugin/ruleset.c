/*
 * ruleset.c - the rules of this process (slow path, once).
 */
#include "plugin/ruleset.h"

#include "core/config.h"
#include "core/log.h"
#include "core/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library stays loaded, and what is read is read for the life of the process. */
static struct {
	pthread_mutex_t lock;
	bool is_read;
	struct sxt_ruleset set;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool sxt_ruleset_is_empty(const struct sxt_ruleset *set)
{
	return set->rules->rules_cnt == 0 && set->rules->models_cnt == 0;
}

/* Ours, else the one of NVIDIA's example; "" where neither is set. */
static const char *file_setting(const char **path_out)
{
	static const char *const names[] = {"SEXTANT_TUNER_FILE", "NCCL_TUNER_CONFIG_FILE"};

	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++) {
		*path_out = sxt_env_get(names[i]);
		if (*path_out != NULL && (*path_out)[0] != '\0')
			return names[i];
	}
	return NULL;
}

static int no_rules(struct sxt_rules **out)
{
	static const char text[] = "sextant-rules 1\n";
	struct sxt_rules_fault fault;

	return sxt_rules_parse(text, sizeof(text) - 1, out, &fault);
}

static int read_rules(const char *setting, const char *path, struct sxt_rules **out)
{
	struct sxt_rules_fault fault = {0};
	char place[48] = "";
	int rc = sxt_rules_read(path, out, &fault);

	if (rc == 0 || rc == -ENOMEM)
		return rc;
	if (fault.column != 0)
		snprintf(place, sizeof(place), "line %u, column %u: ", fault.line, fault.column);
	else if (fault.line != 0)
		snprintf(place, sizeof(place), "line %u: ", fault.line);
	SXT_LOG(SXT_LOG_WARN,
		"tuner: %s=%s: %s%s. No rule of it is used, NCCL chooses; ranks that have "
		"rules choose otherwise and wait for these. `sextant tune lint %s` checks "
		"the file.",
		setting, path, place, fault.text, path);
	return no_rules(out);
}

/* Which collectives NCCL was told about. */
static void tell_forced(const struct sxt_forced *forced, const char *algo, const char *proto)
{
	char colls[80] = "";
	size_t used = 0;

	for (int coll = 0; coll < SXT_COLLS; coll++) {
		if (forced->is_named[coll])
			used += (size_t)snprintf(colls + used, sizeof(colls) - used, "%s%s",
						 used != 0 ? ", " : "", sxt_coll_names[coll]);
	}
	if (used != 0)
		SXT_LOG(SXT_LOG_INFO,
			"tuner: stays out of %s: NCCL_ALGO=%s and NCCL_PROTO=%s say what to use",
			colls, algo != NULL ? algo : "", proto != NULL ? proto : "");
}

static int read_set(struct sxt_ruleset *out)
{
	const char *algo = sxt_env_get("NCCL_ALGO");
	const char *proto = sxt_env_get("NCCL_PROTO");
	struct sxt_ruleset set = {0};
	struct sxt_rules *rules = NULL;
	const char *path;
	const char *setting = file_setting(&path);
	int rc;

	if (setting != NULL) {
		set.path = strdup(path);
		rc = set.path != NULL ? read_rules(setting, path, &rules) : -ENOMEM;
	} else {
		rc = no_rules(&rules);
	}
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "tuner: reading its rules: %s", sxt_strerror(rc));
		free(set.path);
		return rc;
	}
	set.rules = rules;
	sxt_forced_read(algo, proto, &set.forced);
	tell_forced(&set.forced, algo, proto);
	*out = set;
	return 0;
}

int sxt_ruleset_get(const struct sxt_ruleset **out)
{
	int rc = 0;

	pthread_mutex_lock(&process.lock);
	if (!process.is_read)
		rc = read_set(&process.set);
	process.is_read = process.is_read || rc == 0;
	pthread_mutex_unlock(&process.lock);
	if (rc == 0)
		*out = &process.set;
	return rc;
}
