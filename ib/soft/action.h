/*
 * action.h - what can be done to a running fabric: by the timeline of its file and by `soft set`.
 */
#ifndef SXT_IB_SOFT_ACTION_H
#define SXT_IB_SOFT_ACTION_H

#include "ib/soft/doc.h"
#include "ib/soft/state.h"

enum sxt_soft_action_kind {
	SXT_SOFT_ACT_STATE,     /* a port goes up or down; value = enum sxt_soft_port_state */
	SXT_SOFT_ACT_WC_ERROR,  /* the next count sends of a port fail; value = ibv_wc_status */
	SXT_SOFT_ACT_EVENT,     /* an asynchronous event; value = ibv_event_type */
	SXT_SOFT_ACT_REG_ERROR, /* the next count registrations of an HCA fail; value = errno */
	SXT_SOFT_ACT_DROP,      /* a port loses all packets, both ways; value = 1, or 0 no more */
	SXT_SOFT_ACT_GID_SWAP, /* entries `value` and `count` of a port's GID table change places */
	SXT_SOFT_ACT_GID_SET,  /* entry `value` of it gets the address `gid`, or becomes empty */
	SXT_SOFT_ACT_KILL,     /* SIGKILL; value = n-th process of a host, or SXT_SOFT_ALL */
};

#define SXT_SOFT_ALL UINT32_MAX

struct sxt_soft_action {
	enum sxt_soft_action_kind kind;
	uint32_t target; /* index of a port; of an HCA for REG_ERROR; of a host for KILL */
	uint32_t value;
	uint32_t count;
	uint8_t gid[16]; /* network order */
	uint32_t order;  /* its place in the file; timeline only */
	uint64_t at_ns;  /* after the fabric came up; timeline only */
};

/* A place in a fabric as people write it: HOST, HOST/HCA or HOST/HCA:PORT. */
struct sxt_soft_target {
	int host; /* indices; -1 where the text did not go that far */
	int hca;
	int port; /* also set for an HCA that has only one port */
};

/**
 * sxt_soft_target_find() - resolve HOST, HOST/HCA or HOST/HCA:PORT.
 * @fabric: the fabric. @text: the place. @out: written on success only.
 * @why, @why_bytes: on failure, what is unknown, and the nearest name.
 * Return: 0 or -EINVAL.
 */
SXT_MUST_CHECK int sxt_soft_target_find(const struct sxt_soft_fabric *fabric, const char *text,
					struct sxt_soft_target *out, char *why, size_t why_bytes);

/**
 * sxt_soft_action_parse() - read one action: {"at_ms": 5, "target": "a/mlx5_0:1", ...}.
 * @doc: the walk, for messages. @value: the object. @fabric: resolves the target.
 * @out: written on success only. Return: 0, or -EINVAL with the message written.
 */
SXT_MUST_CHECK int sxt_soft_action_parse(struct sxt_soft_doc *doc, const json_t *value,
					 const struct sxt_soft_fabric *fabric,
					 struct sxt_soft_action *out);

/**
 * sxt_soft_action_apply() - do it now.
 * @state: open. @action: what. Rewrites files of the sysfs tree and posts port events.
 * @done_cnt_out: contexts told, or processes killed; 0 for faults that wait to be used up.
 * Return: 0, -ESRCH when there is no such process, -EADDRINUSE when another port has the address,
 * or a negative errno of writing the tree.
 */
SXT_MUST_CHECK int sxt_soft_action_apply(struct sxt_soft_state *state,
					 const struct sxt_soft_action *action, int *done_cnt_out);

/**
 * sxt_soft_action_format() - the action in words, for messages: "a/mlx5_0:1 state=down".
 * @fabric: the fabric. @action: what. @out, @out_bytes: text, terminated.
 */
void sxt_soft_action_format(const struct sxt_soft_fabric *fabric,
			    const struct sxt_soft_action *action, char *out, size_t out_bytes);

#endif
