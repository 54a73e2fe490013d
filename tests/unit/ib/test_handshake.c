/*
 * test_handshake.c - frames survive the way there and back, and nothing that is no frame does.
 */
#include "ib/handshake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char why[512];
static struct sxt_frame_out frame;
static struct sxt_frame_facts facts;
static struct sxt_wire_frame header;

static const struct sxt_wire_path good_path = {
	.qpn = 0x1a2b,
	.psn = 0x345678,
	.lid = 7,
	.link_layer = 2,
	.mtu = 5,
	.gid_type = 2,
	.port_num = 1,
	.max_message_log2 = 30,
	.hca = "mlx5_0",
};
static const struct sxt_wire_memory good_memory = {
	.addr = 0x7f0000001000,
	.bytes = 16384,
	.rkeys_cnt = 1,
	.rkeys = {0xabcd},
};

static int read_back(void)
{
	int rc = sxt_frame_read_header(frame.bytes, &header, why, sizeof(why));

	if (rc != 0)
		return rc;
	assert_int_equal(header.length, frame.used - sizeof(header));
	return sxt_frame_read_records(frame.bytes + sizeof(header), header.length, &facts, why,
				      sizeof(why));
}

static int read_one(uint16_t type, const void *value, size_t bytes)
{
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, 1);
	sxt_frame_add(&frame, type, value, bytes);
	return read_back();
}

static void what_is_written_is_read(void **state)
{
	const struct sxt_wire_progress progress = {.cts_posted = 5, .messages_taken = 4};
	uint8_t token[SXT_TOKEN_BYTES];

	(void)state;
	memset(token, 0x5a, sizeof(token));
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 3, 4);
	sxt_frame_add(&frame, SXT_TLV_TOKEN, token, sizeof(token));
	sxt_frame_add(&frame, SXT_TLV_PATH, &good_path, sizeof(good_path));
	sxt_frame_add(&frame, SXT_TLV_RING, &good_memory, sizeof(good_memory));
	sxt_frame_add(&frame, SXT_TLV_PROGRESS, &progress, sizeof(progress));
	sxt_frame_add_text(&frame, SXT_TLV_HOST, "node7:1234");
	sxt_frame_add_error(&frame, -ECONNREFUSED, "not today");
	assert_int_equal(read_back(), 0);
	assert_int_equal(header.type, SXT_FRAME_CONNECT);
	assert_int_equal(header.conn_to, 3);
	assert_int_equal(header.conn_from, 4);
	assert_true(facts.has_token && facts.paths_cnt == 1 && facts.has_ring &&
		    facts.has_progress);
	assert_false(facts.has_records || facts.has_process);
	assert_memory_equal(facts.token, token, sizeof(token));
	assert_memory_equal(&facts.paths[0], &good_path, sizeof(good_path));
	assert_memory_equal(&facts.ring, &good_memory, sizeof(good_memory));
	assert_memory_equal(&facts.progress, &progress, sizeof(progress));
	assert_string_equal(facts.host, "node7:1234");
	assert_true(facts.has_error);
	assert_int_equal(facts.error, -ECONNREFUSED);
	assert_string_equal(facts.text, "not today");
}

static void a_frame_carries_every_path(void **state)
{
	struct sxt_wire_path path = good_path;

	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, 1);
	for (uint32_t i = 0; i < SXT_PATHS_MAX; i++) {
		path.qpn = 100 + i;
		sxt_frame_add(&frame, SXT_TLV_PATH, &path, sizeof(path));
	}
	assert_int_equal(read_back(), 0);
	assert_int_equal(facts.paths_cnt, SXT_PATHS_MAX);
	for (uint32_t i = 0; i < SXT_PATHS_MAX; i++)
		assert_int_equal(facts.paths[i].qpn, 100 + i);
	sxt_frame_add(&frame, SXT_TLV_PATH, &path, sizeof(path));
	assert_int_equal(read_back(), -EBADMSG);
	assert_non_null(strstr(why, "more than 64 paths"));
	/* Any of them may make no sense. */
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, 1);
	sxt_frame_add(&frame, SXT_TLV_PATH, &good_path, sizeof(good_path));
	path.qpn = 0;
	sxt_frame_add(&frame, SXT_TLV_PATH, &path, sizeof(path));
	assert_int_equal(read_back(), -EBADMSG);
}

