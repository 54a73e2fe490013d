/*
 * test_golden.c - the bytes of every wire struct and frame are those of tests/golden/wire_v1.txt,
 * which released programs send and expect. A change there is a new wire version.
 */
#include "ib/handshake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char text[16384];
static size_t used;

static void show(const char *name, const void *bytes, size_t cnt)
{
	used += (size_t)snprintf(text + used, sizeof(text) - used, "%s ", name);
	for (size_t i = 0; i < cnt; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x",
					 ((const uint8_t *)bytes)[i]);
	used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
	assert_true(used < sizeof(text));
}

static void count_up(void *bytes, size_t cnt, uint8_t from)
{
	for (size_t i = 0; i < cnt; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(from + i);
}

static void show_handle(void)
{
	struct sxt_wire_handle handle = {
		.magic = SXT_WIRE_MAGIC,
		.version = SXT_WIRE_VERSION,
		.version_min = SXT_WIRE_VERSION_MIN,
		.addr = {.ip = {10, 1, 2, 3}, .port = 0x1234, .family = 4},
		.scratch_cookie = 0x0102030405060708,
		.scratch_check = 0x1112131415161718,
	};

	count_up(handle.token, sizeof(handle.token), 0x20);
	count_up(handle.process, sizeof(handle.process), 0x40);
	show("handle", &handle, sizeof(handle));
}

static const struct sxt_wire_path path = {
	.qpn = 0x010203,
	.psn = 0x040506,
	.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1},
	.lid = 0x0708,
	.link_layer = 2,
	.mtu = 5,
	.gid_type = 2,
	.port_num = 1,
	.max_message_log2 = 30,
	.epoch = 0x090a0b0c,
	.hca = "mlx5_0",
};
static const struct sxt_wire_memory memory = {
	.addr = 0x1122334455667788,
	.bytes = 0x4000,
	.rkeys_cnt = 2,
	.rkeys = {0xa1a2a3a4, 0xb1b2b3b4},
};

static void show_frames(void)
{
	const struct sxt_wire_progress progress = {.cts_posted = 0x0102, .messages_taken = 0x0304};
	struct sxt_frame_out frame;
	uint8_t token[SXT_TOKEN_BYTES];
	uint8_t process[SXT_UUID_BYTES];

	count_up(token, sizeof(token), 0x20);
	count_up(process, sizeof(process), 0x40);
	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	sxt_frame_add(&frame, SXT_TLV_PROCESS, process, sizeof(process));
	sxt_frame_add(&frame, SXT_TLV_TOKEN, token, sizeof(token));
	sxt_frame_add_text(&frame, SXT_TLV_HOST, "node7:123");
	sxt_frame_add_text(&frame, SXT_TLV_RELEASE, "0.1.0");
	sxt_frame_add_text(&frame, SXT_TLV_SETTINGS, "links=RoCE\nNCCL_IB_SL=3\n");
	show("hello", frame.bytes, frame.used);
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, 0x11);
	sxt_frame_add(&frame, SXT_TLV_TOKEN, token, sizeof(token));
	sxt_frame_add(&frame, SXT_TLV_PATH, &path, sizeof(path));
	sxt_frame_add(&frame, SXT_TLV_RING, &memory, sizeof(memory));
	show("connect", frame.bytes, frame.used);
	sxt_frame_begin(&frame, SXT_FRAME_ACCEPT, 0x11, 0x22);
	sxt_frame_add(&frame, SXT_TLV_PATH, &path, sizeof(path));
	sxt_frame_add(&frame, SXT_TLV_RECORDS, &memory, sizeof(memory));
	show("accept", frame.bytes, frame.used);
	sxt_frame_begin(&frame, SXT_FRAME_READY, 0x22, 0x11);
	show("ready", frame.bytes, frame.used);
	sxt_frame_begin(&frame, SXT_FRAME_CLOSE, 0x22, 0x11);
	sxt_frame_add(&frame, SXT_TLV_PROGRESS, &progress, sizeof(progress));
	show("close", frame.bytes, frame.used);
	sxt_frame_begin(&frame, SXT_FRAME_REJECT, 0x11, 0);
	sxt_frame_add_error(&frame, -ECONNREFUSED, "no");
	show("reject", frame.bytes, frame.used);
	sxt_frame_begin(&frame, SXT_FRAME_FAIL, 0x11, 0x22);
	sxt_frame_add_error(&frame, -EREMOTEIO, "why");
	show("fail", frame.bytes, frame.used);
}

static void show_data(void)
{
	const struct sxt_wire_cts cts = {
		.addr_lap = 0x1122334455667788,
		.rkeys = {1, 2, 3, 4, 5, 6, 7, 8},
		.tag = 0x21222324,
		.size_low = 0x31323334,
		.size_high = SXT_CTS_WANT_IMM | 0x0101,
		.handle = 0x4142,
		.max_chunks = 0x5152,
		.generation = 3,
		.group = 0x18,
		.sequence = 0x6162636465666768,
	};
	const struct sxt_wire_record record = {.size_and_generation = 0x0003000000001000};
	const struct sxt_wire_ece ece = {
		.vendor_id = 0x01020304,
		.options = 0x11121314,
		.comp_mask = 0x21222324,
		.path = 0x31,
	};
	const struct sxt_wire_tuner tuner = {.digest = 0x1122334455667788, .use = SXT_TUNER_USED};

	show("cts", &cts, sizeof(cts));
	show("record", &record, sizeof(record));
	show("ece", &ece, sizeof(ece));
	show("tuner", &tuner, sizeof(tuner));
}

static void the_bytes_are_those_of_the_file(void **state)
{
	static char golden[sizeof(text)];
	FILE *file = fopen(SXT_TEST_GOLDEN, "r");
	size_t got;

	(void)state;
	assert_non_null(file);
	got = fread(golden, 1, sizeof(golden) - 1, file);
	golden[got] = '\0';
	fclose(file);
	show_handle();
	show_frames();
	show_data();
	assert_string_equal(text, golden);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_those_of_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
