/*
 * test_tuner_faults.c - every call that the tuner makes while it begins a communicator fails once:
 * so does the communicator, since its rank would choose otherwise than the others.
 */
#include "plugin/nccl/tuner.h"
#include "plugin/ruleset.h"
#include "tests/torture/torture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const struct nccl_tuner_v6 *const tuner = &ncclTunerPlugin_v6;
static void *context;

SXT_PRINTF(5, 6)
static void logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
	if (level == NCCL_LOG_WARN)
		torture_said();
}

static void nothing(void)
{
}

static int begin(void)
{
	ncclResult_t result;

	context = TORTURE_POISON;
	result = tuner->init(&context, 1, 16, 2, logger, NULL, NULL);
	if (result != ncclSuccess)
		assert_ptr_equal(context, TORTURE_POISON);
	return (int)result;
}

static void use(void)
{
	float costs[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS] = {{1, 1, 1}, {1, 1, 1}};
	int channels = 0;

	assert_int_equal(tuner->getCollInfo(context, NCCL_COLL_ALL_REDUCE, 5, 1, (float **)costs,
					    NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS, 0, &channels),
			 ncclSuccess);
	assert_int_equal(channels, 3);
}

static void end(void)
{
	assert_int_equal(tuner->finalize(context), ncclSuccess);
}

static void a_communicator_without_memory_fails(void **state)
{
	static const char *const calls[] = {"calloc", "reallocarray", NULL};
	static const int errors[] = {ncclSystemError, 0};
	static const struct torture_path path = {
		.name = "tuner",
		.is_nccl = true,
		.calls = calls,
		.errors = errors,
		.setup = nothing,
		.act = begin,
		.use = use,
		.undo = end,
		.teardown = nothing,
	};

	(void)state;
	torture_run(&path);
}

/* Rules are read once, so this is done before anything fails. */
static int setup(void **state)
{
	const struct sxt_ruleset *set;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/test_tuner_faults.%d", (int)getpid());
	file = fopen(path, "w");
	if (file == NULL || fputs("allreduce,0,-1,tree,simple,3,-1,-1\n", file) < 0 ||
	    fclose(file) != 0)
		return -1;
	setenv("SEXTANT_TUNER_FILE", path, 1);
	if (sxt_ruleset_get(&set) != 0)
		return -1;
	unlink(path);
	return torture_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_communicator_without_memory_fails)};

	return cmocka_run_group_tests(tests, setup, NULL);
}
