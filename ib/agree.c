/*
 * agree.c - lines of what both ends should have alike (slow path, pure).
 */
#include "ib/agree.h"

#include <stdio.h>
#include <string.h>

/* Longer values are cut, which only lists of HCAs are. */
#define VALUE_BYTES 201

#define ALIKE "; set it alike on all hosts"

/* What may differ. A number that is negative, and a text that is empty, leaves it to `unset`. */
struct subject {
	const char *name; /* of the line */
	const char *what; /* for messages; NULL: the name, a setting */
	const char *unset;
	enum sxt_log_level level;
	const char *so_what; /* what it leads to, and what to do */
};

static const struct subject subjects[] = {
	{"release", "Sextant's release", NULL, SXT_LOG_WARN,
	 "connections are made as the older one can; install the same release on all hosts"},
	{"abi", "the version of NCCL's network interface", NULL, SXT_LOG_WARN,
	 "the processes run different versions of NCCL, or NCCL_NET_PLUGIN finds different files; "
	 "use the same on all hosts"},
	{"links", "the kind of port", NULL, SXT_LOG_WARN,
	 "RoCE and InfiniBand cannot be connected; choose ports of one kind with NCCL_IB_HCA"},
	{"NCCL_IB_HCA", NULL, "all", SXT_LOG_INFO,
	 "devices are paired by their order; where hosts have the same HCAs, set it alike on them"},
	{"NCCL_IB_SL", NULL, "0", SXT_LOG_WARN,
	 "the two directions go by different virtual lanes" ALIKE},
	{"NCCL_IB_TC", NULL, "the communicator's", SXT_LOG_WARN,
	 "the two directions have different priority in the network" ALIKE},
	{"NCCL_IB_FIFO_TC", NULL, "the data's", SXT_LOG_WARN,
	 "the two directions' clear-to-send writes have different priority in the network" ALIKE},
	{"NCCL_IB_PKEY", NULL, NULL, SXT_LOG_WARN,
	 "where the two entries name different partitions, nothing arrives; make sure that they "
	 "name the same one"},
	{"NCCL_IB_ADDR_FAMILY", NULL, "any", SXT_LOG_WARN,
	 "the ends prefer addresses that do not fit each other" ALIKE},
	{"NCCL_IB_ADDR_RANGE", NULL, "any", SXT_LOG_INFO,
	 "addresses are looked for in different networks; make sure that one leads into the other"},
	{"NCCL_IB_ROCE_VERSION_NUM", NULL, "any", SXT_LOG_WARN,
	 "the ends prefer addresses that do not fit each other" ALIKE},
	{"NCCL_IB_ADAPTIVE_ROUTING", NULL, "by the kind of port", SXT_LOG_INFO,
	 "each end sends as it is set, so the two directions differ in speed" ALIKE},
	{"NCCL_IB_AR_THRESHOLD", NULL, "8192", SXT_LOG_INFO,
	 "each end sends as it is set, so the two directions differ in speed" ALIKE},
	{"NCCL_IB_TIMEOUT", NULL, NULL, SXT_LOG_INFO,
	 "one end gives a path up while the other still tries" ALIKE},
	{"NCCL_IB_RETRY_CNT", NULL, NULL, SXT_LOG_INFO,
	 "one end gives a path up while the other still tries" ALIKE},
};

static const struct sxt_opt *opt_of(const char *name)
{
	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		if (strcmp(sxt_opts[i].env, name) == 0)
			return &sxt_opts[i];
	}
	return NULL;
}

/* Does the value of a setting leave it to us? */
static bool is_left(const struct sxt_opt *opt, const char *value)
{
	if (opt->kind == SXT_OPT_STR)
		return value[0] == '\0';
	if (opt->kind == SXT_OPT_I32)
		return value[0] == '-';
	return strcmp(value, "0") == 0;
}

/* @out: "" where there is nothing to tell. */
static void value_of(const struct sxt_agree_own *own, const struct subject *subject,
		     char out[VALUE_BYTES])
{
	const struct sxt_opt *opt = opt_of(subject->name);

	out[0] = '\0';
	if (opt != NULL) {
		sxt_opt_format(opt, own->config, out, VALUE_BYTES);
		if (subject->unset != NULL && is_left(opt, out))
			snprintf(out, VALUE_BYTES, "%s", subject->unset);
	} else if (strcmp(subject->name, "release") == 0) {
		snprintf(out, VALUE_BYTES, "%s", SXT_VERSION);
	} else if (strcmp(subject->name, "links") == 0) {
		snprintf(out, VALUE_BYTES, "%s", own->links);
	} else if (own->abi != 0) {
		snprintf(out, VALUE_BYTES, "v%d", own->abi);
	}
	for (char *at = out; *at != '\0'; at++) {
		if (*at < 0x20 || *at > 0x7e)
			*at = '?';
	}
}

