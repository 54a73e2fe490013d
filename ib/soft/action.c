/*
 * action.c - port changes and faults: parsed from JSON, done to a running fabric (slow path).
 */
#include "ib/soft/action.h"

#include "ib/soft/event.h"
#include "ib/soft/names.h"
#include "ib/soft/sysfs_tree.h"

#include "core/config.h"
#include "core/status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERRNO_MAX 133

/* An action as written, before its parts are checked against each other. */
struct draft {
	uint32_t at_ms;
	char target[160];
	uint32_t state;
	uint32_t wc_error;
	uint32_t event;
	uint32_t reg_error;
	uint32_t drop; /* DROP_OFF, DROP_ON */
	uint32_t gid;  /* index + 1 */
	uint32_t to;   /* index + 1, or TO_ADDRESS */
	uint8_t address[16];
	uint32_t kill; /* n + 1, or SXT_SOFT_ALL */
	uint32_t count;
};

static const struct sxt_soft_name state_names[] = {
	{"active", SXT_SOFT_PORT_ACTIVE},
	{"up", SXT_SOFT_PORT_ACTIVE},
	{"down", SXT_SOFT_PORT_DOWN},
	{NULL, 0},
};

/* 0 is unset. */
#define TO_ADDRESS UINT32_MAX
#define DROP_OFF   1u
#define DROP_ON    2u

static const struct sxt_soft_name drop_names[] = {
	{"off", DROP_OFF},
	{"on", DROP_ON},
	{NULL, 0},
};

static int target_fail(char *why, size_t why_bytes, const char *what, const char *word,
		       const char *nearest)
{
	snprintf(why, why_bytes, "no %s '%s'%s%s%s; `sextant soft show` lists them", what, word,
		 nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
		 nearest != NULL ? "'?" : "");
	return -EINVAL;
}

static int find_hca(const struct sxt_soft_fabric *fabric, const struct sxt_soft_host *host,
		    const char *word, char *why, size_t why_bytes)
{
	const char *names[SXT_SOFT_HCAS_MAX];
	char what[SXT_SOFT_NAME_MAX + 32];

	for (uint32_t i = 0; i < host->hca_cnt; i++) {
		names[i] = fabric->hcas[host->first_hca + i].name;
		if (strcmp(names[i], word) == 0)
			return (int)(host->first_hca + i);
	}
	snprintf(what, sizeof(what), "HCA of host %s named", host->name);
	return target_fail(why, why_bytes, what, word, sxt_nearest(word, names, host->hca_cnt));
}

static int find_port(const struct sxt_soft_hca *hca, const char *word, char *why, size_t why_bytes)
{
	char *end;
	unsigned long number = strtoul(word, &end, 10);

	if (word[0] >= '0' && word[0] <= '9' && *end == '\0' && number >= 1 &&
	    number <= hca->port_cnt)
		return (int)(hca->first_port + number - 1);
	snprintf(why, why_bytes, "no port '%s' of %s; expected 1..%" PRIu32, word, hca->name,
		 hca->port_cnt);
	return -EINVAL;
}

static int find_host(const struct sxt_soft_fabric *fabric, const char *word, char *why,
		     size_t why_bytes)
{
	const char *names[SXT_SOFT_HOSTS_MAX];
	int host = word[0] != '\0' ? sxt_soft_host_find(fabric, word) : -ENOENT;

	if (host >= 0)
		return host;
	for (uint32_t i = 0; i < fabric->host_cnt; i++)
		names[i] = fabric->hosts[i].name;
	return target_fail(why, why_bytes, "host", word,
			   sxt_nearest(word, names, fabric->host_cnt));
}

int sxt_soft_target_find(const struct sxt_soft_fabric *fabric, const char *text,
			 struct sxt_soft_target *out, char *why, size_t why_bytes)
{
	struct sxt_soft_target target = {.host = -1, .hca = -1, .port = -1};
	char word[160];
	char *hca;
	char *port;

	snprintf(word, sizeof(word), "%s", text);
	hca = strchr(word, '/');
	if (hca != NULL)
		*hca++ = '\0';
	port = hca != NULL ? strchr(hca, ':') : NULL;
	if (port != NULL)
		*port++ = '\0';
	target.host = find_host(fabric, word, why, why_bytes);
	if (target.host < 0)
		return -EINVAL;
	if (hca != NULL) {
		target.hca = find_hca(fabric, &fabric->hosts[target.host], hca, why, why_bytes);
		if (target.hca < 0)
			return -EINVAL;
		if (port == NULL && fabric->hcas[target.hca].port_cnt == 1)
			target.port = (int)fabric->hcas[target.hca].first_port;
	}
	if (port != NULL) {
		target.port = find_port(&fabric->hcas[target.hca], port, why, why_bytes);
		if (target.port < 0)
			return -EINVAL;
	}
	*out = target;
	return 0;
}

