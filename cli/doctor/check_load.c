/*
 * check_load.c - what NCCL would load as its network and its tuner: its search, step by step.
 *
 * NCCL tries a name as it stands, then PREFIX-NAME.so unless the name has a slash or is already
 * lib*.so. What is not found, or cannot be used, it passes over at INFO.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NET_NAMES_MAX 14
#define NAME_BYTES    255

static const char *const net_tables[] = {"ncclNetPlugin_v12", "ncclNetPlugin_v11",
					 "ncclNetPlugin_v10", "ncclNetPlugin_v9",
					 "ncclNetPlugin_v8",  "ncclNetPlugin_v7",
					 "ncclNetPlugin_v6"};
static const char *const tuner_tables[] = {"ncclTunerPlugin_v6", "ncclTunerPlugin_v5",
					   "ncclTunerPlugin_v4", "ncclTunerPlugin_v3",
					   "ncclTunerPlugin_v2"};

/* One kind of plugin. */
struct kind {
	const char *env;
	const char *prefix;
	const char *const *tables;
	size_t tables_cnt;
};

static const struct kind net_kind = {"NCCL_NET_PLUGIN", "libnccl-net", net_tables,
				     SXT_ARRAY_LEN(net_tables)};
static const struct kind tuner_kind = {"NCCL_TUNER_PLUGIN", "libnccl-tuner", tuner_tables,
				       SXT_ARRAY_LEN(tuner_tables)};

/* What was found for a name. */
struct found {
	char path[PATH_MAX];
	const char *how;
	const char *table; /* NULL when it has none, or could not be read */
	int rc;            /* of reading it */
};

static bool is_file_name(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') != NULL ||
	       (len > 6 && strncmp(name, "lib", 3) == 0 && strcmp(name + len - 3, ".so") == 0);
}

static bool find_file(const struct sxt_doctor *d, const struct kind *kind, const char *name,
		      struct found *out)
{
	char file[NAME_BYTES + 64];

	snprintf(file, sizeof(file), "%s%s", name[0] != '\0' ? name : kind->prefix,
		 name[0] != '\0' ? "" : ".so");
	if (sxt_doctor_find_library(d, file, out->path, sizeof(out->path), &out->how) == 0)
		return true;
	if (name[0] == '\0' || is_file_name(name))
		return false;
	snprintf(file, sizeof(file), "%s-%s.so", kind->prefix, name);
	return sxt_doctor_find_library(d, file, out->path, sizeof(out->path), &out->how) == 0;
}

static void find_table(const struct sxt_doctor *d, const struct kind *kind, struct found *found)
{
	uint32_t mask = 0;

	found->table = NULL;
	found->rc = sxt_doctor_elf_exports(d, found->path, kind->tables, kind->tables_cnt, &mask);
	for (size_t i = 0; found->rc == 0 && i < kind->tables_cnt; i++) {
		if ((mask & 1u << i) != 0) {
			found->table = kind->tables[i];
			return;
		}
	}
}

static void tell_unusable(struct sxt_doctor *d, const struct found *found)
{
	const char *file = strrchr(found->path, '/') + 1;

	if (found->rc == 0)
		sxt_doctor_add(d, SXT_FINDING_LOAD_NO_TABLE, file, "ncclNetPlugin_v6 .. v12",
			       "%s, found by %s", found->path, found->how);
	else
		sxt_doctor_add(d, SXT_FINDING_LOAD_WRONG_FILE, file,
			       "an ELF shared object for this machine", "%s, found by %s: %s",
			       found->path, found->how, strerror(-found->rc));
}

static void tell_missing(struct sxt_doctor *d, const char *list)
{
	const char *net = sxt_doctor_value(d, "NCCL_NET");
	bool required = net != NULL && net[0] != '\0' && strcasecmp(net, "IB") != 0 &&
			strcasecmp(net, "Socket") != 0;
	enum sxt_finding_id id = required ? SXT_FINDING_LOAD_REQUIRED : SXT_FINDING_LOAD_MISSING;
	const char *paths = sxt_doctor_value(d, "LD_LIBRARY_PATH");
	char object[96];
	char tried[NAME_BYTES * 2 + 64];

	if (list[0] == '\0') {
		snprintf(tried, sizeof(tried), "libnccl-net.so");
		snprintf(object, sizeof(object), "NCCL_NET=%.64s", required ? net : "");
	} else {
		snprintf(tried, sizeof(tried), "%.200s%s%.200s%s", list,
			 is_file_name(list) ? "" : ", libnccl-net-", is_file_name(list) ? "" : list,
			 is_file_name(list) ? "" : ".so");
		snprintf(object, sizeof(object), "NCCL_NET_PLUGIN=%.64s", list);
	}
	sxt_doctor_add(d, id, object, "one of these in LD_LIBRARY_PATH or ld.so.cache",
		       "looked for %s; LD_LIBRARY_PATH is %.150s", tried,
		       paths != NULL ? paths : "not set");
}

