/*
 * test_list.c - the intrusive list keeps its order and survives removal during a walk.
 */
#include "core/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct item {
	char name;
	struct sxt_list node;
};

/* The names in order, as "abc", and the same backwards through prev. */
static void assert_order(struct sxt_list *head, const char *want)
{
	struct sxt_list *node;
	struct sxt_list *after;
	char got[16] = "";
	size_t cnt = 0;

	sxt_list_for_each (node, after, head)
		got[cnt++] = SXT_LIST_ENTRY(node, struct item, node)->name;
	assert_string_equal(got, want);
	for (node = head->prev; node != head; node = node->prev)
		assert_int_equal(SXT_LIST_ENTRY(node, struct item, node)->name, want[--cnt]);
	assert_int_equal(cnt, 0);
}

static void append_keeps_the_order(void **state)
{
	struct item items[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
	struct sxt_list head;

	(void)state;
	sxt_list_init(&head);
	assert_true(sxt_list_empty(&head));
	assert_order(&head, "");
	for (size_t i = 0; i < SXT_ARRAY_LEN(items); i++)
		sxt_list_append(&head, &items[i].node);
	assert_false(sxt_list_empty(&head));
	assert_order(&head, "abc");
}

static void remove_twice_is_once(void **state)
{
	struct item items[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
	struct item never = {.name = 'n'};
	struct sxt_list head;

	(void)state;
	sxt_list_init(&head);
	sxt_list_init(&never.node);
	for (size_t i = 0; i < SXT_ARRAY_LEN(items); i++)
		sxt_list_append(&head, &items[i].node);
	sxt_list_remove(&items[1].node);
	assert_order(&head, "ac");
	sxt_list_remove(&items[1].node);
	sxt_list_remove(&never.node);
	assert_order(&head, "ac");
	sxt_list_append(&head, &items[1].node);
	assert_order(&head, "acb");
}

static void a_walk_may_remove_what_it_stands_on(void **state)
{
	struct item items[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
	struct sxt_list *node;
	struct sxt_list *after;
	struct sxt_list head;
	int seen_cnt = 0;

	(void)state;
	sxt_list_init(&head);
	for (size_t i = 0; i < SXT_ARRAY_LEN(items); i++)
		sxt_list_append(&head, &items[i].node);
	sxt_list_for_each (node, after, &head) {
		seen_cnt++;
		sxt_list_remove(node);
	}
	assert_int_equal(seen_cnt, 3);
	assert_true(sxt_list_empty(&head));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(append_keeps_the_order),
		cmocka_unit_test(remove_twice_is_once),
		cmocka_unit_test(a_walk_may_remove_what_it_stands_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