static int read_errno(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	const char *word = json_string_value(value);
	const char *names[ERRNO_MAX];
	const char *nearest;
	struct draft *draft = into;

	for (int i = 1; i <= ERRNO_MAX; i++) {
		names[i - 1] = sxt_errname(i);
		if (word != NULL && strcmp(names[i - 1], word) == 0) {
			draft->reg_error = (uint32_t)i;
			return 0;
		}
	}
	nearest = word != NULL ? sxt_nearest(word, names, ERRNO_MAX) : NULL;
	return sxt_soft_doc_fail(doc, "is '%s'%s%s; expected an errno such as ENOMEM",
				 word != NULL ? word : "no text",
				 nearest != NULL ? "; did you mean " : "",
				 nearest != NULL ? nearest : "");
}

/* true and false in a file, on and off on a command line. */
static int read_drop(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct draft *draft = into;

	if (!json_is_boolean(value))
		return sxt_soft_doc_choice(doc, value, drop_names, &draft->drop);
	draft->drop = json_is_true(value) ? DROP_ON : DROP_OFF;
	return 0;
}

static int read_gid(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct draft *draft = into;
	json_int_t number = json_integer_value(value);
	char seen[64];

	if (json_is_integer(value) && number >= 0 && number < SXT_SOFT_GIDS_MAX) {
		draft->gid = (uint32_t)number + 1;
		return 0;
	}
	sxt_soft_doc_show(value, seen, sizeof(seen));
	return sxt_soft_doc_fail(doc, "is %s; expected an index of the port's GID table, 0..%d",
				 seen, SXT_SOFT_GIDS_MAX - 1);
}

/* Where it goes, or what is there from now on. */
static int read_to(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct draft *draft = into;
	json_int_t number = json_integer_value(value);
	char seen[64];

	draft->to = json_is_integer(value) ? (uint32_t)number + 1 : TO_ADDRESS;
	if (json_is_integer(value) && number >= 0 && number < SXT_SOFT_GIDS_MAX)
		return 0;
	if (json_is_string(value) &&
	    inet_pton(AF_INET6, json_string_value(value), draft->address) == 1)
		return 0;
	sxt_soft_doc_show(value, seen, sizeof(seen));
	return sxt_soft_doc_fail(doc,
				 "is %s; expected an index of the port's GID table, 0..%d, or an "
				 "address such as \"::ffff:10.0.0.1\", \"::\" for none",
				 seen, SXT_SOFT_GIDS_MAX - 1);
}

static int read_kill(struct sxt_soft_doc *doc, const json_t *value, void *into)
{
	struct draft *draft = into;
	json_int_t number = json_integer_value(value);

	if (json_is_string(value) && strcmp(json_string_value(value), "all") == 0) {
		draft->kill = SXT_SOFT_ALL;
		return 0;
	}
	if (!json_is_integer(value) || number < 0 || number >= SXT_SOFT_PROCS_MAX)
		return sxt_soft_doc_fail(doc,
					 "expected \"all\" or which process of the host, 0..%d",
					 SXT_SOFT_PROCS_MAX - 1);
	draft->kill = (uint32_t)number + 1;
	return 0;
}

static int no_such_place(struct sxt_soft_doc *doc, const struct draft *draft, const char *expected)
{
	return sxt_soft_doc_fail(doc, "target is '%s'; expected %s", draft->target, expected);
}

/* @target: a port. */
static int settle_gid(struct sxt_soft_doc *doc, const struct draft *draft,
		      const struct sxt_soft_fabric *fabric, struct sxt_soft_action *out)
{
	uint32_t cnt = fabric->ports[out->target].gid_cnt;
	bool moves = draft->to != TO_ADDRESS;

	if (draft->to == 0)
		return sxt_soft_doc_fail(doc,
					 "gid lacks to; expected the index that entry %" PRIu32
					 " goes to, or its new address",
					 draft->gid - 1);
	if (draft->gid > cnt || (moves && draft->to > cnt))
		return sxt_soft_doc_fail(doc,
					 "%s is %" PRIu32 "; the GID table of %s has 0..%" PRIu32,
					 draft->gid > cnt ? "gid" : "to",
					 (draft->gid > cnt ? draft->gid : draft->to) - 1,
					 draft->target, cnt - 1);
	out->kind = moves ? SXT_SOFT_ACT_GID_SWAP : SXT_SOFT_ACT_GID_SET;
	out->value = draft->gid - 1;
	out->count = moves ? draft->to - 1 : 1;
	memcpy(out->gid, draft->address, sizeof(out->gid));
	return 0;
}

