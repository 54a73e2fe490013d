/*
 * accept.c - which of the two formats an Accept header asks for.
 */
#include "cli/export/export.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"

/* Does a piece of the header, up to any blank behind it, say this? */
static bool says(const char *text, size_t len, const char *word)
{
	while (len > 0 && strchr(BLANKS, text[len - 1]) != NULL)
		len--;
	return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

/* "q=0.5"; 1 where nothing or nonsense is said. */
static double quality(const char *text, const char *end)
{
	while (text < end) {
		size_t len = strcspn(text, ";,");

		text += strspn(text, BLANKS);
		if (strncasecmp(text, "q=", 2) == 0) {
			double q = strtod(text + 2, NULL);

			return q >= 0 && q <= 1 ? q : 1;
		}
		text += strcspn(text, ";,");
		text += len > 0 && text < end;
	}
	return 1;
}

/* One without a version takes any. */
static bool is_known_version(const char *text, const char *end)
{
	const char *version = memmem(text, (size_t)(end - text), "version=", 8);

	return version == NULL || strncmp(version + 8, "1.0.0", 5) == 0 ||
	       strncmp(version + 8, "0.0.1", 5) == 0;
}

bool sxt_export_wants_open_metrics(const char *accept)
{
	double open_metrics = 0;
	double plain = 0;

	while (accept != NULL && *accept != '\0') {
		const char *end = accept + strcspn(accept, ",");
		size_t len;
		double q;

		accept += strspn(accept, BLANKS);
		len = strcspn(accept, ";,");
		q = quality(accept + len + (accept + len < end), end);
		if (says(accept, len, "application/openmetrics-text")) {
			if (q > open_metrics && is_known_version(accept, end))
				open_metrics = q;
		} else if (q > plain && (says(accept, len, "text/plain") ||
					 says(accept, len, "text/*") || says(accept, len, "*/*"))) {
			plain = q;
		}
		accept = end + (*end == ',');
	}
	return open_metrics > 0 && open_metrics >= plain;
}
