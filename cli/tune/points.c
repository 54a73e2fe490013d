/*
 * points.c - reading logs for the commands, and naming what they measured.
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

int sxt_tune_read_logs(const char *command, char *const *args, int cnt, struct sxt_logs *out)
{
	int first = 0;

	*out = (struct sxt_logs){0};
	for (int i = 0; i < cnt; i++) {
		int rc = sxt_logs_read(out, args[i]);

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

void sxt_tune_choice_name(int algo, int proto, char out[32])
{
	bool any_algo = algo < 0 || algo >= SXT_ALGOS;
	bool any_proto = proto < 0 || proto >= SXT_PROTOS;

	snprintf(out, 32, "%s%s%s",
		 any_algo ? (any_proto ? "NCCL's choice" : "") : sxt_algo_names[algo],
		 any_algo || any_proto ? "" : "/", any_proto ? "" : sxt_proto_names[proto]);
}
