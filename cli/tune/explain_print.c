/*
 * explain_print.c - the answers of `sextant tune explain` as text and JSON.
 */
#include "cli/tune/explain.h"

#include "cli/tune/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* By enum sxt_choice_source. */
static const char *const source_words[] = {"nccl", "rule", "model", "unavailable", "close"};

static void name_pick(const struct sxt_pick *pick, char out[32])
{
	snprintf(out, 32, "%s/%s", sxt_algo_names[pick->algo], sxt_proto_names[pick->proto]);
}

/* Bytes per microsecond are MB/s. */
static double algbw_of(uint64_t bytes, double us)
{
	return (double)bytes / us / 1000;
}

static const struct sxt_explain_row *row_of(const struct sxt_explain *e,
					    const struct sxt_pick *pick)
{
	for (size_t i = 0; i < e->rows_cnt; i++) {
		if (e->rows[i].pick.algo == pick->algo && e->rows[i].pick.proto == pick->proto)
			return &e->rows[i];
	}
	return NULL;
}

static const struct sxt_rule *rule_at(const struct sxt_rules *rules, uint32_t line)
{
	for (uint32_t i = 0; i < rules->rules_cnt; i++) {
		if (rules->rules[i].line == line)
			return &rules->rules[i];
	}
	return NULL;
}

void sxt_explain_print_head(const struct sxt_explain_query *query)
{
	printf("%s on %u node%s, %u ranks; %s, digest %016" PRIx64 "\n\n",
	       sxt_coll_names[query->coll], query->shape.nodes, query->shape.nodes == 1 ? "" : "s",
	       query->shape.ranks, query->file, query->rules->digest);
}

void sxt_explain_print_formula(const struct sxt_explain_query *query)
{
	const char *formula = sxt_tune_bus_formula(query->coll);

	printf("\nTimes are the models'. algbw = size / time in GB/s; busbw = algbw%s", formula);
	if (formula[0] != '\0')
		printf(",\nhere algbw x %.4g (n = %u ranks)",
		       sxt_bus_factor(query->coll, query->shape.ranks), query->shape.ranks);
	puts(".");
}

static void print_times(const struct sxt_explain_query *query, uint64_t bytes, double us)
{
	if (us > 0)
		printf("%10.1f %8.2f %8.2f", us, algbw_of(bytes, us),
		       algbw_of(bytes, us) * sxt_bus_factor(query->coll, query->shape.ranks));
	else
		printf("%10s %8s %8s", "-", "-", "-");
}

/* Names, by decreasing weight: the rule, the model. */
static void write_source(const struct sxt_explain_row *row, const struct sxt_choice *choice,
			 char out[40])
{
	out[0] = '\0';
	if (choice->source == SXT_CHOICE_RULE && sxt_pick_is_of(choice, &row->pick))
		snprintf(out, 40, "rule %u", choice->line);
	if (row->model != NULL) {
		size_t len = strlen(out);

		snprintf(out + len, 40 - len, "%smodel %u", len > 0 ? ", " : "", row->model->line);
	}
}

static void write_becomes(const struct sxt_explain_row *row, char out[48])
{
	const struct sxt_pick pick = {(enum sxt_algo)row->becomes.algo,
				      (enum sxt_proto)row->becomes.proto};

	if (sxt_choice_is_made(&row->becomes) && !sxt_pick_is_of(&row->becomes, &row->pick))
		name_pick(&pick, out);
	else
		snprintf(out, 48, "stays");
}

static void print_choice(const struct sxt_explain_query *query, const struct sxt_explain *e)
{
	const struct sxt_choice *c = &e->choice;
	const struct sxt_pick pick = {(enum sxt_algo)c->algo, (enum sxt_proto)c->proto};
	const struct sxt_rule *rule =
		c->source == SXT_CHOICE_RULE ? rule_at(query->rules, c->line) : NULL;
	char name[32];

	if (!sxt_choice_is_made(c)) {
		if (query->knows_nccl)
			puts("Chosen: NCCL's own choice stays.");
		else
			puts("No rule applies. NCCL's own choice becomes what stands behind it; "
			     "--nccl tells\nwhat that is.");
		return;
	}
	name_pick(&pick, name);
	printf("Chosen: %s by the %s of line %u", name, source_words[c->source], c->line);
	if (c->channels != 0)
		printf(", %u channels", c->channels);
	if (rule != NULL && rule->chunk != 0) {
		char size[24];

		sxt_bytes_write(rule->chunk, size);
		printf(", chunks of %s", size);
	}
	puts(".");
	if (rule != NULL && rule->gain > 0)
		printf("Measured: %.3g %% faster than NCCL's own choice, sure to %.3g %%.\n",
		       100 * (double)rule->gain, 100 * (double)rule->confidence);
}

