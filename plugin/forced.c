/*
 * forced.c - NCCL_ALGO and NCCL_PROTO (slow path, pure).
 */
#include "plugin/forced.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ENTRY_BYTES 256
#define WORD_BYTES  32

/* What one of the two says of one collective. */
struct said {
	bool is_named;
	bool is_left[SXT_ALGOS]; /* unless named; there are more algorithms than protocols */
};
_Static_assert((int)SXT_PROTOS <= (int)SXT_ALGOS, "a row holds either");

/* The text up to a delimiter, cut to fit; @at goes behind it. Return: false at the end. */
static bool take(const char **at, const char *delimiter, char *out, size_t out_bytes)
{
	size_t len = strcspn(*at, delimiter);

	if (**at == '\0')
		return false;
	snprintf(out, out_bytes, "%.*s", (int)len, *at);
	*at += len;
	*at += **at != '\0' ? 1 : 0;
	return true;
}

static void read_list(const char *list, int (*number_of)(const char *word), struct said *out)
{
	bool excludes = list[0] == '^';
	char word[WORD_BYTES];

	out->is_named = !excludes;
	memset(out->is_left, true, sizeof(out->is_left));
	list += excludes ? 1 : 0;
	while (take(&list, ",", word, sizeof(word))) {
		int number = word[0] != '\0' ? number_of(word) : 0;

		if (number < 0)
			out->is_named = true;
		else if (word[0] != '\0')
			out->is_left[number] = false;
	}
}

static void read_all(const char *text, int (*number_of)(const char *word),
		     struct said out[SXT_COLLS])
{
	char entry[ENTRY_BYTES];

	for (int coll = 0; coll < SXT_COLLS; coll++) {
		out[coll].is_named = false;
		memset(out[coll].is_left, true, sizeof(out[coll].is_left));
	}
	while (text != NULL && take(&text, ";", entry, sizeof(entry))) {
		char *list = strchr(entry, ':');

		if (entry[0] == '\0')
			continue;
		if (list != NULL)
			*list++ = '\0';
		for (int coll = 0; coll < SXT_COLLS; coll++) {
			if (list == NULL || sxt_coll_of(entry) == coll)
				read_list(list != NULL ? list : entry, number_of, &out[coll]);
		}
	}
}

void sxt_forced_read(const char *algo, const char *proto, struct sxt_forced *out)
{
	struct said algos[SXT_COLLS];
	struct said protos[SXT_COLLS];

	read_all(algo, sxt_algo_of, algos);
	read_all(proto, sxt_proto_of, protos);
	for (int coll = 0; coll < SXT_COLLS; coll++) {
		bool is_named = algos[coll].is_named || protos[coll].is_named;

		out->is_named[coll] = is_named;
		for (int i = 0; i < SXT_ALGOS * SXT_PROTOS; i++)
			out->allowed[coll][i / SXT_PROTOS][i % SXT_PROTOS] =
				!is_named && algos[coll].is_left[i / SXT_PROTOS] &&
				protos[coll].is_left[i % SXT_PROTOS];
	}
}
