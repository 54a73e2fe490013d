/*
 * member.c - a process on the fabric that does nothing but be there and tell its events.
 *
 * Prints "attached SLOT", then "event TYPE PORT" for each event of its host's first HCA; ends
 * when its standard input does.
 */
#include "ib/soft/event.h"

#include "core/log.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static void print_line(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)level;
	(void)file;
	(void)line;
	fprintf(stderr, "member: %s\n", text);
}

static void serve(const struct sxt_soft_event_box *box)
{
	struct pollfd polls[] = {{.fd = STDIN_FILENO, .events = POLLIN},
				 {.fd = box->fd, .events = POLLIN}};
	struct sxt_soft_event event;
	char ignored[64];

	while (poll(polls, 2, -1) >= 0) {
		if (polls[1].revents != 0 && read(box->fd, &event, sizeof(event)) > 0)
			printf("event %u %u\n", event.type, event.port_num);
		if (polls[0].revents != 0 && read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0)
			return;
		fflush(stdout);
	}
}

int main(void)
{
	struct sxt_soft_event_box box;
	struct sxt_soft_state *state;

	sxt_log_set_sink(print_line);
	if (sxt_soft_state_attach(NULL, NULL, &state) != 0)
		return 1;
	if (sxt_soft_event_open(state, state->fabric->hosts[state->host].first_hca, &box) != 0) {
		sxt_soft_state_close(state);
		return 1;
	}
	printf("attached %u\n", state->proc);
	fflush(stdout);
	serve(&box);
	sxt_soft_event_close(&box);
	sxt_soft_state_close(state);
	return 0;
}
