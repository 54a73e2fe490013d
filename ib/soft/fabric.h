/*
 * fabric.h - a fabric file read into the shared state's form and a timeline (docs/fabric.md).
 */
#ifndef SXT_IB_SOFT_FABRIC_H
#define SXT_IB_SOFT_FABRIC_H

#include "ib/soft/action.h"
#include "ib/soft/state.h"

struct sxt_soft_plan {
	struct sxt_soft_fabric *fabric;  /* procs and head members zero */
	struct sxt_soft_action *actions; /* the timeline, ordered by time */
	size_t actions_cnt;
	uint64_t hash; /* of the file's bytes */
};

/**
 * sxt_soft_plan_load() - read a fabric file.
 * @path: the file; NULL or "" is the built-in fabric of two hosts.
 * @out: written on success only; give back with sxt_soft_plan_fini().
 * @why, @why_bytes: on failure, "file:line: path: what is wrong and what is expected".
 * Return: 0, -EINVAL, -ENOMEM, or the negative errno of reading the file.
 */
SXT_MUST_CHECK int sxt_soft_plan_load(const char *path, struct sxt_soft_plan *out, char *why,
				      size_t why_bytes);

/**
 * sxt_soft_plan_parse() - read a fabric from text.
 * @file: its name for messages. @text: the document, terminated.
 * @out, @why, @why_bytes: as sxt_soft_plan_load(). Return: 0, -EINVAL or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_soft_plan_parse(const char *file, const char *text,
				       struct sxt_soft_plan *out, char *why, size_t why_bytes);

/**
 * sxt_soft_plan_fini() - free a plan; a zeroed one is fine.
 * @plan: unusable afterwards.
 */
void sxt_soft_plan_fini(struct sxt_soft_plan *plan);

/**
 * sxt_soft_fabric_complete() - fill in what the file left out, and check what must be unique.
 * @fabric: as parsed: zeros, empty texts and SXT_SOFT_UNSET where nothing was said.
 * @why, @why_bytes: on failure, the object, the value and what is expected.
 * Return: 0 or -EINVAL.
 */
SXT_MUST_CHECK int sxt_soft_fabric_complete(struct sxt_soft_fabric *fabric, char *why,
					    size_t why_bytes);

#define SXT_SOFT_UNSET     UINT64_MAX /* bandwidth: what the link carries */
#define SXT_SOFT_GID_UNSET UINT32_MAX /* GID type: what the link layer has */

#endif
