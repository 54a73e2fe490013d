/*
 * group.c - where connections are summed: by process, NIC, peer and direction, and beyond the
 * limit by fewer of them (slow path).
 */
#include "cli/export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER "others"

static const char *const directions[] = {"send", "receive"};

static struct sxt_export_group *find(const struct sxt_export *e,
				     const struct sxt_export_group *wanted)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &e->groups) {
		struct sxt_export_group *group =
			SXT_LIST_ENTRY(node, struct sxt_export_group, node);

		if (group->owner == wanted->owner && group->way == wanted->way &&
		    strcmp(group->nic, wanted->nic) == 0 && strcmp(group->peer, wanted->peer) == 0)
			return group;
	}
	return NULL;
}

static bool is_named(const struct sxt_export *e, const struct sxt_export_group *group)
{
	return group->owner != &e->other && strcmp(group->peer, OTHER) != 0;
}

static struct sxt_export_group *append(struct sxt_export *e, const struct sxt_export_group *wanted)
{
	struct sxt_export_group *group = malloc(sizeof(*group));
	char *labels;

	if (group == NULL)
		return NULL;
	*group = *wanted;
	labels = group->labels;
	snprintf(labels, sizeof(group->labels), "%s", group->owner->labels);
	sxt_page_label(labels, sizeof(group->labels), "nic", group->nic);
	sxt_page_label(labels, sizeof(group->labels), "peer", group->peer);
	sxt_page_label(labels, sizeof(group->labels), "direction", directions[group->way]);
	sxt_list_append(&e->groups, &group->node);
	e->named_cnt += is_named(e, group);
	return group;
}

struct sxt_export_group *sxt_export_link_group(struct sxt_export *e,
					       struct sxt_export_process *process, uint32_t link,
					       unsigned int way)
{
	struct sxt_export_link *last = &process->links[link];
	struct sxt_export_group wanted = {.owner = process->totals, .way = way};
	struct sxt_export_group *group = last->groups[way];

	if (group != NULL)
		return group;
	if (process->totals != &e->other) {
		snprintf(wanted.nic, sizeof(wanted.nic), "%s", last->now.nic);
		snprintf(wanted.peer, sizeof(wanted.peer), "%s", last->now.peer);
		if (wanted.peer[0] == '\0')
			return NULL; /* could not be read yet */
		group = find(e, &wanted);
	} else {
		snprintf(wanted.nic, sizeof(wanted.nic), OTHER);
	}
	if (group == NULL && (wanted.owner == &e->other || e->named_cnt >= e->limit)) {
		e->merged++;
		snprintf(wanted.peer, sizeof(wanted.peer), OTHER);
		group = find(e, &wanted);
	}
	if (group == NULL)
		group = append(e, &wanted);
	last->groups[way] = group;
	return group;
}

void sxt_export_drop_groups(struct sxt_export *e, const struct sxt_export_process *process)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &e->groups) {
		struct sxt_export_group *group =
			SXT_LIST_ENTRY(node, struct sxt_export_group, node);

		if (group->owner != &process->own)
			continue;
		e->named_cnt -= is_named(e, group);
		sxt_list_remove(&group->node);
		free(group);
	}
}
