/*
 * check_gid.c - which address of a port's GID table is used: the plugin's own choice, explained.
 */
#include "cli/doctor/doctor.h"

#include "core/config.h"
#include "ib/gid.h"
#include "ib/gid_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Notes that stand for a finding of their own; the others say why there is no candidate. */
static const struct {
	enum sxt_gid_note note;
	enum sxt_finding_id id;
} note_findings[] = {
	{SXT_GID_NOTE_INDEX_BEYOND, SXT_FINDING_GID_INDEX},
	{SXT_GID_NOTE_INDEX_EMPTY, SXT_FINDING_GID_INDEX},
	{SXT_GID_NOTE_INDEX_OUTSIDE, SXT_FINDING_GID_INDEX},
	{SXT_GID_NOTE_INDEX_FOREIGN, SXT_FINDING_GID_INDEX},
	{SXT_GID_NOTE_INDEX_ON_IB, SXT_FINDING_GID_INDEX_ON_IB},
	{SXT_GID_NOTE_NO_RANGE, SXT_FINDING_GID_NONE},
	{SXT_GID_NOTE_ALL_FOREIGN, SXT_FINDING_GID_NONE},
	{SXT_GID_NOTE_NO_FAMILY, SXT_FINDING_GID_WISH},
	{SXT_GID_NOTE_NO_VERSION, SXT_FINDING_GID_WISH},
	{SXT_GID_NOTE_LINK_LOCAL, SXT_FINDING_GID_LINK_LOCAL},
	{SXT_GID_NOTE_V1_ONLY, SXT_FINDING_GID_V1_ONLY},
};

/* The settings of the tree, not those of this process; bad values were told with the settings. */
static void read_wishes(struct sxt_doctor *d, struct sxt_gid_wishes *out)
{
	struct sxt_config config = {0};
	char why[160];

	for (size_t i = 0; i < sxt_opts_cnt; i++) {
		const char *value = sxt_doctor_value(d, sxt_opts[i].env);

		sxt_opt_set_default(&sxt_opts[i], &config);
		if (value != NULL && value[0] != '\0')
			sxt_ignore(sxt_opt_parse(&sxt_opts[i], value, &config, why, sizeof(why)));
	}
	sxt_doctor_listen(d, SXT_FINDING_GID_SETTING, "address settings");
	sxt_ignore(sxt_gid_wishes_parse(&config, out));
	sxt_doctor_listen(NULL, SXT_FINDING_GID_SETTING, NULL);
}

static const char *origin_of(const struct sxt_doctor *d, const char *name)
{
	for (size_t i = 0; i < d->settings.cnt; i++) {
		const struct sxt_doctor_setting *one = &d->settings.list[i];

		if (one->counts && strcmp(one->name, name) == 0)
			return one->origin;
	}
	return "";
}

/* Return: the index that comes first, or -1 for none. */
static int64_t best_index(const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes,
			  struct sxt_gid_rank *ranks)
{
	uint32_t notes;

	return sxt_gid_rank_table(table, wishes, ranks, &notes) > 0
		       ? (int64_t)table->gids[ranks[0].at].index
		       : -1;
}

/* Where the index in the settings wins, what would have been chosen without it? */
static void check_pinned(struct sxt_doctor *d, const struct sxt_doctor_port *port,
			 const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes,
			 struct sxt_gid_rank *ranks)
{
	struct sxt_gid_wishes free_wishes = *wishes;
	char expected[32];
	int64_t index;

	free_wishes.index = -1;
	index = best_index(table, &free_wishes, ranks);
	if (table->is_infiniband || index < 0 || index == wishes->index)
		return;
	snprintf(expected, sizeof(expected), "%lld", (long long)index);
	sxt_doctor_add(d, SXT_FINDING_GID_PINNED, port->label, expected,
		       "NCCL_IB_GID_INDEX=%d (%s); without it %lld", wishes->index,
		       origin_of(d, "NCCL_IB_GID_INDEX"), (long long)index);
}

static bool tell_notes(struct sxt_doctor *d, const struct sxt_doctor_port *port,
		       const struct sxt_gid_table *table, const struct sxt_gid_wishes *wishes,
		       uint32_t notes)
{
	char text[512];
	bool none_told = false;

	for (size_t i = 0; i < SXT_ARRAY_LEN(note_findings); i++) {
		if ((notes & note_findings[i].note) == 0)
			continue;
		sxt_gid_note_text(note_findings[i].note, table, wishes, text, sizeof(text));
		sxt_doctor_add(d, note_findings[i].id, port->label, NULL, "%s", text);
		none_told = none_told || note_findings[i].id == SXT_FINDING_GID_NONE;
	}
	return none_told;
}

static void choose(struct sxt_doctor *d, struct sxt_doctor_port *port,
		   const struct sxt_gid_table *table, struct sxt_gid_rank *ranks)
{
	struct sxt_gid_wishes wishes;
	char text[512];
	uint32_t notes;
	uint32_t cnt;
	bool told;

	read_wishes(d, &wishes);
	cnt = sxt_gid_rank_table(table, &wishes, ranks, &notes);
	told = tell_notes(d, port, table, &wishes, notes);
	if (cnt == 0) {
		port->usable = false;
		if (!told)
			sxt_doctor_add(d, SXT_FINDING_GID_NONE, port->label, NULL,
				       "%u entries, none with an address", table->len);
		return;
	}
	sxt_gid_choice_text(table, ranks, cnt, text, sizeof(text));
	sxt_doctor_add(d, SXT_FINDING_GID_CHOICE, port->label, NULL, "%s", text);
	if (wishes.index >= 0 && (int64_t)table->gids[ranks[0].at].index == wishes.index)
		check_pinned(d, port, table, &wishes, ranks);
}

void sxt_doctor_choose_gid(struct sxt_doctor *d, struct sxt_doctor_port *port)
{
	struct sxt_gid_source source = {.sysroot = d->root,
					.device = port->hca->name,
					.port = port->num};
	struct sxt_gid_list list = {0};
	struct sxt_gid_table table = {.is_infiniband = !port->ethernet};
	struct sxt_gid_rank *ranks;
	int rc = sxt_gid_read_table(&source, &list);

	if (rc != 0) {
		char path[256];

		snprintf(path, sizeof(path), "%s/gids", port->folder);
		sxt_doctor_not_read(d, path, rc);
		return;
	}
	table.gids = list.gids;
	table.cnt = list.cnt;
	table.len = list.len;
	ranks = calloc(list.cnt + 1, sizeof(*ranks));
	if (ranks != NULL)
		choose(d, port, &table, ranks);
	else
		d->out_of_memory = true;
	free(ranks);
	sxt_gid_list_fini(&list);
}
