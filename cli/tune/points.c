/*
 * points.c - see points.h.
 */
#include "cli/tune/points.h"

#include "core/status.h"

#include <errno.h>
#include <stdio.h>

static void print_notes(const char *command, const struct sxt_logs *logs)
{
	for (size_t i = 0; i < logs->notes_cnt; i++) {
		const struct sxt_logs_note *note = &logs->notes[i];

		fprintf(stderr, "%s: %s", command, note->is_error ? "" : "warning: ");
		if (note->file < logs->files_cnt)
			fprintf(stderr, "%s:", logs->files[note->file]);
		if (note->line > 0)
			fprintf(stderr, "%u:", note->line);
		fprintf(stderr, " %s\n", note->text);
	}
}

error_t sxt_tune_parse_logs(int key, struct argp_state *state, struct sxt_tune_logs *out)
{
	switch (key) {
	case ARGP_KEY_ARGS:
		out->args = state->argv + state->next;
		out->cnt = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which logs? Those of `sextant tune sweep` or of nccl-tests");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Return: as sxt_tune_show_fit(). */
static int read_logs(const char *command, const struct sxt_tune_logs *logs, struct sxt_logs *out)
{
	int first = 0;

	for (int i = 0; i < logs->cnt; i++) {
		int rc = sxt_logs_read(out, logs->args[i]);

		if (rc == -ENOMEM) {
			fprintf(stderr, "%s: %s\n", command, sxt_strerror(rc));
			return SXT_EXIT_BROKEN;
		}
		first = first == 0 ? rc : first;
	}
	print_notes(command, out);
	if (out->times_cnt == 0)
		return first == -ENOENT ? SXT_EXIT_MISSING : SXT_EXIT_BROKEN;
	return first != 0 || out->has_error ? SXT_EXIT_FOUND : SXT_EXIT_OK;
}

int sxt_tune_show_fit(const char *command, const struct sxt_tune_logs *logs,
		      const struct sxt_fit_options *options, sxt_tune_show_fn show,
		      const void *args)
{
	struct sxt_logs read = {0};
	struct sxt_fit *fit = NULL;
	int status = read_logs(command, logs, &read);
	int shown = SXT_EXIT_BROKEN;
	int rc;

	if (status == SXT_EXIT_OK || status == SXT_EXIT_FOUND) {
		rc = sxt_fit_make(&read, options, &fit);
		if (rc != 0)
			fprintf(stderr, "%s: cannot fit: %s\n", command, sxt_strerror(rc));
		else
			shown = show(args, fit);
		status = shown != SXT_EXIT_OK ? shown : status;
		sxt_fit_free(fit);
	}
	sxt_logs_fini(&read);
	return status;
}

bool sxt_tune_same_shape(const struct sxt_fit_point *a, const struct sxt_fit_point *b)
{
	return a->coll == b->coll && a->shape.nodes == b->shape.nodes &&
	       a->shape.ranks == b->shape.ranks;
}

void sxt_tune_choice_name(int algo, int proto, char out[32])
{
	bool any_algo = algo < 0 || algo >= SXT_ALGOS;
	bool any_proto = proto < 0 || proto >= SXT_PROTOS;

	snprintf(out, 32, "%s%s%s",
		 any_algo ? (any_proto ? "NCCL's choice" : "") : sxt_algo_names[algo],
		 any_algo || any_proto ? "" : "/", any_proto ? "" : sxt_proto_names[proto]);
}