/* What is done to a port. */
static void settle_port(const struct draft *draft, struct sxt_soft_action *out)
{
	if (draft->drop != 0) {
		out->kind = SXT_SOFT_ACT_DROP;
		out->value = draft->drop == DROP_ON;
		return;
	}
	out->kind = draft->state != 0      ? SXT_SOFT_ACT_STATE
		    : draft->wc_error != 0 ? SXT_SOFT_ACT_WC_ERROR
					   : SXT_SOFT_ACT_EVENT;
	out->value = draft->state + draft->wc_error + draft->event; /* the two unset are 0 */
}

/* Exactly one of the keys that say what to do, and a place that it can be done to. */
static int settle(struct sxt_soft_doc *doc, const struct draft *draft,
		  const struct sxt_soft_fabric *fabric, const struct sxt_soft_target *target,
		  struct sxt_soft_action *out)
{
	int cnt = (draft->state != 0) + (draft->wc_error != 0) + (draft->event != 0) +
		  (draft->reg_error != 0) + (draft->drop != 0) + (draft->gid != 0) +
		  (draft->kill != 0);

	if (cnt != 1)
		return sxt_soft_doc_fail(doc,
					 "says %d things to do; expected exactly one of "
					 "state, wc_error, event, reg_error, drop, gid and kill",
					 cnt);
	if (draft->count != 0 && draft->wc_error == 0 && draft->reg_error == 0)
		return sxt_soft_doc_fail(doc,
					 "count goes with wc_error and reg_error, not with others");
	if (draft->to != 0 && draft->gid == 0)
		return sxt_soft_doc_fail(doc, "to goes with gid, not with others");
	out->at_ns = draft->at_ms * 1000000ull;
	out->count = draft->count != 0 ? draft->count : 1;
	if (draft->kill != 0) {
		out->kind = SXT_SOFT_ACT_KILL;
		out->value = draft->kill == SXT_SOFT_ALL ? SXT_SOFT_ALL : draft->kill - 1;
		out->target = (uint32_t)target->host;
		return target->hca < 0 ? 0 : no_such_place(doc, draft, "HOST");
	}
	if (draft->reg_error != 0) {
		out->kind = SXT_SOFT_ACT_REG_ERROR;
		out->value = draft->reg_error;
		out->target = (uint32_t)target->hca;
		return target->hca >= 0 ? 0 : no_such_place(doc, draft, "HOST/HCA");
	}
	if (target->port < 0)
		return no_such_place(doc, draft, "HOST/HCA:PORT");
	out->target = (uint32_t)target->port;
	if (draft->gid != 0)
		return settle_gid(doc, draft, fabric, out);
	settle_port(draft, out);
	return 0;
}

int sxt_soft_action_parse(struct sxt_soft_doc *doc, const json_t *value,
			  const struct sxt_soft_fabric *fabric, struct sxt_soft_action *out)
{
	static const struct sxt_soft_field fields[] = {
		{SXT_SOFT_FIELD_INT(at_ms, struct draft, at_ms, 0, UINT32_MAX)},
		{SXT_SOFT_FIELD_TEXT(target, struct draft, target)},
		{SXT_SOFT_FIELD_CHOICE(state, struct draft, state, state_names)},
		{SXT_SOFT_FIELD_CHOICE(wc_error, struct draft, wc_error, sxt_soft_wc_names)},
		{SXT_SOFT_FIELD_CHOICE(event, struct draft, event, sxt_soft_event_names)},
		{SXT_SOFT_FIELD_CALL(reg_error, read_errno)},
		{SXT_SOFT_FIELD_CALL(drop, read_drop)},
		{SXT_SOFT_FIELD_CALL(gid, read_gid)},
		{SXT_SOFT_FIELD_CALL(to, read_to)},
		{SXT_SOFT_FIELD_CALL(kill, read_kill)},
		{SXT_SOFT_FIELD_INT(count, struct draft, count, 1, UINT32_MAX)},
		{0},
	};
	struct sxt_soft_action action = {0};
	struct sxt_soft_target target;
	struct draft draft = {0};
	char why[320];
	int rc = sxt_soft_doc_object(doc, value, fields, &draft);

	if (rc != 0)
		return rc;
	if (draft.target[0] == '\0')
		return sxt_soft_doc_fail(doc, "has no target; expected HOST, HOST/HCA or "
					      "HOST/HCA:PORT");
	if (sxt_soft_target_find(fabric, draft.target, &target, why, sizeof(why)) != 0)
		return sxt_soft_doc_fail(doc, "target is '%s': %s", draft.target, why);
	rc = settle(doc, &draft, fabric, &target, &action);
	if (rc == 0)
		*out = action;
	return rc;
}

