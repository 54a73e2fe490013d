/*
 * logs_said.c - what a log says about its tables: which collective, what was forced, which ranks
 * on which hosts.
 */
#include "cli/tune/logs_parts.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 32

void sxt_logs_said_reset(struct sxt_logs_said *said)
{
	said->coll = SXT_LOGS_UNTOLD;
	said->algo = SXT_LOGS_UNTOLD;
	said->proto = SXT_LOGS_UNTOLD;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) != 0 || c == '_';
}

/* The word of a text, at most WORD_BYTES - 1 of it. */
static void copy_word(char out[WORD_BYTES], const char *text, size_t len)
{
	snprintf(out, WORD_BYTES, "%.*s", (int)(len < WORD_BYTES ? len : WORD_BYTES - 1), text);
}

/* Takes a word as whatever it is. */
static bool said_word(struct sxt_logs_said *said, const char *word)
{
	int coll = sxt_coll_of(word);
	int algo = sxt_algo_of(word);
	int proto = sxt_proto_of(word);

	if (coll >= 0)
		said->coll = coll;
	else if (algo >= 0)
		said->algo = algo;
	else if (proto >= 0)
		said->proto = proto;
	return coll >= 0 || algo >= 0 || proto >= 0;
}

/* The next word of a name begins behind what is neither letter nor digit. */
static size_t name_word(const char **at)
{
	size_t len = 0;

	while (**at != '\0' && isalnum((unsigned char)**at) == 0)
		(*at)++;
	while (isalnum((unsigned char)(*at)[len]) != 0)
		len++;
	return len;
}

void sxt_logs_said_name(struct sxt_logs_said *said, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *at = slash != NULL ? slash + 1 : path;

	sxt_logs_said_reset(said);
	for (size_t len = name_word(&at); len > 0; len = name_word(&at)) {
		const char *next = at + len;
		size_t next_len = name_word(&next);
		char one[WORD_BYTES];
		char other[WORD_BYTES];
		char two[2 * WORD_BYTES];

		copy_word(one, at, len);
		at += len;
		copy_word(other, next, next_len);
		/* "all_reduce" and "nvls_tree" before "reduce" and "tree". */
		snprintf(two, sizeof(two), "%s%s", one, other);
		if (next_len > 0 && said_word(said, two))
			at = next + next_len;
		else
			said_word(said, one);
	}
}

const char *sxt_logs_said_words(struct sxt_logs_said *said, const char *words)
{
	struct sxt_logs_said found;

	sxt_logs_said_reset(&found);
	for (const char *at = words;; at++) {
		size_t len = strcspn(at, "/");
		char word[WORD_BYTES];

		copy_word(word, at, len);
		if (strcasecmp(word, "default") == 0) {
			found.algo = SXT_LOGS_ANY;
			found.proto = SXT_LOGS_ANY;
		} else if (!said_word(&found, word)) {
			return at;
		}
		at += len;
		if (*at == '\0')
			break;
	}
	/* Who names one names all there is to say. */
	if (found.algo != SXT_LOGS_UNTOLD || found.proto != SXT_LOGS_UNTOLD) {
		found.algo = found.algo == SXT_LOGS_UNTOLD ? SXT_LOGS_ANY : found.algo;
		found.proto = found.proto == SXT_LOGS_UNTOLD ? SXT_LOGS_ANY : found.proto;
	}
	*said = found;
	return NULL;
}

/* The value of NCCL_ALGO or NCCL_PROTO: "Ring", "Ring,Tree", "^LL", "allreduce:tree". */
static int forced(const char *value, size_t len, int (*number)(const char *))
{
	char word[WORD_BYTES];
	int n = 0;

	while (len > 0 &&
	       (value[len - 1] == '.' || value[len - 1] == '"' || value[len - 1] == '\''))
		len--;
	if (len > 0 && (*value == '"' || *value == '\'')) {
		value++;
		len--;
	}
	copy_word(word, value, len);
	if (len == 0 || strcasecmp(word, "default") == 0)
		return SXT_LOGS_ANY;
	n = number(word);
	return n >= 0 ? n : SXT_LOGS_SEVERAL;
}

/* The value behind "NAME=" or "NAME set by environment to ". */
static const char *value_of(const char *line, const char *name, bool *is_info)
{
	static const char info[] = " set by environment to ";

	for (const char *at = strstr(line, name); at != NULL; at = strstr(at + 1, name)) {
		const char *behind = at + strlen(name);

		*is_info = strncmp(behind, info, sizeof(info) - 1) == 0;
		if (*is_info)
			return behind + sizeof(info) - 1;
		if (*behind == '=' && (at == line || !is_word(at[-1])))
			return behind + 1;
	}
	return NULL;
}

