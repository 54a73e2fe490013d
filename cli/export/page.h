/*
 * page.h - a page of metrics as text: Prometheus' format 0.0.4, or OpenMetrics 1.0.
 */
#ifndef SXT_CLI_EXPORT_PAGE_H
#define SXT_CLI_EXPORT_PAGE_H

#include "core/compiler.h"

#include <stdbool.h>

enum sxt_metric {
	SXT_METRIC_COUNTER,
	SXT_METRIC_GAUGE,
	SXT_METRIC_INFO,
	SXT_METRIC_HISTOGRAM
};

/* The two formats differ in how a family is announced, not in its samples. */
struct sxt_family {
	enum sxt_metric kind;
	const char *name; /* without _total and _info */
	const char *unit; /* the last word of the name, or NULL */
	const char *help;
};

struct sxt_page {
	bool open_metrics;
	bool out_of_memory; /* the page is not whole */
	char *text;
	size_t len;
	size_t room;
	const struct sxt_family *family; /* the one that samples belong to */
};

/**
 * sxt_page_family() - begin a family.
 * @page: where. @family: kept until the next one begins.
 */
void sxt_page_family(struct sxt_page *page, const struct sxt_family *family);

/**
 * sxt_page_sample() - one sample of the family; "_total" or "_info" is put behind its name.
 * @page: where. @labels: escaped, without braces. @fmt: the value.
 */
void sxt_page_sample(struct sxt_page *page, const char *labels, const char *fmt, ...)
	SXT_PRINTF(3, 4);

/**
 * sxt_page_histogram() - one histogram of the family.
 * @page: where. @labels: escaped, without braces. @buckets: counts, not cumulative.
 * @les: upper bounds as text, buckets_cnt - 1 of them; the last bucket has none.
 * @buckets_cnt: how many. @sum: of all that was counted, as text.
 */
void sxt_page_histogram(struct sxt_page *page, const char *labels, const uint64_t *buckets,
			const char (*les)[24], size_t buckets_cnt, const char *sum);

/**
 * sxt_page_end() - end the page as its format wants it. @page: where.
 */
void sxt_page_end(struct sxt_page *page);

/**
 * sxt_page_label() - add `name="value",` to labels; nothing is added where it does not fit.
 * @labels, @labels_bytes: terminated text. @name: of the label. @value: any text; escaped.
 */
void sxt_page_label(char *labels, size_t labels_bytes, const char *name, const char *value);

/**
 * sxt_page_seconds() - ns as seconds, exactly. @out: text. @ns: the duration.
 */
void sxt_page_seconds(char out[24], uint64_t ns);

#endif