static int apply_state(struct sxt_soft_state *state, const struct sxt_soft_action *action,
		       int *done_cnt_out)
{
	struct sxt_soft_port *port = &state->fabric->ports[action->target];
	bool down = action->value == SXT_SOFT_PORT_DOWN;
	struct sxt_soft_event event = {.port_num = port->port_num};
	int rc = sxt_soft_state_lock(state);

	if (rc != 0)
		return rc;
	*done_cnt_out = 0;
	if (atomic_exchange(&port->state, action->value) == action->value) {
		sxt_soft_state_unlock(state);
		return 0;
	}
	atomic_store(&port->phys_state, down ? SXT_SOFT_PHYS_DISABLED : SXT_SOFT_PHYS_UP);
	if (down)
		atomic_fetch_add_explicit(&port->counters.link_downed, 1, memory_order_relaxed);
	rc = sxt_soft_tree_update_state(state, action->target);
	sxt_soft_state_unlock(state);
	event.type = sxt_soft_value_of(sxt_soft_event_names, down ? "PORT_ERR" : "PORT_ACTIVE");
	*done_cnt_out = sxt_soft_event_post(state, port->hca, &event);
	return rc;
}

/* The caller holds the fabric's lock. */
static int change_gids(struct sxt_soft_state *state, const struct sxt_soft_action *action)
{
	struct sxt_soft_port *port = &state->fabric->ports[action->target];
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];
	struct sxt_soft_gid *gid = &gids[action->value];
	struct sxt_soft_gid was;
	int owner;

	sxt_soft_gids_read(port, gids);
	was = *gid;
	if (action->kind == SXT_SOFT_ACT_GID_SWAP) {
		*gid = gids[action->count];
		gids[action->count] = was;
	} else {
		memcpy(gid->raw, action->gid, sizeof(gid->raw));
		owner = sxt_soft_port_by_gid(state->fabric, gid->raw);
		if (!sxt_soft_gid_is_empty(gid) && owner >= 0 && owner != (int)action->target)
			return -EADDRINUSE;
	}
	sxt_soft_gids_write(port, gids);
	return sxt_soft_tree_update_gids(state, action->target);
}

static int apply_gids(struct sxt_soft_state *state, const struct sxt_soft_action *action,
		      int *done_cnt_out)
{
	const struct sxt_soft_port *port = &state->fabric->ports[action->target];
	const struct sxt_soft_event event = {
		.type = sxt_soft_value_of(sxt_soft_event_names, "GID_CHANGE"),
		.port_num = port->port_num,
	};
	int rc = sxt_soft_state_lock(state);

	if (rc != 0)
		return rc;
	rc = change_gids(state, action);
	sxt_soft_state_unlock(state);
	if (rc == 0)
		*done_cnt_out = sxt_soft_event_post(state, port->hca, &event);
	return rc;
}

static int apply_event(struct sxt_soft_state *state, const struct sxt_soft_action *action,
		       int *done_cnt_out)
{
	const struct sxt_soft_port *port = &state->fabric->ports[action->target];
	struct sxt_soft_event event = {.type = action->value, .port_num = port->port_num};

	*done_cnt_out = sxt_soft_event_post(state, port->hca, &event);
	return 0;
}

/* The slot, and with it the pid, can change hands between the two looks: so compare once more. */
static bool kill_slot(struct sxt_soft_state *state, uint32_t slot, uint64_t word)
{
	const struct sxt_soft_proc *proc = &state->fabric->procs[slot];
	uint64_t start_ticks;

	if (sxt_soft_proc_start_ticks(proc->pid, &start_ticks) != 0 ||
	    start_ticks != proc->start_ticks || !sxt_soft_proc_is_alive(state->fabric, slot, word))
		return false;
	return kill(proc->pid, SIGKILL) == 0;
}

static int apply_kill(struct sxt_soft_state *state, const struct sxt_soft_action *action,
		      int *done_cnt_out)
{
	uint32_t nth = 0;
	int killed_cnt = 0;

	for (uint32_t slot = 0; slot < SXT_SOFT_PROCS_MAX; slot++) {
		const struct sxt_soft_proc *proc = &state->fabric->procs[slot];
		uint64_t word = atomic_load_explicit(&proc->word, memory_order_acquire);

		if (sxt_soft_proc_word_state(word) != SXT_SOFT_PROC_ALIVE ||
		    proc->host != action->target)
			continue;
		if (action->value == SXT_SOFT_ALL || action->value == nth)
			killed_cnt += kill_slot(state, slot, word);
		nth++;
	}
	*done_cnt_out = killed_cnt;
	return killed_cnt > 0 ? 0 : -ESRCH;
}

