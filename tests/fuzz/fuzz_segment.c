/*
 * fuzz_segment.c - the telemetry's reader: the input is a segment.
 */
#include "tests/fuzz/fuzz.h"

#include "telemetry/reader.h"

#include <stdlib.h>
#include <string.h>

/* What comes out of a text's place can be printed. */
static void require_text(const char *text, size_t bytes)
{
	size_t len = strnlen(text, bytes);

	FUZZ_REQUIRE(len < bytes);
	for (size_t i = 0; i < len; i++)
		FUZZ_REQUIRE((uint8_t)text[i] >= 0x20 && text[i] != 0x7f);
}

static void read_records(const struct sxt_tele_view *view)
{
	struct sxt_tele_port port;
	struct sxt_tele_link link;
	struct sxt_tele_conn conn;
	struct sxt_tele_path path;

	for (uint32_t i = 0; i <= sxt_tele_cap(view, SXT_TELE_PORTS); i++) {
		if (sxt_tele_port_get(view, i, &port))
			require_text(port.reason, sizeof(port.reason));
	}
	for (uint32_t i = 0; i <= sxt_tele_cap(view, SXT_TELE_LINKS); i++) {
		if (sxt_tele_link_get(view, i, &link))
			require_text(link.peer, sizeof(link.peer));
	}
	for (uint32_t i = 0; i <= sxt_tele_cap(view, SXT_TELE_CONNS); i++) {
		if (!sxt_tele_conn_get(view, i, &conn))
			continue;
		require_text(conn.text, sizeof(conn.text));
		sxt_tele_quantile_ns(conn.counters.latency[0], 0.99);
		sxt_tele_wall_ns(view, conn.opened);
	}
	for (uint32_t i = 0; i <= sxt_tele_cap(view, SXT_TELE_PATHS); i++) {
		if (sxt_tele_path_get(view, i, &path))
			require_text(path.peer_hca, sizeof(path.peer_hca));
	}
}

static void read_events(const struct sxt_tele_view *view)
{
	const uint64_t told = sxt_tele_header(view)->events;
	struct sxt_tele_event event;

	for (uint64_t back = 0; back < 8; back++) {
		if (sxt_tele_event_get(view, told - back, &event))
			require_text(event.text, sizeof(event.text));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sxt_tele_view *view = NULL;
	uint8_t *copy = malloc(bytes + 1); /* aligned, as the reader asks for */

	if (copy == NULL)
		return 0;
	memcpy(copy, data, bytes);
	if (sxt_tele_map(copy, bytes, 1, &view) == 0) {
		sxt_tele_refresh(view);
		require_text(sxt_tele_header(view)->job, sizeof(sxt_tele_header(view)->job));
		read_records(view);
		read_events(view);
		sxt_tele_close(view);
	} else {
		FUZZ_REQUIRE(view == NULL);
	}
	free(copy);
	return 0;
}
