/*
 * test_races.c - threads that write and threads that read one segment at the same addresses, so
 * that ThreadSanitizer sees them.
 */
#include "tests/unit/telemetry/churn.h"
#include "tests/unit/telemetry/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#define WRITERS 2
#define READERS 2
#define CONNS   3 /* with two writers, records are given away all the time */
#define ROUNDS  3000

static struct sxt_tele *tele;
static _Atomic unsigned writing;

static void *write_rounds(void *first)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t round = (uint32_t)(uintptr_t)first + i * WRITERS;

		/* Of ports one thread is the writer. */
		if ((uintptr_t)first != 0 && round % 8 == 0)
			continue;
		churn_step(tele, round);
	}
	atomic_fetch_sub(&writing, 1);
	return NULL;
}

static void *read_all(void *seen)
{
	struct sxt_tele_view *view = NULL;

	assert_int_equal(sxt_tele_map(tele->header, tele->bytes, 1, &view), 0);
	do {
		churn_check(view, seen);
	} while (atomic_load(&writing) > 0);
	churn_check(view, seen);
	sxt_tele_close(view);
	return NULL;
}

static void readers_never_see_a_torn_record(void **state)
{
	pthread_t writers[WRITERS];
	pthread_t readers[READERS];
	struct churn_seen *seen = calloc(READERS, sizeof(*seen));
	struct sxt_tele_view *view;
	struct sxt_tele_link link;
	uint64_t messages = 0;

	(void)state;
	assert_non_null(seen);
	tele = rig_create(CONNS);
	atomic_store(&writing, WRITERS);
	for (uintptr_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, read_all, &seen[i]), 0);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_rounds, (void *)i), 0);
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	for (size_t i = 0; i < READERS; i++) {
		pthread_join(readers[i], NULL);
		assert_true(seen[i].looks > 0);
	}

	/* Nothing was lost from the sums, whoever had the records. */
	view = rig_view(tele);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(sxt_tele_link_get(view, i, &link));
		assert_int_equal(link.conns, 0);
		messages += link.flows[0].messages;
	}
	for (uint32_t i = 0; i < CONNS; i++) {
		struct sxt_tele_conn conn;

		assert_true(sxt_tele_conn_get(view, i, &conn));
		messages += conn.counters.messages;
	}
	for (uint32_t first = 0; first < WRITERS; first++) {
		for (uint32_t i = 0; i < ROUNDS; i++) {
			uint32_t round = first + i * WRITERS;

			if (first == 0 || round % 8 != 0)
				messages -= 2 * (1 + round % 50);
		}
	}
	assert_int_equal(messages, 0);
	sxt_tele_close(view);
	sxt_tele_destroy(tele);
	free(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(readers_never_see_a_torn_record, rig_set_up,
						rig_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
