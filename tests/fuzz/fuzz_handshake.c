/*
 * fuzz_handshake.c - a frame as a stranger may send it: header, then records of any length.
 */
#include "tests/fuzz/fuzz.h"

#include "ib/agree.h"
#include "ib/handshake.h"

#include <stdlib.h>
#include <string.h>

static void require_printable(const char *text, size_t bytes)
{
	size_t len = strnlen(text, bytes);

	FUZZ_REQUIRE(len < bytes);
	for (size_t i = 0; i < len; i++)
		FUZZ_REQUIRE(text[i] >= 0x20 && text[i] < 0x7f);
}

/* What is told of them has no control character either. */
static void require_lines(const char *lines, size_t bytes)
{
	struct sxt_config config;
	const struct sxt_agree_own own = {.config = &config, .links = "RoCE", .abi = 12};
	char own_lines[SXT_SETTINGS_BYTES];
	const struct sxt_agree_end here = {.name = "a:1", .lines = own_lines};
	const struct sxt_agree_end there = {.name = "b:2", .lines = lines};
	struct sxt_agree_line line;
	uint32_t at = 0;

	FUZZ_REQUIRE(strnlen(lines, bytes) < bytes);
	for (size_t i = 0; i < sxt_opts_cnt; i++)
		sxt_opt_set_default(&sxt_opts[i], &config);
	sxt_agree_write(&own, own_lines);
	while (sxt_agree_next(&here, &there, &at, &line))
		require_printable(line.text, sizeof(line.text));
}

static void require_sane(const struct sxt_frame_facts *facts)
{
	require_printable(facts->host, sizeof(facts->host));
	require_printable(facts->release, sizeof(facts->release));
	require_printable(facts->text, sizeof(facts->text));
	require_lines(facts->settings, sizeof(facts->settings));
	FUZZ_REQUIRE(facts->paths_cnt <= SXT_PATHS_MAX);
	for (uint32_t i = 0; i < facts->paths_cnt; i++) {
		require_printable(facts->paths[i].hca, sizeof(facts->paths[i].hca));
		FUZZ_REQUIRE(facts->paths[i].qpn > 0 && facts->paths[i].qpn < 1u << 24);
	}
	FUZZ_REQUIRE(facts->candidates_cnt <= SXT_CANDIDATES_MAX);
	FUZZ_REQUIRE(facts->others_cnt <= SXT_OTHERS_MAX);
	if (facts->has_ring)
		FUZZ_REQUIRE(facts->ring.rkeys_cnt <= SXT_PORTS_MAX);
	if (facts->has_error)
		FUZZ_REQUIRE(facts->error < 0);
}

/* Exactly as long as the records, so that a byte read past them shows. */
static void read_records(const uint8_t *data, size_t bytes)
{
	struct sxt_frame_facts facts;
	uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
	char why[256] = "";

	FUZZ_REQUIRE(exact != NULL);
	memcpy(exact, data, bytes);
	if (sxt_frame_read_records(exact, bytes, &facts, why, sizeof(why)) == 0)
		require_sane(&facts);
	else
		FUZZ_REQUIRE(why[0] != '\0');
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sxt_wire_frame header;
	struct sxt_wire_handle handle;
	char why[512] = "";

	if (bytes < sizeof(header))
		return 0;
	if (sxt_frame_read_header(data, &header, why, sizeof(why)) == 0)
		FUZZ_REQUIRE(header.length <= SXT_FRAME_BYTES_MAX);
	else
		FUZZ_REQUIRE(why[0] != '\0');
	read_records(data + sizeof(header), bytes - sizeof(header));
	if (bytes >= sizeof(handle)) {
		memcpy(&handle, data, sizeof(handle));
		why[0] = '\0';
		if (sxt_handle_check(&handle, why, sizeof(why)) != 0)
			FUZZ_REQUIRE(why[0] != '\0');
	}
	return 0;
}
