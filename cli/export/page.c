/*
 * page.c - a page of metrics as text (slow path, one thread).
 */
#include "cli/export/page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 65536

static bool make_room(struct sxt_page *page, size_t more)
{
	size_t room = page->room > 0 ? page->room : ROOM_FIRST;
	char *text;

	while (room - page->len <= more)
		room *= 2;
	if (page->text != NULL && room == page->room)
		return true;
	text = realloc(page->text, room);
	if (text == NULL) {
		page->out_of_memory = true;
		return false;
	}
	page->text = text;
	page->room = room;
	return true;
}

SXT_PRINTF(2, 3) static void put(struct sxt_page *page, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (len < 0 || !make_room(page, (size_t)len))
		return;
	va_start(args, fmt);
	vsnprintf(page->text + page->len, page->room - page->len, fmt, args);
	va_end(args);
	page->len += (size_t)len;
}

static const char *suffix_of(enum sxt_metric kind)
{
	return kind == SXT_METRIC_COUNTER ? "_total" : kind == SXT_METRIC_INFO ? "_info" : "";
}

void sxt_page_family(struct sxt_page *page, const struct sxt_family *family)
{
	static const char *const words[] = {"counter", "gauge", "info", "histogram"};
	const char *suffix = page->open_metrics ? "" : suffix_of(family->kind);
	const char *word = words[family->kind];

	page->family = family;
	if (!page->open_metrics && family->kind == SXT_METRIC_INFO)
		word = "gauge"; /* the older format has no info */
	put(page, "# HELP %s%s %s\n# TYPE %s%s %s\n", family->name, suffix, family->help,
	    family->name, suffix, word);
	if (page->open_metrics && family->unit != NULL)
		put(page, "# UNIT %s %s\n", family->name, family->unit);
}

void sxt_page_sample(struct sxt_page *page, const char *labels, const char *fmt, ...)
{
	bool has_labels = labels[0] != '\0';
	char value[64];
	va_list args;

	va_start(args, fmt);
	vsnprintf(value, sizeof(value), fmt, args);
	va_end(args);
	put(page, "%s%s%s%s%s %s\n", page->family->name, suffix_of(page->family->kind),
	    has_labels ? "{" : "", labels, has_labels ? "}" : "", value);
}

void sxt_page_histogram(struct sxt_page *page, const char *labels, const uint64_t *buckets,
			const char (*les)[24], size_t buckets_cnt, const char *sum)
{
	const char *name = page->family->name;
	uint64_t below = 0;

	for (size_t i = 0; i < buckets_cnt; i++) {
		below += buckets[i];
		put(page, "%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", name, labels,
		    i + 1 < buckets_cnt ? les[i] : "+Inf", below);
	}
	put(page, "%s_sum{%s} %s\n%s_count{%s} %" PRIu64 "\n", name, labels, sum, name, labels,
	    below);
}

void sxt_page_end(struct sxt_page *page)
{
	if (page->open_metrics)
		put(page, "# EOF\n");
}

void sxt_page_label(char *labels, size_t labels_bytes, const char *name, const char *value)
{
	size_t len = strlen(labels);
	size_t at = len;
	int head = snprintf(labels + len, labels_bytes - len, "%s%s=\"", len > 0 ? "," : "", name);

	if (head < 0 || (size_t)head >= labels_bytes - len)
		goto no_room;
	for (at += (size_t)head; *value != '\0'; value++) {
		if (at + 4 > labels_bytes)
			goto no_room;
		if (strchr("\\\"\n", *value) != NULL)
			labels[at++] = '\\';
		labels[at] = *value;
		if (*value == '\n')
			labels[at] = 'n';
		at++;
	}
	if (at + 2 > labels_bytes)
		goto no_room;
	labels[at] = '"';
	labels[at + 1] = '\0';
	return;
no_room:
	labels[len] = '\0';
}

void sxt_page_seconds(char out[24], uint64_t ns)
{
	snprintf(out, 24, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}
