/*
 * hca.c - parsing and applying NCCL_IB_HCA (slow path, pure but for the log).
 */
#include "ib/hca.h"

#include "core/config.h"
#include "core/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX  4 /* name, port, rail, plane */
#define PORT_MAX    255
#define NUMBER_MAX  INT16_MAX
#define SHOWN_BYTES 256 /* of a list of names in a message */

/* One entry as it stands in the text. */
struct token {
	const char *text; /* of the whole setting, for columns */
	const char *fields[FIELDS_MAX];
	size_t lens[FIELDS_MAX];
	int cnt;
	bool has_more; /* fields than there can be */
};

static size_t column_of(const struct token *token, const char *at)
{
	return (size_t)(at - token->text) + 1;
}

static void split(struct token *token, const char *begin, size_t len)
{
	const char *end = begin + len;

	token->cnt = 0;
	for (const char *at = begin; token->cnt < FIELDS_MAX; at++) {
		const char *colon = memchr(at, ':', (size_t)(end - at));

		token->fields[token->cnt] = at;
		token->lens[token->cnt++] = (size_t)((colon != NULL ? colon : end) - at);
		token->has_more = colon != NULL;
		if (colon == NULL)
			return;
		at = colon;
	}
}

/* Digits only, within bounds: what overflows is no wildcard. */
static int parse_number(const struct token *token, int field, long least, long most, long *out)
{
	static const char *const names[FIELDS_MAX] = {"name", "port", "rail", "plane"};
	const char *at = token->fields[field];
	size_t len = token->lens[field];
	long value = 0;
	bool is_number = len > 0 && strspn(at, "0123456789") >= len;

	for (size_t i = 0; is_number && i < len && value <= most; i++)
		value = value * 10 + (at[i] - '0');
	if (is_number && value >= least && value <= most) {
		*out = value;
		return 0;
	}
	SXT_LOG(SXT_LOG_WARN,
		"NCCL_IB_HCA=%s: column %zu: \"%.*s\" is no %s, expected a number %ld..%ld; the "
		"entry is ignored",
		token->text, column_of(token, at), (int)len, at, names[field], least, most);
	return -EINVAL;
}

static int parse_fields(const struct token *token, struct sxt_hca_entry *out)
{
	long port = -1;
	long rail = -1;
	long plane = -1;
	int rc = 0;

	if (token->cnt > 1)
		rc = parse_number(token, 1, 1, PORT_MAX, &port);
	if (rc == 0 && token->cnt > 2)
		rc = parse_number(token, 2, 0, NUMBER_MAX, &rail);
	if (rc == 0 && token->cnt > 3)
		rc = parse_number(token, 3, 0, NUMBER_MAX, &plane);
	out->port = (int32_t)port;
	out->rail = (int16_t)rail;
	out->plane = (int16_t)plane;
	return rc;
}

static int parse_entry(const struct token *token, struct sxt_hca_entry *out)
{
	const char *name = token->fields[0];
	size_t len = token->lens[0];

	if (token->has_more) {
		SXT_LOG(SXT_LOG_WARN,
			"NCCL_IB_HCA=%s: column %zu: more than name:port:rail:plane; the entry is "
			"ignored",
			token->text, column_of(token, name));
		return -EINVAL;
	}
	if (len >= sizeof(out->name)) {
		SXT_LOG(SXT_LOG_WARN,
			"NCCL_IB_HCA=%s: column %zu: a name of %zu bytes, HCAs have at most %zu; "
			"the entry is ignored",
			token->text, column_of(token, name), len, sizeof(out->name) - 1);
		return -EINVAL;
	}
	memcpy(out->name, name, len);
	out->name[len] = '\0';
	return parse_fields(token, out);
}

/* Takes white space off both ends. */
static const char *trim(const char *begin, size_t *len, bool *is_trimmed)
{
	size_t before = *len;

	while (*len > 0 && isspace((unsigned char)*begin) != 0) {
		begin++;
		(*len)--;
	}
	while (*len > 0 && isspace((unsigned char)begin[*len - 1]) != 0)
		(*len)--;
	*is_trimmed = *is_trimmed || *len != before;
	return begin;
}

static int append(struct sxt_hca_list *list, const struct sxt_hca_entry *entry)
{
	struct sxt_hca_entry *grown =
		realloc(list->entries, (list->cnt + 1u) * sizeof(*list->entries));

	if (grown == NULL)
		return -ENOMEM;
	list->entries = grown;
	list->entries[list->cnt++] = *entry;
	return 0;
}