void sxt_explain_print(const struct sxt_explain_query *query, const struct sxt_explain *e)
{
	char size[24];

	sxt_bytes_write(e->bytes, size);
	printf("  %-18s %10s %8s %8s  %-15s %s\n", size, "time us", "algbw", "busbw", "by line",
	       "becomes");
	for (size_t i = 0; i < e->rows_cnt; i++) {
		const struct sxt_explain_row *row = &e->rows[i];
		bool chosen =
			sxt_choice_is_made(&e->choice) && sxt_pick_is_of(&e->choice, &row->pick);
		char name[32];
		char source[40];
		char becomes[48];

		name_pick(&row->pick, name);
		write_source(row, &e->choice, source);
		write_becomes(row, becomes);
		printf("%c %-18s ", chosen ? '*' : ' ', name);
		print_times(query, e->bytes, row->us);
		printf("  %-15s %s\n", source, becomes);
	}
	if (e->rows_cnt == 0)
		puts("  none: the file has neither rule nor model for this call");
	putchar('\n');
	print_choice(query, e);
}

void sxt_explain_print_line(const struct sxt_explain_query *query, const struct sxt_explain *e)
{
	struct sxt_pick pick;
	const struct sxt_explain_row *row;
	char size[24];
	char name[32] = "NCCL's own";
	char source[40] = "-";

	if (e == NULL) {
		printf("%8s  %-20s %10s %8s %8s  %s\n", "size", "chosen", "time us", "algbw",
		       "busbw", "by line");
		return;
	}
	sxt_bytes_write(e->bytes, size);
	pick = (struct sxt_pick){(enum sxt_algo)e->choice.algo, (enum sxt_proto)e->choice.proto};
	row = sxt_choice_is_made(&e->choice) ? row_of(e, &pick) : NULL;
	if (row != NULL) {
		name_pick(&pick, name);
		write_source(row, &e->choice, source);
	} else if (!query->knows_nccl && e->rows_cnt > 0 && e->rows[0].model != NULL) {
		row = &e->rows[0];
		name_pick(&row->pick, name);
		snprintf(source, sizeof(source), "model %u, from %.2g %%", row->model->line,
			 100 * (double)row->model->margin);
	}
	printf("%8s  %-20s ", size, name);
	print_times(query, e->bytes, row != NULL ? row->us : 0);
	printf("  %s\n", source);
}

static json_t *choice_json(const struct sxt_choice *choice)
{
	json_t *out = json_pack("{s:s}", "source", source_words[choice->source]);
	bool taken = sxt_choice_is_made(choice);

	json_object_set_new(out, "algo",
			    taken ? json_string(sxt_algo_names[choice->algo]) : json_null());
	json_object_set_new(out, "proto",
			    taken ? json_string(sxt_proto_names[choice->proto]) : json_null());
	json_object_set_new(out, "line", taken ? json_integer(choice->line) : json_null());
	json_object_set_new(out, "channels",
			    taken && choice->channels != 0 ? json_integer(choice->channels)
							   : json_null());
	return out;
}

static json_t *row_json(const struct sxt_explain_query *query, uint64_t bytes,
			const struct sxt_explain_row *row)
{
	json_t *out = json_pack("{s:s, s:s}", "algo", sxt_algo_names[row->pick.algo], "proto",
				sxt_proto_names[row->pick.proto]);
	bool known = row->model != NULL && row->us > 0;
	double algbw = known ? algbw_of(bytes, row->us) : 0;

	json_object_set_new(out, "model_line",
			    row->model != NULL ? json_integer(row->model->line) : json_null());
	json_object_set_new(out, "time_us", known ? json_real(row->us) : json_null());
	json_object_set_new(out, "algbw_gb_per_s", known ? json_real(algbw) : json_null());
	json_object_set_new(out, "busbw_gb_per_s",
			    known ? json_real(algbw *
					      sxt_bus_factor(query->coll, query->shape.ranks))
				  : json_null());
	json_object_set_new(out, "if_nccl_takes_it", choice_json(&row->becomes));
	return out;
}

json_t *sxt_explain_json(const struct sxt_explain_query *query, const struct sxt_explain *e)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < e->rows_cnt; i++)
		json_array_append_new(rows, row_json(query, e->bytes, &e->rows[i]));
	return json_pack("{s:I, s:o, s:o}", "bytes", (json_int_t)e->bytes, "choice",
			 choice_json(&e->choice), "candidates", rows);
}
