/*
 * check_counters.c - error counters of each port, per driver, and what their growth means.
 *
 * Two readings are compared: now and an earlier tree, or now and after a while of watching.
 */
#include "cli/doctor/doctor.h"
#include "cli/doctor/facts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAPS_MANY        10
#define PAUSE_PER_S_STORM 1000

enum meaning {
	SYMBOL,
	LINK,
	RETRANSMIT,
	RNR,
	CONGESTION,
	WAIT,
	MEANINGS_CNT
};

static const enum sxt_finding_id growth_findings[] = {
	[SYMBOL] = SXT_FINDING_GROW_SYMBOL,         [LINK] = SXT_FINDING_GROW_LINK,
	[RETRANSMIT] = SXT_FINDING_GROW_RETRANSMIT, [RNR] = SXT_FINDING_GROW_RNR,
	[CONGESTION] = SXT_FINDING_GROW_CONGESTION, [WAIT] = SXT_FINDING_GROW_WAIT,
};

static const struct {
	const char *name;
	enum meaning meaning;
} counters[] = {
#define SXT_COUNTER(name, meaning) {name, meaning},
#include "core/counters.def"
#undef SXT_COUNTER
};
#define COUNTERS_CNT SXT_ARRAY_LEN(counters)

/* One port at one time; a counter that is not there is told by `has`. */
struct sample {
	uint64_t value[COUNTERS_CNT];
	bool has[COUNTERS_CNT];
	struct sxt_doctor_stats stats;
};

/* What one port did between two samples. */
struct growth {
	uint64_t sum[MEANINGS_CNT];
	bool known[MEANINGS_CNT];
	char text[MEANINGS_CNT][400];
	uint64_t pauses;
	char pause_text[400];
};

static size_t counter_of(const char *name)
{
	size_t i = 0;

	while (i < COUNTERS_CNT && strcmp(counters[i].name, name) != 0)
		i++;
	return i;
}

static void take_folder(const struct sxt_doctor *d, const char *port_folder, const char *folder,
			struct sample *out)
{
	struct sxt_names names = {0};
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", port_folder, folder);
	if (sxt_sysfs_list(d->root, path, &names) != 0)
		return;
	for (size_t i = 0; i < names.cnt; i++) {
		size_t at = counter_of(names.list[i]);

		if (at < COUNTERS_CNT &&
		    sxt_doctor_read_u64(d, &out->value[at], "%s/%s", path, names.list[i]) == 0)
			out->has[at] = true;
	}
	sxt_names_fini(&names);
}

/* The ports are the live tree's; @d may be another tree. Return: one sample per port, or NULL. */
static struct sample *take_all(const struct sxt_doctor *d, const struct sxt_doctor *ports)
{
	struct sample *samples = calloc(ports->ports_cnt + 1, sizeof(*samples));

	for (size_t i = 0; samples != NULL && i < ports->ports_cnt; i++) {
		const struct sxt_doctor_port *port = &ports->ports[i];

		take_folder(d, port->folder, "counters", &samples[i]);
		take_folder(d, port->folder, "hw_counters", &samples[i]);
		if (port->ethernet && port->netdev[0] != '\0')
			sxt_doctor_stats_read(d, port->netdev, &samples[i].stats);
	}
	return samples;
}

static void append(char *text, size_t text_bytes, const char *sign, const char *name,
		   uint64_t value)
{
	size_t len = strlen(text);

	snprintf(text + len, text_bytes - len, "%s%s %s%llu", len > 0 ? ", " : "", name, sign,
		 (unsigned long long)value);
}

/* As they stand: above zero is worth a look, many link downs are more. */
static void check_standing(struct sxt_doctor *d, const struct sxt_doctor_port *port,
			   const struct sample *now)
{
	char text[400] = "";

	for (size_t i = 0; i < COUNTERS_CNT; i++) {
		enum meaning meaning = counters[i].meaning;

		if (!now->has[i] || now->value[i] == 0 || meaning == CONGESTION || meaning == WAIT)
			continue;
		append(text, sizeof(text), "", counters[i].name, now->value[i]);
		if (meaning == LINK && now->value[i] >= FLAPS_MANY)
			sxt_doctor_add(d, SXT_FINDING_COUNTER_FLAPS, port->label, NULL, "%s %llu",
				       counters[i].name, (unsigned long long)now->value[i]);
	}
	if (text[0] != '\0')
		sxt_doctor_add(d, SXT_FINDING_COUNTER_SEEN, port->label, NULL, "%s", text);
}