static void unknown_records_are_skipped(void **state)
{
	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	sxt_frame_add(&frame, 999, "later", 5);
	sxt_frame_add_text(&frame, SXT_TLV_RELEASE, "9.9");
	assert_int_equal(read_back(), 0);
	assert_string_equal(facts.release, "9.9");
}

static void what_does_not_fit_is_left_out_whole(void **state)
{
	static uint8_t big[SXT_FRAME_OUT_BYTES];

	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	sxt_frame_add(&frame, 999, big, sizeof(big));
	assert_int_equal(frame.used, sizeof(header));
	sxt_frame_add(&frame, 999, big, SXT_FRAME_OUT_BYTES - sizeof(header) - 4);
	assert_int_equal(frame.used, SXT_FRAME_OUT_BYTES);
	sxt_frame_add(&frame, 999, big, 1);
	assert_int_equal(frame.used, SXT_FRAME_OUT_BYTES);
	assert_int_equal(read_back(), 0);
}

static void strangers_versions_and_lengths_are_told_apart(void **state)
{
	struct sxt_wire_frame bad;

	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	memcpy(&bad, frame.bytes, sizeof(bad));
	assert_int_equal(sxt_frame_read_header("GET / HTTP/1.1\r\nHost: example.com\r\n", &header,
					       why, sizeof(why)),
			 -EBADMSG);
	assert_non_null(strstr(why, "GET / HTTP"));
	bad.version = 9;
	bad.version_min = 8;
	assert_int_equal(sxt_frame_read_header(&bad, &header, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "versions 8 to 9"));
	/* Newer, but still able to speak ours. */
	bad.version_min = 1;
	assert_int_equal(sxt_frame_read_header(&bad, &header, why, sizeof(why)), 0);
	bad.length = SXT_FRAME_BYTES_MAX + 1;
	assert_int_equal(sxt_frame_read_header(&bad, &header, why, sizeof(why)), -EMSGSIZE);
	assert_non_null(strstr(why, "65537"));
}

static void records_that_overrun_or_are_cut_are_refused(void **state)
{
	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, 1);
	sxt_frame_add(&frame, SXT_TLV_PATH, &good_path, sizeof(good_path));
	/* Every proper prefix of the record is refused; none is read past its end. */
	for (size_t len = 1; len < sizeof(good_path) + 4; len++) {
		uint8_t exact[sizeof(good_path) + 4];

		memcpy(exact, frame.bytes + sizeof(header), len);
		assert_int_equal(sxt_frame_read_records(exact, len, &facts, why, sizeof(why)),
				 -EBADMSG);
	}
	assert_int_equal(sxt_frame_read_records(frame.bytes + sizeof(header), sizeof(good_path) + 4,
						&facts, why, sizeof(why)),
			 0);
}

static void fixed_records_have_one_size(void **state)
{
	static const uint16_t types[] = {SXT_TLV_PROCESS, SXT_TLV_TOKEN,   SXT_TLV_PATH,
					 SXT_TLV_RING,    SXT_TLV_RECORDS, SXT_TLV_PROGRESS};
	uint8_t bytes[128] = {0};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(types); i++) {
		assert_int_equal(read_one(types[i], bytes, 3), -EBADMSG);
		assert_int_equal(read_one(types[i], bytes, 100), -EBADMSG);
	}
	assert_int_equal(read_one(SXT_TLV_ERROR, bytes, 3), -EBADMSG);
}

static void paths_that_make_no_sense_are_refused(void **state)
{
	struct sxt_wire_path path = good_path;

	(void)state;
	assert_int_equal(read_one(SXT_TLV_PATH, &path, sizeof(path)), 0);
	path.qpn = 0x1000000;
	assert_int_equal(read_one(SXT_TLV_PATH, &path, sizeof(path)), -EBADMSG);
	path = good_path;
	path.qpn = 0;
	assert_int_equal(read_one(SXT_TLV_PATH, &path, sizeof(path)), -EBADMSG);
	path = good_path;
	path.mtu = 9;
	assert_int_equal(read_one(SXT_TLV_PATH, &path, sizeof(path)), -EBADMSG);
	path = good_path;
	path.link_layer = 3;
	assert_int_equal(read_one(SXT_TLV_PATH, &path, sizeof(path)), -EBADMSG);
	path = good_path;
	memset(path.hca, 'x', sizeof(path.hca));
	assert_int_equal(read_one(SXT_TLV_PATH, &path, sizeof(path)), 0);
	assert_int_equal(strlen(facts.paths[0].hca), sizeof(path.hca) - 1);
}

