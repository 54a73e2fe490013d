/*
 * format.c - numbers and texts for columns.
 */
#include "cli/top/format.h"

#include "cli/top/table.h"

#include "core/sys.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void sxt_top_print_rate(double value, char out[SXT_TOP_CELL_BYTES])
{
	if (isnan(value))
		snprintf(out, SXT_TOP_CELL_BYTES, "-");
	else if (value > 0 && value < 0.005)
		snprintf(out, SXT_TOP_CELL_BYTES, "<0.01");
	else
		snprintf(out, SXT_TOP_CELL_BYTES, "%.*f",
			 value < 99.995   ? 2
			 : value < 999.95 ? 1
					  : 0,
			 value);
}

void sxt_top_print_count(uint64_t value, char out[SXT_TOP_CELL_BYTES])
{
	static const char units[] = " kMGTPE";
	double scaled = (double)value;
	int unit = 0;

	if (value == SXT_TOP_UNKNOWN) {
		snprintf(out, SXT_TOP_CELL_BYTES, "-");
		return;
	}
	if (value < 100000) {
		snprintf(out, SXT_TOP_CELL_BYTES, "%" PRIu64, value);
		return;
	}
	while (scaled >= 999.5 && units[unit + 1] != '\0') {
		scaled /= 1000;
		unit++;
	}
	snprintf(out, SXT_TOP_CELL_BYTES, "%.*f%c", scaled < 9.95 ? 1 : 0, scaled, units[unit]);
}

void sxt_top_print_ns(uint64_t ns, char out[SXT_TOP_CELL_BYTES])
{
	static const char *const units[] = {"us", "ms", "s"};
	double scaled = (double)ns / 1000;
	int unit = 0;

	if (ns == SXT_TOP_UNKNOWN) {
		snprintf(out, SXT_TOP_CELL_BYTES, "-");
		return;
	}
	if (ns < 1000) {
		snprintf(out, SXT_TOP_CELL_BYTES, "<1us");
		return;
	}
	while (unit < 2 && scaled >= 999.5) {
		scaled /= 1000;
		unit++;
	}
	if (unit == 2 && scaled >= 9999.5)
		snprintf(out, SXT_TOP_CELL_BYTES, "%.0fh", scaled / 3600);
	else
		snprintf(out, SXT_TOP_CELL_BYTES, "%.*f%s", scaled < 9.95 ? 1 : 0, scaled,
			 units[unit]);
}

void sxt_top_print_span(const struct sxt_top_span *span, char out[SXT_TOP_CELL_BYTES])
{
	char p50[SXT_TOP_CELL_BYTES];
	char p99[SXT_TOP_CELL_BYTES];

	if (span->p50_ns == SXT_TOP_UNKNOWN) {
		snprintf(out, SXT_TOP_CELL_BYTES, "-");
		return;
	}
	sxt_top_print_ns(span->p50_ns, p50);
	sxt_top_print_ns(span->p99_ns, p99);
	snprintf(out, SXT_TOP_CELL_BYTES, "%.8s/%.8s", p50, p99);
}

void sxt_top_print_time(uint64_t wall_ns, char out[SXT_TOP_CELL_BYTES])
{
	time_t sec = (time_t)(wall_ns / SXT_NS_PER_SEC);
	struct tm parts;

	if (wall_ns == 0 || localtime_r(&sec, &parts) == NULL ||
	    strftime(out, SXT_TOP_CELL_BYTES, "%m-%d %H:%M:%S", &parts) == 0)
		snprintf(out, SXT_TOP_CELL_BYTES, "-");
}

static bool begins_character(char byte)
{
	return ((unsigned char)byte & 0xc0) != 0x80;
}

int sxt_top_columns_of(const char *text)
{
	int cnt = 0;

	for (; *text != '\0'; text++)
		cnt += begins_character(*text);
	return cnt;
}

size_t sxt_top_cut(const char *text, int columns)
{
	size_t i = 0;

	while (text[i] != '\0') {
		if (begins_character(text[i]) && columns-- == 0)
			break;
		i++;
	}
	return i;
}

void sxt_top_append_cell(char *line, const char *text, int width, bool right)
{
	size_t len = strlen(line);
	int columns = sxt_top_columns_of(text);
	int pad = columns < width ? width - columns : 0;

	if (columns > width)
		snprintf(line + len, SXT_TOP_LINE_BYTES - len, "%.*s~",
			 (int)sxt_top_cut(text, width - 1), text);
	else
		snprintf(line + len, SXT_TOP_LINE_BYTES - len, "%*s%s%*s", right ? pad : 0, "",
			 text, right ? 0 : pad, "");
}

size_t sxt_top_wrap(const char *text, int width)
{
	size_t fits = sxt_top_cut(text, width);
	size_t end = fits;

	if (text[fits] == '\0')
		return fits;
	while (end > 0 && text[end] != ' ')
		end--;
	return end > 0 ? end : fits;
}
