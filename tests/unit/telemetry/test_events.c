/*
 * test_events.c - the ring of events: what is newest, what is cut, what is overtaken.
 */
#include "tests/unit/telemetry/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void an_event_is_seen_with_its_time(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_event event;

	(void)state;
	assert_false(sxt_tele_event_get(view, 0, &event));
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, UINT32_MAX, "first\nline");
	sxt_tele_event(tele, SXT_TELE_EVENT_STALL, 7, NULL);
	assert_true(sxt_tele_event_get(view, 0, &event));
	assert_int_equal(event.kind, SXT_TELE_EVENT_LINE);
	assert_int_equal(event.subject, UINT32_MAX);
	assert_string_equal(event.text, "first?line");
	assert_in_range(event.ticks, sxt_tele_header(view)->made_ticks, sxt_tele_now(view));
	assert_true(sxt_tele_event_get(view, 1, &event));
	assert_int_equal(event.subject, 7);
	assert_string_equal(event.text, "");
	assert_false(sxt_tele_event_get(view, 2, &event));
	assert_false(sxt_tele_event_get(view, UINT64_MAX, &event));
	sxt_tele_refresh(view);
	assert_int_equal(sxt_tele_header(view)->events, 2);
	assert_int_equal(sxt_tele_header(view)->warnings, 2);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void the_newest_stand_over_the_oldest(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_event event;
	char text[32];

	(void)state;
	for (uint32_t i = 0; i < SXT_TELE_EVENTS_CAP + 10; i++) {
		snprintf(text, sizeof(text), "event %u", i);
		sxt_tele_event(tele, SXT_TELE_EVENT_LINE, i, text);
	}
	assert_false(sxt_tele_event_get(view, 9, &event));
	assert_true(sxt_tele_event_get(view, 10, &event));
	assert_string_equal(event.text, "event 10");
	assert_true(sxt_tele_event_get(view, SXT_TELE_EVENTS_CAP + 9, &event));
	assert_string_equal(event.text, "event 1033");
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

static void a_text_that_is_too_long_is_cut(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_event event;
	char text[1000];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, 0, text);
	assert_true(sxt_tele_event_get(view, 0, &event));
	assert_int_equal(strlen(event.text), sizeof(event.text) - 1);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

/* A thread may lose the processor in the middle of one for as long as a whole ring takes. */
static void an_event_that_was_overtaken_is_lost_and_harms_nobody(void **state)
{
	struct sxt_tele *tele = rig_create(1);
	struct sxt_tele_view *view = rig_view(tele);
	struct sxt_tele_event event;

	(void)state;
	tele->events[0].sequence = 1; /* number 0 is being written */
	tele->header->events = SXT_TELE_EVENTS_CAP;
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, 0, "a ring later");
	assert_false(sxt_tele_event_get(view, SXT_TELE_EVENTS_CAP, &event));
	tele->events[1].sequence = 2 * (3 * SXT_TELE_EVENTS_CAP + 1) + 2; /* newer than ours */
	sxt_tele_event(tele, SXT_TELE_EVENT_LINE, 0, "two rings too late");
	assert_true(sxt_tele_event_get(view, 3 * SXT_TELE_EVENTS_CAP + 1, &event));
	assert_string_equal(event.text, "");
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_event_is_seen_with_its_time),
		TEST(the_newest_stand_over_the_oldest),
		TEST(a_text_that_is_too_long_is_cut),
		TEST(an_event_that_was_overtaken_is_lost_and_harms_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