static void memory_that_makes_no_sense_is_refused(void **state)
{
	struct sxt_wire_memory memory = good_memory;

	(void)state;
	memory.rkeys_cnt = SXT_PORTS_MAX + 1;
	assert_int_equal(read_one(SXT_TLV_RING, &memory, sizeof(memory)), -EBADMSG);
	memory = good_memory;
	memory.bytes = 0;
	assert_int_equal(read_one(SXT_TLV_RECORDS, &memory, sizeof(memory)), -EBADMSG);
	memory = good_memory;
	memory.addr = UINT64_MAX - 10;
	assert_int_equal(read_one(SXT_TLV_RING, &memory, sizeof(memory)), -EBADMSG);
}

static void other_ports_are_told_by_the_number_of_their_nic(void **state)
{
	struct sxt_wire_candidate candidate = {.place = 127, .gid_type = 2, .link_layer = 2};
	const uint32_t nic = 9;

	(void)state;
	assert_int_equal(read_one(SXT_TLV_CANDIDATE, &candidate, sizeof(candidate)), -EBADMSG);
	assert_int_equal(read_one(SXT_TLV_OTHER, &candidate, sizeof(candidate)), 0);
	assert_int_equal(facts.candidates_cnt, 0);
	assert_int_equal(facts.others_cnt, 1);
	assert_memory_equal(&facts.others[0], &candidate, sizeof(candidate));
	candidate.place = SXT_RESORT_NAMED;
	assert_int_equal(read_one(SXT_TLV_OTHER, &candidate, sizeof(candidate)), -EBADMSG);
	assert_int_equal(read_one(SXT_TLV_RESORT, &nic, sizeof(nic)), 0);
	assert_true(facts.has_resort);
	assert_int_equal(facts.resort, nic);

	candidate.place = 0;
	sxt_frame_begin(&frame, SXT_FRAME_ACCEPT, 1, 1);
	for (int i = 0; i <= SXT_OTHERS_MAX; i++)
		sxt_frame_add(&frame, SXT_TLV_OTHER, &candidate, sizeof(candidate));
	assert_int_equal(read_back(), 0);
	assert_int_equal(facts.others_cnt, SXT_OTHERS_MAX);
}

static void what_providers_offer_is_told_for_each_path(void **state)
{
	struct sxt_wire_ece ece = {.vendor_id = 0x15b3, .options = 7, .path = SXT_PATHS_MAX - 1};

	(void)state;
	assert_int_equal(read_one(SXT_TLV_ECE, &ece, sizeof(ece)), 0);
	assert_int_equal(facts.eces.cnt, 1);
	assert_memory_equal(&facts.eces.of[0], &ece, sizeof(ece));
	assert_int_equal(read_one(SXT_TLV_ECE, &ece, sizeof(ece) - 4), -EBADMSG);
	ece.path = SXT_PATHS_MAX;
	assert_int_equal(read_one(SXT_TLV_ECE, &ece, sizeof(ece)), -EBADMSG);
	assert_non_null(strstr(why, "path 64, there are 64 at most"));

	ece.path = 0;
	sxt_frame_begin(&frame, SXT_FRAME_ACCEPT, 1, 1);
	for (int i = 0; i <= SXT_PATHS_MAX; i++)
		sxt_frame_add(&frame, SXT_TLV_ECE, &ece, sizeof(ece));
	assert_int_equal(read_back(), 0);
	assert_int_equal(facts.eces.cnt, SXT_PATHS_MAX);
}

static void texts_are_made_fit_for_a_log(void **state)
{
	(void)state;
	assert_int_equal(read_one(SXT_TLV_HOST, "a\nb\x1b[31m\xff", 8), 0);
	assert_string_equal(facts.host, "a?b?[31m");
}

