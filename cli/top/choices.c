/*
 * choices.c - what the tuner of a process chose.
 */
#include "cli/top/choices.h"

#include "tuner/rules.h"

#include <inttypes.h>
#include <stdio.h>

/* Numbers come from a file. */
static const char *word_of(const char *const *words, size_t cnt, uint32_t number)
{
	return number < cnt ? words[number] : "?";
}

static const char *coll_of(const struct sxt_tele_choice *choice)
{
	return word_of(sxt_coll_names, SXT_COLLS, choice->coll);
}

static bool is_left(const struct sxt_tele_choice *choice)
{
	return choice->algo == SXT_TELE_CHOICE_LEFT;
}

static void say(char *out, size_t bytes, size_t *used, const char *text)
{
	int put = snprintf(out + *used, bytes - *used, "%s", text);

	*used += put < 0 ? 0 : (size_t)put;
	if (*used >= bytes)
		*used = bytes - 1;
}

static void say_choice(const struct sxt_tele_choice *choice, char *out, size_t bytes, size_t *used)
{
	char text[96];
	char size[24];

	snprintf(text, sizeof(text), "%s/%s", word_of(sxt_algo_names, SXT_ALGOS, choice->algo),
		 word_of(sxt_proto_names, SXT_PROTOS, choice->proto));
	say(out, bytes, used, is_left(choice) ? "left to NCCL" : text);
	for (uint32_t i = 0, cnt = 0; i < SXT_TELE_SIZE_BUCKETS; i++) {
		if (choice->calls[i] == 0)
			continue;
		sxt_bytes_write(sxt_tele_size_floor(i), size);
		snprintf(text, sizeof(text), "%s %s %" PRIu64, cnt++ > 0 ? "," : "", size,
			 choice->calls[i]);
		say(out, bytes, used, text);
	}
}

void sxt_top_choices_say(const struct sxt_top_sample *sample, char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < sample->choices_cnt; i++) {
		const struct sxt_tele_choice *choice = &sample->choices[i];
		bool goes_on = i > 0 && choice->coll == sample->choices[i - 1].coll;

		say(out, bytes, &used, i > 0 ? "; " : "");
		say(out, bytes, &used, goes_on ? "" : coll_of(choice));
		say(out, bytes, &used, goes_on ? "" : ": ");
		say_choice(choice, out, bytes, &used);
	}
}

static json_t *sizes_json(const struct sxt_tele_choice *choice)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < SXT_TELE_SIZE_BUCKETS; i++) {
		if (choice->calls[i] != 0)
			json_array_append_new(list,
					      json_pack("{s:I, s:I}", "from_bytes",
							(json_int_t)sxt_tele_size_floor(i), "calls",
							(json_int_t)choice->calls[i]));
	}
	return list;
}

json_t *sxt_top_choices_json(const struct sxt_top_sample *sample)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sample->choices_cnt; i++) {
		const struct sxt_tele_choice *choice = &sample->choices[i];
		bool left = is_left(choice);

		json_array_append_new(
			list,
			json_pack("{s:s, s:s?, s:s?, s:o}", "collective", coll_of(choice),
				  "algorithm",
				  left ? NULL : word_of(sxt_algo_names, SXT_ALGOS, choice->algo),
				  "protocol",
				  left ? NULL : word_of(sxt_proto_names, SXT_PROTOS, choice->proto),
				  "sizes", sizes_json(choice)));
	}
	return list;
}