int sxt_soft_action_apply(struct sxt_soft_state *state, const struct sxt_soft_action *action,
			  int *done_cnt_out)
{
	uint64_t fault = sxt_soft_fault_word(action->value, action->count);

	*done_cnt_out = 0;
	switch (action->kind) {
	case SXT_SOFT_ACT_STATE:
		return apply_state(state, action, done_cnt_out);
	case SXT_SOFT_ACT_EVENT:
		return apply_event(state, action, done_cnt_out);
	case SXT_SOFT_ACT_GID_SWAP:
	case SXT_SOFT_ACT_GID_SET:
		return apply_gids(state, action, done_cnt_out);
	case SXT_SOFT_ACT_KILL:
		return apply_kill(state, action, done_cnt_out);
	case SXT_SOFT_ACT_WC_ERROR:
		atomic_store(&state->fabric->ports[action->target].fault_wc, fault);
		return 0;
	case SXT_SOFT_ACT_DROP:
		atomic_store(&state->fabric->ports[action->target].drop, action->value);
		return 0;
	case SXT_SOFT_ACT_REG_ERROR:
		atomic_store(&state->fabric->hcas[action->target].fault_reg, fault);
		return 0;
	}
	return -EINVAL;
}

static void format_place(const struct sxt_soft_fabric *fabric, const struct sxt_soft_action *action,
			 char *out, size_t out_bytes)
{
	const struct sxt_soft_hca *hca;

	if (action->kind == SXT_SOFT_ACT_KILL) {
		snprintf(out, out_bytes, "%s", fabric->hosts[action->target].name);
	} else if (action->kind == SXT_SOFT_ACT_REG_ERROR) {
		hca = &fabric->hcas[action->target];
		snprintf(out, out_bytes, "%s/%s", fabric->hosts[hca->host].name, hca->name);
	} else {
		hca = &fabric->hcas[fabric->ports[action->target].hca];
		snprintf(out, out_bytes, "%s/%s:%d", fabric->hosts[hca->host].name, hca->name,
			 fabric->ports[action->target].port_num);
	}
}

void sxt_soft_action_format(const struct sxt_soft_fabric *fabric,
			    const struct sxt_soft_action *action, char *out, size_t out_bytes)
{
	char place[2 * SXT_SOFT_NAME_MAX + 8];
	char address[INET6_ADDRSTRLEN] = "";

	format_place(fabric, action, place, sizeof(place));
	switch (action->kind) {
	case SXT_SOFT_ACT_STATE:
		snprintf(out, out_bytes, "%s state=%s", place,
			 sxt_soft_name_of(state_names, action->value));
		break;
	case SXT_SOFT_ACT_EVENT:
		snprintf(out, out_bytes, "%s event=%s", place,
			 sxt_soft_name_of(sxt_soft_event_names, action->value));
		break;
	case SXT_SOFT_ACT_WC_ERROR:
		snprintf(out, out_bytes, "%s wc_error=%s count=%" PRIu32, place,
			 sxt_soft_name_of(sxt_soft_wc_names, action->value), action->count);
		break;
	case SXT_SOFT_ACT_REG_ERROR:
		snprintf(out, out_bytes, "%s reg_error=%s count=%" PRIu32, place,
			 sxt_errname((int)action->value), action->count);
		break;
	case SXT_SOFT_ACT_DROP:
		snprintf(out, out_bytes, "%s drop=%s", place, action->value != 0 ? "on" : "off");
		break;
	case SXT_SOFT_ACT_GID_SWAP:
		snprintf(out, out_bytes, "%s gid=%" PRIu32 " to=%" PRIu32, place, action->value,
			 action->count);
		break;
	case SXT_SOFT_ACT_GID_SET:
		inet_ntop(AF_INET6, action->gid, address, sizeof(address));
		snprintf(out, out_bytes, "%s gid=%" PRIu32 " to=%s", place, action->value, address);
		break;
	case SXT_SOFT_ACT_KILL:
		if (action->value == SXT_SOFT_ALL)
			snprintf(out, out_bytes, "%s kill=all", place);
		else
			snprintf(out, out_bytes, "%s kill=%" PRIu32, place, action->value);
		break;
	}
}