static void settings_are_lines_and_bounded(void **state)
{
	static char many[3000];

	(void)state;
	assert_int_equal(read_one(SXT_TLV_SETTINGS, "a=1\nb=\x1b\0c\n", 10), 0);
	assert_string_equal(facts.settings, "a=1\nb=??c\n");
	memset(many, 'x', sizeof(many));
	assert_int_equal(read_one(SXT_TLV_SETTINGS, many, sizeof(many)), 0);
	assert_int_equal(strlen(facts.settings), SXT_SETTINGS_BYTES - 1);
	/* A peer that does not tell. */
	assert_int_equal(read_one(999, many, 77), 0);
	assert_string_equal(facts.settings, "");
}

static void the_tuner_is_told_whole(void **state)
{
	const struct sxt_wire_tuner tuner = {.digest = 0x0123456789abcdef, .use = SXT_TUNER_USED};

	(void)state;
	assert_int_equal(read_one(SXT_TLV_TUNER, &tuner, sizeof(tuner)), 0);
	assert_true(facts.has_tuner);
	assert_memory_equal(&facts.tuner, &tuner, sizeof(tuner));
	assert_int_equal(read_one(SXT_TLV_TUNER, &tuner, sizeof(tuner) - 4), -EBADMSG);
	assert_int_equal(read_one(SXT_TLV_HOST, "a", 1), 0);
	assert_false(facts.has_tuner);
}

static void errors_are_errnos_and_never_call_again(void **state)
{
	const uint32_t numbers[] = {0, EAGAIN, 0xffffffff};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(numbers); i++) {
		assert_int_equal(read_one(SXT_TLV_ERROR, &numbers[i], sizeof(numbers[i])), 0);
		assert_int_equal(facts.error, -EREMOTEIO);
	}
}

static void handles_of_others_are_recognised(void **state)
{
	struct sxt_wire_handle handle = {
		.magic = SXT_WIRE_MAGIC,
		.version = SXT_WIRE_VERSION,
		.version_min = SXT_WIRE_VERSION_MIN,
		.addr = {.family = 4, .port = 1},
	};

	(void)state;
	assert_int_equal(sxt_handle_check(&handle, why, sizeof(why)), 0);
	handle.version = 0;
	handle.version_min = 0;
	assert_int_equal(sxt_handle_check(&handle, why, sizeof(why)), -EPROTO);
	handle.version = SXT_WIRE_VERSION;
	handle.addr.family = 0;
	assert_int_equal(sxt_handle_check(&handle, why, sizeof(why)), -EBADMSG);
	memset(&handle, 'A', sizeof(handle));
	assert_int_equal(sxt_handle_check(&handle, why, sizeof(why)), -EBADMSG);
	assert_non_null(strstr(why, "41 41 41"));
	assert_non_null(strstr(why, "NCCL_NET_PLUGIN"));
}

static void frame_types_have_names(void **state)
{
	(void)state;
	assert_string_equal(sxt_frame_type_name(SXT_FRAME_FAIL), "FAIL");
	assert_string_equal(sxt_frame_type_name(77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_frame_carries_every_path),
		cmocka_unit_test(unknown_records_are_skipped),
		cmocka_unit_test(what_does_not_fit_is_left_out_whole),
		cmocka_unit_test(strangers_versions_and_lengths_are_told_apart),
		cmocka_unit_test(records_that_overrun_or_are_cut_are_refused),
		cmocka_unit_test(fixed_records_have_one_size),
		cmocka_unit_test(paths_that_make_no_sense_are_refused),
		cmocka_unit_test(memory_that_makes_no_sense_is_refused),
		cmocka_unit_test(other_ports_are_told_by_the_number_of_their_nic),
		cmocka_unit_test(what_providers_offer_is_told_for_each_path),
		cmocka_unit_test(texts_are_made_fit_for_a_log),
		cmocka_unit_test(settings_are_lines_and_bounded),
		cmocka_unit_test(the_tuner_is_told_whole),
		cmocka_unit_test(errors_are_errnos_and_never_call_again),
		cmocka_unit_test(handles_of_others_are_recognised),
		cmocka_unit_test(frame_types_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
