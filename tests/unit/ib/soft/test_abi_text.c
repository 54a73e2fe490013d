/*
 * test_abi_text.c - names and rates are what the distribution's libibverbs answers.
 */
#include "ib/soft/abi.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef const char *text_fn(int value);
typedef int number_fn(int value);

static void *real;

static void *real_symbol(const char *name)
{
	void *symbol;

	if (real == NULL)
		skip();
	symbol = dlsym(real, name);
	assert_non_null(symbol);
	return symbol;
}

static void compare_texts(const char *name, text_fn *own)
{
	text_fn *theirs = (text_fn *)real_symbol(name);

	for (int value = -2; value < 64; value++)
		assert_string_equal(own(value), theirs(value));
}

static void compare_numbers(const char *name, number_fn *own, int step, int end)
{
	number_fn *theirs = (number_fn *)real_symbol(name);

	for (int value = -2; value < end; value += step)
		assert_int_equal(own(value), theirs(value));
}

static const char *node_type(int value)
{
	return ibv_node_type_str((enum ibv_node_type)value);
}

static const char *port_state(int value)
{
	return ibv_port_state_str((enum ibv_port_state)value);
}

static const char *event_type(int value)
{
	return ibv_event_type_str((enum ibv_event_type)value);
}

static const char *wc_status(int value)
{
	return ibv_wc_status_str((enum ibv_wc_status)value);
}

static int rate_to_mult(int value)
{
	return ibv_rate_to_mult((enum ibv_rate)value);
}

static int rate_to_mbps(int value)
{
	return ibv_rate_to_mbps((enum ibv_rate)value);
}

static int mult_to_rate(int value)
{
	return (int)mult_to_ibv_rate(value);
}

static int mbps_to_rate(int value)
{
	return (int)mbps_to_ibv_rate(value);
}

static void texts_are_those_of_libibverbs(void **state)
{
	(void)state;
	compare_texts("ibv_node_type_str", node_type);
	compare_texts("ibv_port_state_str", port_state);
	compare_texts("ibv_event_type_str", event_type);
	compare_texts("ibv_wc_status_str", wc_status);
}

static void rates_are_those_of_libibverbs(void **state)
{
	(void)state;
	compare_numbers("ibv_rate_to_mult", rate_to_mult, 1, 64);
	compare_numbers("ibv_rate_to_mbps", rate_to_mbps, 1, 64);
	compare_numbers("mult_to_ibv_rate", mult_to_rate, 1, 600);
	compare_numbers("mbps_to_ibv_rate", mbps_to_rate, 1, 1300000);
}

static void every_wc_status_has_a_name(void **state)
{
	(void)state;
	for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; status++)
		assert_string_not_equal(wc_status(status), "unknown");
	assert_string_equal(wc_status(IBV_WC_TM_RNDV_INCOMPLETE + 1), "unknown");
	assert_string_equal(wc_status(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
}

static void rates_round_trip(void **state)
{
	static const enum ibv_rate rates[] = {IBV_RATE_10_GBPS, IBV_RATE_100_GBPS,
					      IBV_RATE_400_GBPS, IBV_RATE_1200_GBPS};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(rates); i++)
		assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps(rates[i])), rates[i]);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
	assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_those_of_libibverbs),
		cmocka_unit_test(rates_are_those_of_libibverbs),
		cmocka_unit_test(every_wc_status_has_a_name),
		cmocka_unit_test(rates_round_trip),
	};

	real = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