static void tell_net(struct sxt_doctor *d, const struct found *found)
{
	const char *file = strrchr(found->path, '/') + 1;
	const char *net = sxt_doctor_value(d, "NCCL_NET");

	sxt_doctor_add(d, SXT_FINDING_LOAD_NET, file, NULL, "%s, %s, found by %s", found->path,
		       found->table, found->how);
	if (net == NULL || net[0] == '\0')
		sxt_doctor_add(d, SXT_FINDING_LOAD_FALLBACK, "NCCL_NET", "NCCL_NET=Sextant",
			       "not set");
	else if (strstr(file, "sextant") != NULL && strcasecmp(net, "Sextant") != 0)
		sxt_doctor_add(d, SXT_FINDING_LOAD_OTHER_NET, "NCCL_NET", "Sextant", "NCCL_NET=%s",
			       net);
}

/* One name of the list. Return: true if NCCL would take it. */
static bool try_net(struct sxt_doctor *d, const char *name, struct found *found)
{
	if (name[0] != '\0' && strncasecmp(name, "STATIC_PLUGIN", strlen(name)) == 0) {
		sxt_doctor_add(d, SXT_FINDING_LOAD_STATIC, "NCCL_NET_PLUGIN",
			       "another name, or a path", "'%s'", name);
		return false;
	}
	if (strchr(name, ' ') != NULL)
		sxt_doctor_add(d, SXT_FINDING_LOAD_SPACE, "NCCL_NET_PLUGIN", NULL, "'%s'", name);
	found->path[0] = '\0';
	if (!find_file(d, &net_kind, name, found))
		return false;
	find_table(d, &net_kind, found);
	if (found->table == NULL)
		tell_unusable(d, found);
	return found->table != NULL;
}

static bool try_list(struct sxt_doctor *d, const char *list, struct found *found)
{
	char name[NAME_BYTES];
	size_t cnt = 0;

	if (list[0] == '\0')
		return try_net(d, "", found);
	while (*list != '\0') {
		size_t len = strcspn(list, ",");

		if (len >= sizeof(name) || (len > 0 && ++cnt > NET_NAMES_MAX)) {
			sxt_doctor_add(d, SXT_FINDING_LOAD_TOO_MANY, "NCCL_NET_PLUGIN",
				       "14 names of less than 255 characters",
				       "name %zu has %zu characters", cnt, len);
			return false;
		}
		memcpy(name, list, len);
		name[len] = '\0';
		if (len > 0 && try_net(d, name, found))
			return true;
		list += len + (list[len] == ',');
	}
	return false;
}

/* Return: true if NCCL takes a network plugin; @found says which. */
static bool check_net(struct sxt_doctor *d, struct found *found)
{
	const char *list = sxt_doctor_value(d, "NCCL_NET_PLUGIN");
	const char *net = sxt_doctor_value(d, "NCCL_NET");
	size_t before = d->findings_cnt;

	if (list == NULL)
		list = "";
	if (strcasecmp(list, "none") == 0) {
		sxt_doctor_add(d, SXT_FINDING_LOAD_OFF, "NCCL_NET_PLUGIN", "sextant", "%s", list);
		return false;
	}
	if (try_list(d, list, found)) {
		tell_net(d, found);
		return true;
	}
	if (list[0] == '\0' && (net == NULL || strcasecmp(net, "Sextant") != 0)) {
		if (before == d->findings_cnt)
			sxt_doctor_add(d, SXT_FINDING_LOAD_BUILTIN, "NCCL_NET_PLUGIN", NULL,
				       "not set, and there is no libnccl-net.so");
	} else if (found->path[0] == '\0' && before == d->findings_cnt) {
		tell_missing(d, list);
	}
	return false;
}

int sxt_doctor_net_file(const struct sxt_doctor *d, char *out, size_t out_bytes)
{
	const char *list = sxt_doctor_value(d, "NCCL_NET_PLUGIN");
	struct found found;
	char name[NAME_BYTES];

	if (list == NULL)
		list = "";
	do {
		size_t len = strcspn(list, ",");

		snprintf(name, sizeof(name), "%.*s", (int)(len < NAME_BYTES ? len : 0), list);
		if (find_file(d, &net_kind, name, &found) && strlen(found.path) < out_bytes) {
			snprintf(out, out_bytes, "%s", found.path);
			return 0;
		}
		list += len + (list[len] == ',');
	} while (*list != '\0');
	return -ENOENT;
}

static void check_tuner(struct sxt_doctor *d, const struct found *net)
{
	const char *name = sxt_doctor_value(d, "NCCL_TUNER_PLUGIN");
	struct found found = {.path = ""};

	if (name == NULL)
		name = "";
	if (strlen(name) >= NAME_BYTES)
		name = "";
	if (strcasecmp(name, "none") == 0)
		return;
	if (find_file(d, &tuner_kind, name, &found)) {
		find_table(d, &tuner_kind, &found);
	} else if (name[0] != '\0') {
		sxt_doctor_add(d, SXT_FINDING_LOAD_TUNER_MISSING, "NCCL_TUNER_PLUGIN", NULL,
			       "looked for %s and libnccl-tuner-%s.so", name, name);
	}
	if (found.path[0] == '\0' && net != NULL) {
		found = *net;
		find_table(d, &tuner_kind, &found);
	}
	if (found.table != NULL)
		sxt_doctor_add(d, SXT_FINDING_LOAD_TUNER, strrchr(found.path, '/') + 1, NULL,
			       "%s, %s, found by %s", found.path, found.table, found.how);
}

void sxt_check_load(struct sxt_doctor *d)
{
	struct found net = {.path = ""};
	bool loaded;

	if (d->software)
		return;
	loaded = check_net(d, &net);
	check_tuner(d, loaded ? &net : NULL);
}