static void grow_pauses(struct growth *out, const struct sxt_doctor_stats *before,
			const struct sxt_doctor_stats *after)
{
	for (size_t i = 0; i < after->cnt; i++) {
		const struct sxt_doctor_stat *now = &after->list[i];
		size_t k = 0;

		while (k < before->cnt && strcmp(before->list[k].name, now->name) != 0)
			k++;
		if (k == before->cnt || !sxt_doctor_counts_pauses(now->name) ||
		    now->value <= before->list[k].value)
			continue;
		out->pauses += now->value - before->list[k].value;
		append(out->pause_text, sizeof(out->pause_text), "+", now->name,
		       now->value - before->list[k].value);
	}
}

/* A counter that went back was cleared in between: nothing is known of it. */
static void grow(struct growth *out, const struct sample *before, const struct sample *after)
{
	*out = (struct growth){.pauses = 0};
	for (size_t i = 0; i < COUNTERS_CNT; i++) {
		enum meaning meaning = counters[i].meaning;

		if (!before->has[i] || !after->has[i] || after->value[i] < before->value[i])
			continue;
		out->known[meaning] = true;
		if (after->value[i] == before->value[i])
			continue;
		out->sum[meaning] += after->value[i] - before->value[i];
		append(out->text[meaning], sizeof(out->text[meaning]), "+", counters[i].name,
		       after->value[i] - before->value[i]);
	}
	grow_pauses(out, &before->stats, &after->stats);
}

static bool check_growth(struct sxt_doctor *d, const struct sxt_doctor_port *port,
			 const struct growth *g, double seconds)
{
	char during[32] = "";
	bool any = false;

	if (seconds > 0)
		snprintf(during, sizeof(during), " in %.0f s", seconds);
	for (int i = 0; i < MEANINGS_CNT; i++) {
		if (g->sum[i] == 0)
			continue;
		any = true;
		sxt_doctor_add(d, growth_findings[i], port->label, NULL, "%s%s", g->text[i],
			       during);
	}
	if (g->sum[RETRANSMIT] > 0 && port->ethernet && g->known[CONGESTION] &&
	    g->sum[CONGESTION] == 0 && g->pauses == 0)
		sxt_doctor_add(d, SXT_FINDING_GROW_LOSSY, port->label,
			       "PAUSE or congestion marks before a loss", "%s%s, no CNP, no PAUSE",
			       g->text[RETRANSMIT], during);
	if ((double)g->pauses < PAUSE_PER_S_STORM * (seconds > 0 ? seconds : 10))
		return any;
	sxt_doctor_add(d, SXT_FINDING_GROW_PAUSE, port->label, "less than 1000 frames a second",
		       "%s%s", g->pause_text, during);
	return true;
}

static double uptime(const struct sxt_doctor *d)
{
	char text[64];

	return sxt_doctor_read(d, text, sizeof(text), "/proc/uptime") == 0 ? strtod(text, NULL) : 0;
}

static void compare(struct sxt_doctor *d, const struct sample *before, const struct sample *after,
		    double seconds)
{
	struct growth *g = calloc(1, sizeof(*g));
	bool any = false;

	for (size_t i = 0; g != NULL && i < d->ports_cnt; i++) {
		grow(g, &before[i], &after[i]);
		any = check_growth(d, &d->ports[i], g, seconds) || any;
	}
	if (g == NULL)
		d->out_of_memory = true;
	else if (!any && d->ports_cnt > 0)
		sxt_doctor_add(d, SXT_FINDING_GROW_NONE, "all ports", NULL,
			       "no counter grew in %.0f s", seconds);
	free(g);
}

/* The earlier tree against this one. */
static void check_since(struct sxt_doctor *d, const struct sample *now)
{
	struct sxt_doctor then = {.root = d->since};
	struct sample *before;
	double seconds;

	then.facts = sxt_doctor_slurp(&then, SXT_FACTS_FILE, NULL);
	before = take_all(&then, d);
	seconds = uptime(d) - uptime(&then);
	if (before != NULL)
		compare(d, before, now, seconds > 0 ? seconds : 0);
	else
		d->out_of_memory = true;
	free(then.facts);
	free(before);
}

static void check_watch(struct sxt_doctor *d, const struct sample *now)
{
	unsigned int left = d->watch_s;
	struct sample *after;

	while (left > 0)
		left = sleep(left);
	after = take_all(d, d);
	if (after != NULL)
		compare(d, now, after, d->watch_s);
	else
		d->out_of_memory = true;
	free(after);
}

void sxt_check_counters(struct sxt_doctor *d)
{
	struct sample *now = take_all(d, d);

	if (now == NULL) {
		d->out_of_memory = true;
		return;
	}
	for (size_t i = 0; i < d->ports_cnt; i++)
		check_standing(d, &d->ports[i], &now[i]);
	if (d->since != NULL)
		check_since(d, now);
	if (d->watch_s > 0)
		check_watch(d, now);
	free(now);
}