/* What NCCL skips in silence (an empty name, with or without a port) is skipped here too. */
static int parse_list(const char *text, const char *at, struct sxt_hca_list *out, int *bad_cnt)
{
	bool is_trimmed = false;
	int rc = 0;

	while (rc == 0) {
		size_t whole = strcspn(at, ",");
		size_t len = whole;
		const char *begin = trim(at, &len, &is_trimmed);
		struct token token = {.text = text};
		struct sxt_hca_entry entry;

		split(&token, begin, len);
		if (token.lens[0] > 0 && parse_entry(&token, &entry) != 0)
			(*bad_cnt)++;
		else if (token.lens[0] > 0)
			rc = append(out, &entry);
		if (at[whole] == '\0')
			break;
		at += whole + 1;
	}
	if (is_trimmed)
		SXT_LOG(SXT_LOG_INFO,
			"NCCL_IB_HCA=%s: space removed around its entries; NCCL would take it for "
			"a part of the names",
			text);
	return rc;
}

static void tell_empty(const char *text, const struct sxt_hca_list *list, int bad_cnt)
{
	if (bad_cnt > 0)
		SXT_LOG(SXT_LOG_WARN, "NCCL_IB_HCA=%s: no entry is left, so every HCA is used",
			text);
	else if (list->excludes)
		SXT_LOG(SXT_LOG_WARN,
			"NCCL_IB_HCA=%s excludes every HCA, as in NCCL, since nothing stands "
			"behind the ^; unset it to use all",
			text);
	else
		SXT_LOG(SXT_LOG_WARN,
			"NCCL_IB_HCA=%s names no HCA, so every one is used, as in NCCL; unset it "
			"to say so",
			text);
}

int sxt_hca_parse(const char *text, struct sxt_hca_list *out, int *bad_cnt_out)
{
	struct sxt_hca_list list = {0};
	const char *at = text;
	int bad_cnt = 0;
	int rc;

	if (strncmp(text, "=^", 2) == 0) {
		SXT_LOG(SXT_LOG_WARN,
			"NCCL_IB_HCA=%s: write ^= to exclude whole names; NCCL looks for HCAs "
			"called ^... here. It is ignored, and every HCA used.",
			text);
		*out = list;
		*bad_cnt_out = 1;
		return 0;
	}
	list.excludes = *at == '^';
	at += list.excludes;
	list.is_exact = *at == '=';
	at += list.is_exact;
	rc = parse_list(text, at, &list, &bad_cnt);
	if (rc != 0) {
		sxt_hca_fini(&list);
		return rc;
	}
	if (list.cnt == 0 && text[0] != '\0')
		tell_empty(text, &list, bad_cnt);
	if (list.cnt == 0 && bad_cnt > 0)
		list.excludes = false;
	*out = list;
	*bad_cnt_out = bad_cnt;
	return 0;
}

void sxt_hca_fini(struct sxt_hca_list *list)
{
	free(list->entries);
	*list = (struct sxt_hca_list){0};
}

static bool fits_name(const struct sxt_hca_list *list, const struct sxt_hca_entry *entry,
		      const char *device)
{
	if (list->is_exact)
		return strcmp(device, entry->name) == 0;
	return strncmp(device, entry->name, strlen(entry->name)) == 0;
}

/* @num: 0 where it is not known which ports the HCA has. */
static bool fits_port(const struct sxt_hca_entry *entry, unsigned int num)
{
	return entry->port < 0 || num == 0 || (unsigned int)entry->port == num;
}

const struct sxt_hca_entry *sxt_hca_find(const struct sxt_hca_list *list, const char *device,
					 unsigned int num)
{
	for (uint32_t i = 0; i < list->cnt; i++) {
		if (fits_name(list, &list->entries[i], device) && fits_port(&list->entries[i], num))
			return &list->entries[i];
	}
	return NULL;
}

bool sxt_hca_picks(const struct sxt_hca_list *list, const char *device, unsigned int num)
{
	/* NCCL takes a list of nothing to fit everything, and turns that around after ^. */
	bool fits = list->cnt == 0 || sxt_hca_find(list, device, num) != NULL;

	return fits != list->excludes;
}

