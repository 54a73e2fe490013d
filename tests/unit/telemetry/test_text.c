/*
 * test_text.c - whatever the bytes are, what comes out can be printed.
 */
#include "telemetry/text.h"

#include "core/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void texts_that_are_valid_stay(void **state)
{
	static const char *const valid[] = {
		"", "mlx5_0", "\xc3\xa9t\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2\xa0"};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(valid); i++) {
		char text[16];

		sxt_tele_text_put(text, sizeof(text), valid[i]);
		assert_string_equal(text, valid[i]);
	}
}

static void what_is_no_character_becomes_a_question_mark(void **state)
{
	static const char *const pairs[][2] = {
		{"a\x1b[2Jb", "a?[2Jb"},      /* an escape sequence */
		{"a\nb\tc\x7f", "a?b?c?"},    /* control characters */
		{"\xc2\x9b", "??"},           /* one beyond ASCII */
		{"\x80", "?"},                /* begins in the middle */
		{"\xc0\xaf", "??"},           /* too long a form */
		{"\xe0\x80\xaf", "???"},      /* and of three bytes */
		{"\xed\xa0\x80", "???"},      /* half of a pair */
		{"\xf4\x90\x80\x80", "????"}, /* past the end */
		{"\xff\xfe", "??"},           /* never */
		{"\xe2\x82", "??"},           /* cut */
		{"\xe2\x82z", "??z"},
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(pairs); i++) {
		char text[16];

		sxt_tele_text_put(text, sizeof(text), pairs[i][0]);
		assert_string_equal(text, pairs[i][1]);
	}
}

static void a_text_is_cut_between_two_characters(void **state)
{
	char text[4] = "xxx";

	(void)state;
	sxt_tele_text_put(text, sizeof(text), "a\xe2\x82\xac");
	assert_memory_equal(text, "a\0\0\0", 4);
	sxt_tele_text_put(text, sizeof(text), "\xe2\x82\xac");
	assert_string_equal(text, "\xe2\x82\xac");
	sxt_tele_text_put(text, sizeof(text), "abcd");
	assert_string_equal(text, "abc");
	sxt_tele_text_put(text, sizeof(text), NULL);
	assert_memory_equal(text, "\0\0\0\0", 4);
}

static void an_array_without_an_end_gets_one(void **state)
{
	static const char behind_end[8] = {'a', 'b', '\0', 's', 'e', 'c', 'r', 'e'};
	char text[8];

	(void)state;
	memset(text, 'x', sizeof(text));
	sxt_tele_text_clean(text, sizeof(text));
	assert_string_equal(text, "xxxxxxx");
	memcpy(text, behind_end, sizeof(text));
	sxt_tele_text_clean(text, sizeof(text));
	assert_memory_equal(text, "ab\0\0\0\0\0\0", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_that_are_valid_stay),
		cmocka_unit_test(what_is_no_character_becomes_a_question_mark),
		cmocka_unit_test(a_text_is_cut_between_two_characters),
		cmocka_unit_test(an_array_without_an_end_gets_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