void sxt_agree_write(const struct sxt_agree_own *own, char out[SXT_SETTINGS_BYTES])
{
	char value[VALUE_BYTES];
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < SXT_ARRAY_LEN(subjects); i++) {
		int put;

		value_of(own, &subjects[i], value);
		if (value[0] == '\0')
			continue;
		put = snprintf(out + used, SXT_SETTINGS_BYTES - used, "%s=%s\n", subjects[i].name,
			       value);
		if (put < 0 || used + (size_t)put >= SXT_SETTINGS_BYTES) {
			out[used] = '\0';
			return;
		}
		used += (size_t)put;
	}
}

/* The value of a line, or NULL; a last line without its end was cut and does not count. */
static const char *find(const char *lines, const char *name, size_t *len_out)
{
	size_t name_len = strlen(name);
	const char *end;

	for (end = strchr(lines, '\n'); end != NULL; end = strchr(lines, '\n')) {
		if (strncmp(lines, name, name_len) == 0 && lines[name_len] == '=') {
			*len_out = (size_t)(end - lines) - name_len - 1;
			return lines + name_len + 1;
		}
		lines = end + 1;
	}
	return NULL;
}

bool sxt_agree_next(const struct sxt_agree_end *own, const struct sxt_agree_end *peer, uint32_t *at,
		    struct sxt_agree_line *out)
{
	while (*at < SXT_ARRAY_LEN(subjects)) {
		const struct subject *subject = &subjects[(*at)++];
		size_t own_len = 0;
		size_t peer_len = 0;
		const char *own_value = find(own->lines, subject->name, &own_len);
		const char *peer_value = find(peer->lines, subject->name, &peer_len);

		if (own_value == NULL || peer_value == NULL ||
		    (own_len == peer_len && memcmp(own_value, peer_value, own_len) == 0))
			continue;
		out->level = subject->level;
		snprintf(out->text, sizeof(out->text),
			 "%s differs: %.*s here (%s), %.*s there (%s): %s",
			 subject->what != NULL ? subject->what : subject->name, (int)own_len,
			 own_value, own->name, (int)peer_len, peer_value, peer->name,
			 subject->so_what);
		return true;
	}
	return false;
}

void sxt_tuner_text(const struct sxt_wire_tuner *tuner, char out[SXT_TUNER_TEXT_BYTES])
{
	if (tuner->digest == 0)
		snprintf(out, SXT_TUNER_TEXT_BYTES, "no rules");
	else
		snprintf(out, SXT_TUNER_TEXT_BYTES, "digest %016llx%s",
			 (unsigned long long)tuner->digest,
			 tuner->use == SXT_TUNER_USED ? "" : " (not in use)");
}

bool sxt_agree_tuner(const char *own, const struct sxt_wire_tuner *own_tuner, const char *peer,
		     const struct sxt_wire_tuner *peer_tuner, struct sxt_agree_line *out)
{
	bool is_same = own_tuner->digest == peer_tuner->digest;
	bool is_fatal =
		!is_same && own_tuner->use == SXT_TUNER_USED && peer_tuner->use == SXT_TUNER_USED;
	char own_text[SXT_TUNER_TEXT_BYTES];
	char peer_text[SXT_TUNER_TEXT_BYTES];

	/* Of equal rules only those known to be left aside at one end make a difference. */
	if (is_same &&
	    (own_tuner->digest == 0 || own_tuner->use == peer_tuner->use ||
	     own_tuner->use == SXT_TUNER_UNKNOWN || peer_tuner->use == SXT_TUNER_UNKNOWN))
		return false;
	sxt_tuner_text(own_tuner, own_text);
	sxt_tuner_text(peer_tuner, peer_text);
	out->level = is_fatal ? SXT_LOG_ERROR : SXT_LOG_WARN;
	/* Both names first: the peer hears no more than 255 bytes of it. */
	snprintf(out->text, sizeof(out->text), "tuner rules differ: %s on %s, %s on %s: %s",
		 own_text, own, peer_text, peer,
		 is_fatal ? "ranks would wait for each other; set SEXTANT_TUNER_FILE alike "
			    "on all hosts (`sextant tune lint FILE` prints the digest)"
			  : "continuing, but ranks that choose differently wait for each "
			    "other; set SEXTANT_TUNER_FILE, NCCL_TUNER_PLUGIN, NCCL_ALGO and "
			    "NCCL_PROTO alike on all hosts");
	return true;
}