static bool has_whole_name(const struct sxt_hca_list *list, const char *device, unsigned int num)
{
	for (uint32_t i = 0; i < list->cnt; i++) {
		if (strcmp(list->entries[i].name, device) == 0 && fits_port(&list->entries[i], num))
			return true;
	}
	return false;
}

bool sxt_hca_names(const struct sxt_hca_list *list, const char *device, unsigned int num)
{
	return !list->excludes && has_whole_name(list, device, num);
}

/* Names of HCAs in a message, each once. */
struct shown {
	char text[SHOWN_BYTES];
	const char *last;
	uint32_t cnt;
};

static void show(struct shown *shown, const char *name)
{
	size_t used = strlen(shown->text);

	/* Ports of one HCA follow each other. */
	if (shown->last != NULL && strcmp(shown->last, name) == 0)
		return;
	snprintf(shown->text + used, sizeof(shown->text) - used, "%s%s", used != 0 ? ", " : "",
		 name);
	shown->last = name;
	shown->cnt++;
}

static void tell_no_port(const struct sxt_hca_entry *entry, const struct shown *named)
{
	SXT_LOG(SXT_LOG_WARN,
		"NCCL_IB_HCA: %s:%d matches nothing: there is no port %d at %s; ports count from 1",
		entry->name, entry->port, entry->port, named->text);
}

static void tell_no_name(const struct sxt_hca_entry *entry, const struct sxt_hca_port *ports,
			 uint32_t cnt)
{
	const char **names = calloc(cnt + 1u, sizeof(*names));
	struct shown all = {0};
	const char *nearest;

	for (uint32_t i = 0; i < cnt; i++) {
		show(&all, ports[i].device);
		if (names != NULL)
			names[i] = ports[i].device;
	}
	nearest = names != NULL ? sxt_nearest(entry->name, names, cnt) : NULL;
	if (nearest != NULL)
		SXT_LOG(SXT_LOG_WARN, "NCCL_IB_HCA: %s matches nothing; nearest is %s", entry->name,
			nearest);
	else
		SXT_LOG(SXT_LOG_WARN, "NCCL_IB_HCA: %s matches nothing; there are %s", entry->name,
			all.cnt > 0 ? all.text : "no HCAs");
	free(names);
}

/* Does a name go on with digits where the entry ends in one: mlx5_1 and mlx5_10? */
static bool goes_on(const struct sxt_hca_entry *entry, const char *device)
{
	size_t len = strlen(entry->name);

	return isdigit((unsigned char)entry->name[len - 1]) != 0 &&
	       isdigit((unsigned char)device[len]) != 0;
}

static void tell_collision(const struct sxt_hca_list *list, const struct sxt_hca_entry *entry,
			   const struct shown *others)
{
	const char *sign = list->excludes ? "^" : "";

	SXT_LOG(SXT_LOG_WARN,
		"NCCL_IB_HCA: %s%s also %s %s, since it is the beginning of a name; write %s=%s "
		"for that one alone",
		sign, entry->name, list->excludes ? "excludes" : "picks", others->text, sign,
		entry->name);
}

/* Returns whether the entry matches a port. */
static bool check_entry(const struct sxt_hca_list *list, const struct sxt_hca_entry *entry,
			const struct sxt_hca_port *ports, uint32_t cnt)
{
	struct shown named = {0};
	struct shown others = {0};
	bool is_used = false;

	for (uint32_t i = 0; i < cnt; i++) {
		if (!fits_name(list, entry, ports[i].device))
			continue;
		show(&named, ports[i].device);
		is_used = is_used || fits_port(entry, ports[i].num);
		if (!list->is_exact && goes_on(entry, ports[i].device) &&
		    !has_whole_name(list, ports[i].device, ports[i].num))
			show(&others, ports[i].device);
	}
	if (named.cnt == 0)
		tell_no_name(entry, ports, cnt);
	else if (!is_used)
		tell_no_port(entry, &named);
	else if (others.cnt > 0)
		tell_collision(list, entry, &others);
	return is_used;
}

int sxt_hca_check(const struct sxt_hca_list *list, const struct sxt_hca_port *ports, uint32_t cnt)
{
	int unused_cnt = 0;

	for (uint32_t i = 0; i < list->cnt; i++)
		unused_cnt += !check_entry(list, &list->entries[i], ports, cnt);
	return unused_cnt;
}