static void take_variable(struct sxt_logs_said *command, struct sxt_logs_said *info,
			  const char *line, bool is_algo)
{
	bool is_info = false;
	const char *value = value_of(line, is_algo ? "NCCL_ALGO" : "NCCL_PROTO", &is_info);
	struct sxt_logs_said *said = is_info ? info : command;

	if (value == NULL)
		return;
	if (is_algo)
		said->algo = forced(value, strcspn(value, " \t\r;"), sxt_algo_of);
	else
		said->proto = forced(value, strcspn(value, " \t\r;"), sxt_proto_of);
}

static void take_variables(struct sxt_logs_said *command, struct sxt_logs_said *info,
			   const char *line)
{
	take_variable(command, info, line, true);
	take_variable(command, info, line, false);
}

/* A number behind "KEY=", 0 when there is none. */
static uint32_t number_of(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at != NULL ? (uint32_t)strtoul(at + strlen(key), NULL, 10) : 0;
}

static void forget_hosts(struct sxt_logs_reader *r)
{
	for (size_t i = 0; i < r->hosts_cnt; i++)
		free(r->hosts[i]);
	r->hosts_cnt = 0;
}

static void add_host(struct sxt_logs_reader *r, const char *host)
{
	char **larger = NULL;

	for (size_t i = 0; i < r->hosts_cnt; i++) {
		if (strcmp(r->hosts[i], host) == 0)
			return;
	}
	larger = reallocarray(r->hosts, r->hosts_cnt + 1, sizeof(*larger));
	if (larger != NULL) {
		r->hosts = larger;
		larger[r->hosts_cnt] = strdup(host);
	}
	if (larger == NULL || larger[r->hosts_cnt] == NULL) {
		r->error = -ENOMEM;
		return;
	}
	r->nodes = (uint32_t)++r->hosts_cnt;
}

/* "#  Rank  0 Group  0 Pid   6899 on gpu59 device  0 [0x16] NVIDIA": also without "Group". */
static bool take_rank(struct sxt_logs_reader *r, const char *line)
{
	const char *on = strstr(line, " on ");
	size_t blanks = 1 + strspn(line + (*line != '\0'), " \t");
	uint32_t rank = 0;
	char host[256];

	if (*line != '#' || strncmp(line + blanks, "Rank ", 5) != 0 || on == NULL ||
	    strstr(on, " device") == NULL || sscanf(on, " on %255s", host) != 1)
		return false;
	rank = number_of(line, "Rank ");
	if (rank + 1 > r->ranks)
		r->ranks = rank + 1;
	add_host(r, host);
	return true;
}

/* "# 4 ranks on 2 hosts, 1 channel": of `sextant bench`. */
static bool take_ranks(struct sxt_logs_reader *r, const char *line)
{
	if (strncmp(line, "# ", 2) != 0 || strstr(line, " ranks on ") == NULL)
		return false;
	r->ranks = number_of(line, "# ");
	r->nodes = number_of(line, " ranks on ");
	return true;
}

/* "# sextant sweep: NCCL_ALGO=Ring NCCL_PROTO=LL COLL=all_reduce NODES=2 RANKS=16". */
static void take_sweep(struct sxt_logs_reader *r, const char *line)
{
	struct sxt_logs_said *said = &r->said[SXT_LOGS_BY_SWEEP];
	const char *coll = strstr(line, "COLL=");
	char word[WORD_BYTES];

	sxt_logs_said_reset(said);
	said->algo = SXT_LOGS_ANY;
	said->proto = SXT_LOGS_ANY;
	take_variables(said, said, line);
	r->is_swept = true;
	if (coll != NULL) {
		coll += strlen("COLL=");
		copy_word(word, coll, strcspn(coll, " \t\r"));
		said->coll = sxt_coll_of(word) >= 0 ? sxt_coll_of(word) : SXT_LOGS_SEVERAL;
	}
	r->sweep_nodes = number_of(line, "NODES=");
	r->sweep_ranks = number_of(line, "RANKS=");
	r->nodes = r->sweep_nodes;
	r->ranks = r->sweep_ranks;
}

/* "# sextant bench 1.0: all_reduce, ring, protocol simple, out-of-place buffers". */
static void take_bench(struct sxt_logs_reader *r, const char *line)
{
	struct sxt_logs_said *said = &r->said[SXT_LOGS_BY_SWEEP];
	char coll[WORD_BYTES] = "";
	char algo[WORD_BYTES] = "";
	char proto[WORD_BYTES] = "";

	if (!r->is_swept)
		sxt_logs_said_reset(said);
	if (sscanf(line, "# sextant bench %*[^:]: %31[^,], %31[^,], protocol %31[^,]", coll, algo,
		   proto) != 3)
		return;
	said->coll = sxt_coll_of(coll) >= 0 ? sxt_coll_of(coll) : SXT_LOGS_SEVERAL;
	if (r->is_swept)
		return;
	said->algo = sxt_algo_of(algo) >= 0 ? sxt_algo_of(algo) : SXT_LOGS_SEVERAL;
	said->proto = sxt_proto_of(proto) >= 0 ? sxt_proto_of(proto) : SXT_LOGS_SEVERAL;
}

/* "all_reduce_perf" in a command line, or in "# Collective test starting: all_reduce_perf". */
static void take_program(struct sxt_logs_reader *r, const char *line, enum sxt_logs_source by)
{
	const char *at = strstr(line, "_perf");
	const char *begin = at;
	char word[WORD_BYTES];

	if (at == NULL || (is_word(at[5]) && strncmp(at, "_perf_mpi", 9) != 0))
		return;
	while (begin > line && is_word(begin[-1]))
		begin--;
	copy_word(word, begin, (size_t)(at - begin));
	if (by == SXT_LOGS_BY_COMMAND)
		r->is_command_over = true;
	r->said[by].coll = sxt_coll_of(word) >= 0 ? sxt_coll_of(word) : SXT_LOGS_SEVERAL;
}

static void begin_run(struct sxt_logs_reader *r)
{
	forget_hosts(r);
	r->ranks = r->sweep_ranks;
	r->nodes = r->sweep_nodes;
	r->said[SXT_LOGS_BY_INFO].algo = SXT_LOGS_UNTOLD;
	r->said[SXT_LOGS_BY_INFO].proto = SXT_LOGS_UNTOLD;
}

/* A shell's command, over one or several lines, or NCCL's own line on its environment. */
static void take_command(struct sxt_logs_reader *r, const char *line)
{
	struct sxt_logs_said *said = &r->said[SXT_LOGS_BY_COMMAND];
	bool is_export = strstr(line, "export ") != NULL;
	bool is_more = strstr(line, "_perf") != NULL || strstr(line, "NCCL_ALGO=") != NULL ||
		       strstr(line, "NCCL_PROTO=") != NULL;

	/* What an earlier command forced it forced for itself. */
	if (is_more && r->is_command_over) {
		*said = r->exported;
		r->is_command_over = false;
	}
	if (is_export)
		take_variables(&r->exported, &r->said[SXT_LOGS_BY_INFO], line);
	take_variables(said, &r->said[SXT_LOGS_BY_INFO], line);
	take_program(r, line, SXT_LOGS_BY_COMMAND);
}

void sxt_logs_said_line(struct sxt_logs_reader *r, const char *line)
{
	static const char sweep[] = "# sextant sweep:";
	static const char bench[] = "# sextant bench ";
	static const char start[] = "# Collective test starting:";

	line += strspn(line, " \t");
	if (strncmp(line, sweep, sizeof(sweep) - 1) == 0)
		take_sweep(r, line);
	else if (strncmp(line, bench, sizeof(bench) - 1) == 0)
		take_bench(r, line);
	else if (strncmp(line, start, sizeof(start) - 1) == 0)
		take_program(r, line, SXT_LOGS_BY_INFO);
	else if (strncmp(line, "# nThread", 9) == 0)
		begin_run(r);
	else if (strncmp(line, "# Collective test concluded", 27) == 0)
		r->said[SXT_LOGS_BY_INFO].coll = SXT_LOGS_UNTOLD;
	else if (!take_rank(r, line) && !take_ranks(r, line))
		take_command(r, line);
}

int sxt_logs_said_coll(const struct sxt_logs_reader *r)
{
	int i = 0;

	while (i < SXT_LOGS_SOURCES - 1 && r->said[i].coll == SXT_LOGS_UNTOLD)
		i++;
	return r->said[i].coll;
}

int sxt_logs_said_algo(const struct sxt_logs_reader *r)
{
	int i = 0;

	while (i < SXT_LOGS_SOURCES && r->said[i].algo == SXT_LOGS_UNTOLD)
		i++;
	return i < SXT_LOGS_SOURCES ? r->said[i].algo : SXT_LOGS_ANY;
}

int sxt_logs_said_proto(const struct sxt_logs_reader *r)
{
	int i = 0;

	while (i < SXT_LOGS_SOURCES && r->said[i].proto == SXT_LOGS_UNTOLD)
		i++;
	return i < SXT_LOGS_SOURCES ? r->said[i].proto : SXT_LOGS_ANY;
}
