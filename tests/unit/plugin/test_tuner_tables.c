/*
 * test_tuner_tables.c - plays NCCL to the built plugin's tuner, all five tables of it: answers by
 * the rules, everything else left as it was, whatever is wrong with file, settings or arguments.
 *
 * usage: test_tuner_tables PLUGIN
 */
#include "plugin/nccl/tuner.h"
#include "tests/fake/logger.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define ALGOS  NCCL_NUM_ALGORITHMS
#define PROTOS NCCL_NUM_PROTOCOLS

static const char *plugin_path;
static char rules_path[64];

/* The plugin as NCCL has it: a fresh copy for each test, since it reads rules once. */
static struct {
	void *lib;
	const struct nccl_tuner_v2 *v2;
	const struct nccl_tuner_v3 *v3;
	const struct nccl_tuner_v4 *v4;
	const struct nccl_tuner_v5 *v5;
	const struct nccl_tuner_v6 *v6;
} plugin;

static const void *table_of(const char *name)
{
	const void *table = dlsym(plugin.lib, name);

	assert_non_null(table);
	return table;
}

static void copy_file(const char *from, int to)
{
	FILE *file = fopen(from, "rb");
	char bytes[65536];
	size_t got;

	assert_non_null(file);
	while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0)
		assert_int_equal(write(to, bytes, got), (ssize_t)got);
	fclose(file);
}

static void load(void)
{
	char path[64];
	int fd = memfd_create("plugin", 0);

	assert_true(fd >= 0);
	copy_file(plugin_path, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	plugin.lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (plugin.lib == NULL)
		fail_msg("%s", dlerror());
	/* It stays loaded under this name, so the number is not used again: fd stays open. */
	plugin.v2 = table_of("ncclTunerPlugin_v2");
	plugin.v3 = table_of("ncclTunerPlugin_v3");
	plugin.v4 = table_of("ncclTunerPlugin_v4");
	plugin.v5 = table_of("ncclTunerPlugin_v5");
	plugin.v6 = table_of("ncclTunerPlugin_v6");
}

static void write_rules(const char *text)
{
	FILE *file = fopen(rules_path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* A plugin that will read these rules. */
static void load_with(const char *rules)
{
	write_rules(rules);
	setenv("SEXTANT_TUNER_FILE", rules_path, 1);
	load();
}

static int setup(void **state)
{
	static const char *const names[] = {"SEXTANT_TUNER_FILE", "SEXTANT_TUNER_DIGEST",
					    "NCCL_TUNER_CONFIG_FILE", "NCCL_ALGO", "NCCL_PROTO"};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	heard_forget();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (plugin.lib != NULL)
		dlclose(plugin.lib);
	plugin.lib = NULL;
	return 0;
}

/* init of any version. */
static ncclResult_t begin(int version, size_t ranks, size_t nodes, void **context)
{
	struct nccl_nvl_domain_info domains = {.nNvlDomains = (int)nodes};
	struct nccl_tuner_constants constants;
	struct nccl_tuner_constants before;
	ncclResult_t result;

	memset(&constants, 0x5a, sizeof(constants));
	before = constants;
	if (version == 2)
		return plugin.v2->init(ranks, nodes, heard_logger, context);
	if (version == 3)
		return plugin.v3->init(ranks, nodes, heard_logger, context);
	if (version == 4)
		return plugin.v4->init(ranks, nodes, heard_logger, context);
	result = (version == 5 ? plugin.v5->init : plugin.v6->init)(context, 77, ranks, nodes,
								    heard_logger, &domains,
								    &constants);
	/* NCCL computes its costs from these afterwards. */
	assert_memory_equal(&constants, &before, sizeof(constants));
	return result;
}

static void end(int version, void *context)
{
	ncclResult_t (*const finish[])(void *) = {plugin.v2->destroy, plugin.v3->destroy,
						  plugin.v4->destroy, plugin.v5->finalize,
						  plugin.v6->finalize};

	assert_int_equal(finish[version - 2](context), ncclSuccess);
}

static void *begun(int version, size_t ranks, size_t nodes)
{
	void *context = NULL;

	assert_int_equal(begin(version, ranks, nodes, &context), ncclSuccess);
	return context;
}

/* A call and what comes of it. */
struct asked {
	int coll;
	size_t bytes;
	int pipe_ops;
	int reg;
	int algos; /* 0: all */
	int channels;
	int algo; /* out: the one that NCCL then uses; -1: no table was touched */
	int proto;
	float costs[ALGOS][PROTOS]; /* filled by fill_costs() */
};

/* What NCCL has: tree is the best, and some cannot be used. */
static void fill_costs(struct asked *asked)
{
	for (int i = 0; i < ALGOS * PROTOS; i++)
		asked->costs[i / PROTOS][i % PROTOS] = 10.0f + (float)i;
	asked->costs[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_LL] = NCCL_ALGO_PROTO_IGNORE;
	asked->costs[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] = NCCL_ALGO_PROTO_IGNORE;
	asked->costs[NCCL_ALGO_RING][NCCL_PROTO_LL128] = NAN;
}

/* Which entry was written; all others are as they were. */
static void find_choice(struct asked *asked, const struct asked *before)
{
	const float *was = &before->costs[0][0];
	const float *is = &asked->costs[0][0];

	for (int i = 0; i < ALGOS * PROTOS; i++) {
		if (is[i] == was[i] || (isnan(is[i]) && isnan(was[i])))
			continue;
		assert_int_equal(asked->algo, -1); /* the first */
		assert_true(was[i] >= 0);
		asked->algo = i / PROTOS;
		asked->proto = i % PROTOS;
		/* NCCL takes the smallest, and of equal ones the first. */
		assert_true(is[i] >= 0);
		for (int k = 0; k < ALGOS * PROTOS; k++)
			assert_false(k != i && is[k] >= 0 && is[k] <= is[i]);
	}
}

static void ask_table(int version, void *context, struct asked *asked)
{
	int algos = asked->algos != 0 ? asked->algos : ALGOS;
	float **costs = (float **)asked->costs;
	struct asked before;
	ncclResult_t result;

	fill_costs(asked);
	before = *asked;
	if (version == 3)
		result = plugin.v3->getCollInfo(context, asked->coll, asked->bytes, asked->pipe_ops,
						costs, algos, PROTOS, &asked->channels);
	else
		result = (version == 4   ? plugin.v4->getCollInfo
			  : version == 5 ? plugin.v5->getCollInfo
					 : plugin.v6->getCollInfo)(context, asked->coll,
								   asked->bytes, asked->pipe_ops,
								   costs, algos, PROTOS, asked->reg,
								   &asked->channels);
	assert_int_equal(result, ncclSuccess);
	find_choice(asked, &before);
}

static struct asked ask(int version, void *context, struct asked asked)
{
	asked.algo = -1;
	asked.proto = -1;
	if (version != 2) {
		ask_table(version, context, &asked);
		return asked;
	}
	assert_int_equal(plugin.v2->getCollInfo(context, asked.coll, asked.bytes, 1, 1,
						asked.pipe_ops, &asked.algo, &asked.proto,
						&asked.channels),
			 ncclSuccess);
	assert_true((asked.algo < 0) == (asked.proto < 0));
	return asked;
}

static void assert_chosen(const struct asked *asked, int algo, int proto, int channels)
{
	assert_int_equal(asked->algo, algo);
	assert_int_equal(asked->proto, proto);
	assert_int_equal(asked->channels, channels);
}

static void assert_left(const struct asked *asked, int channels)
{
	assert_chosen(asked, -1, -1, channels);
}

#define ALL_REDUCE(size) \
	((struct asked){.coll = NCCL_COLL_ALL_REDUCE, .bytes = (size), .pipe_ops = 1})

#define SOME_RULES                                      \
	"allreduce,0,65536,tree,ll,-1,-1,-1\n"          \
	"allreduce,65537,1048576,ring,simple,8,-1,-1\n" \
	"allgather,0,-1,ring,simple,-1,4,-1\n"

static void every_version_answers_by_the_rules(void **state)
{
	struct asked asked;

	(void)state;
	load_with(SOME_RULES);
	for (int version = 2; version <= 6; version++) {
		void *context = begun(version, 16, 2);

		asked = ask(version, context, ALL_REDUCE(65536));
		assert_chosen(&asked, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0);
		asked = ask(version, context, ALL_REDUCE(65537));
		assert_chosen(&asked, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8);
		end(version, context);
	}
	assert_heard_times(5, "INFO NET/Sextant : tuner: digest ");
	assert_heard_times(5, ", 2 of 3 rules and 0 of 0 models of ");
	assert_heard_times(5, " are for 16 ranks on 2 nodes");
	assert_heard_times(0, "WARN");
}

static void what_no_rule_is_for_stays_as_it_was(void **state)
{
	const struct asked calls[] = {
		ALL_REDUCE(1048577),
		{.coll = NCCL_COLL_ALL_GATHER, .bytes = 5},
		{.coll = NCCL_COLL_BROADCAST, .bytes = 5},
		{.coll = 5, .bytes = 5},
		{.coll = 1000000, .bytes = 5},
		{.coll = -1, .bytes = 5},
	};

	(void)state;
	load_with(SOME_RULES);
	for (int version = 2; version <= 6; version++) {
		void *context = begun(version, 16, 2);

		for (size_t i = 0; i < SXT_ARRAY_LEN(calls); i++) {
			struct asked asked = calls[i];

			for (asked.channels = 0; asked.channels < 4; asked.channels += 3) {
				struct asked got = ask(version, context, asked);

				assert_left(&got, asked.channels);
			}
		}
		end(version, context);
	}
}

static void what_nccl_cannot_use_is_never_written(void **state)
{
	struct asked asked;

	(void)state;
	load_with("allreduce,0,9,collnet_chain,ll,-1,-1,-1\n"
		  "allreduce,10,19,nvls,simple,4,-1,-1\n"
		  "allreduce,20,29,ring,ll128,4,-1,-1\n"
		  "broadcast,0,-1,tree,simple,-1,-1,-1\n");
	for (int version = 3; version <= 6; version++) {
		void *context = begun(version, 16, 2);

		for (size_t bytes = 0; bytes < 30; bytes += 10) {
			asked = ask(version, context, ALL_REDUCE(bytes));
			assert_left(&asked, 0);
			asked = ask(version, context, ALL_REDUCE(bytes));
			assert_left(&asked, 0);
		}
		end(version, context);
	}
	/* Once for each communicator. */
	assert_heard_times(
		4, "a rule wants allreduce by collnet_chain/ll, which NCCL cannot use here");
	assert_heard_times(4, "a rule wants allreduce by nvls/simple, which NCCL cannot use here");
}

/* Older releases know no PAT; what lies behind their table is not ours. */
static void a_smaller_table_is_not_overrun(void **state)
{
	struct asked asked;
	void *context;

	(void)state;
	load_with("allgather,0,-1,pat,simple,2,-1,-1\nallreduce,0,-1,nvls_tree,simple,2,-1,-1\n");
	context = begun(4, 16, 2);
	asked = ask(4, context,
		    (struct asked){.coll = NCCL_COLL_ALL_GATHER, .bytes = 5, .algos = 6});
	assert_left(&asked, 0);
	asked = ask(4, context,
		    (struct asked){.coll = NCCL_COLL_ALL_REDUCE, .bytes = 5, .algos = 6});
	assert_chosen(&asked, NCCL_ALGO_NVLS_TREE, NCCL_PROTO_SIMPLE, 2);
	asked = ask(4, context, (struct asked){.coll = NCCL_COLL_ALL_GATHER, .bytes = 5});
	assert_chosen(&asked, NCCL_ALGO_PAT, NCCL_PROTO_SIMPLE, 2);
	end(4, context);
}

static void communicators_do_not_mix(void **state)
{
	void *contexts[2];
	struct asked asked;

	(void)state;
	load_with("allreduce,0,-1,tree,simple,-1,2,-1\nallreduce,0,-1,ring,simple,4,16,-1\n");
	contexts[0] = begun(6, 16, 2);
	contexts[1] = begun(6, 128, 16);
	for (int i = 0; i < 3; i++) {
		asked = ask(6, contexts[0], ALL_REDUCE(524288));
		assert_chosen(&asked, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0);
		asked = ask(6, contexts[1], ALL_REDUCE(524288));
		assert_chosen(&asked, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 4);
	}
	end(6, contexts[0]);
	asked = ask(6, contexts[1], ALL_REDUCE(524288));
	assert_chosen(&asked, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 4);
	end(6, contexts[1]);
}

static void pipelined_and_registered_calls_are_told_apart(void **state)
{
	void *context;
	struct asked asked;

	(void)state;
	load_with("allreduce,0,-1,tree,simple,-1,-1,-1,4,-1\n"
		  "allreduce,0,-1,ring,simple,-1,-1,-1,-1,1\n");
	context = begun(6, 16, 2);
	asked = ask(6, context, ALL_REDUCE(5));
	assert_left(&asked, 0);
	asked = ask(6, context, (struct asked){.coll = 4, .bytes = 5, .pipe_ops = 4});
	assert_chosen(&asked, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0);
	asked = ask(6, context, (struct asked){.coll = 4, .bytes = 5, .pipe_ops = 1, .reg = 7});
	assert_chosen(&asked, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0);
	end(6, context);
	/* v3 does not tell, so the rule is not for it. */
	context = begun(3, 16, 2);
	asked = ask(3, context, (struct asked){.coll = 4, .bytes = 5, .pipe_ops = 1, .reg = 1});
	assert_left(&asked, 0);
	end(3, context);
}

/* In v2 there is no table that says what can be used. */
static void v2_is_given_what_any_machine_has(void **state)
{
	static const struct {
		int coll, algo, collnet, nvls, taken;
	} cases[] = {
		{NCCL_COLL_ALL_REDUCE, NCCL_ALGO_COLLNET_DIRECT, 0, 1, 0},
		{NCCL_COLL_ALL_REDUCE, NCCL_ALGO_COLLNET_DIRECT, 1, 0, 1},
		{NCCL_COLL_ALL_GATHER, NCCL_ALGO_NVLS, 1, 0, 0},
		{NCCL_COLL_ALL_GATHER, NCCL_ALGO_NVLS, 0, 1, 1},
		{NCCL_COLL_REDUCE_SCATTER, NCCL_ALGO_PAT, 1, 1, 0},
		{NCCL_COLL_REDUCE, NCCL_ALGO_RING, 0, 0, 0}, /* the rule wants LL128 */
		{NCCL_COLL_BROADCAST, NCCL_ALGO_TREE, 1, 1, 0},
	};
	void *context;

	(void)state;
	load_with("allreduce,0,-1,collnet_direct,simple,-1,-1,-1\n"
		  "allgather,0,-1,nvls,simple,6,-1,-1\n"
		  "reducescatter,0,-1,pat,simple,6,-1,-1\n"
		  "reduce,0,-1,ring,ll128,6,-1,-1\n"
		  "broadcast,0,-1,tree,simple,6,-1,-1\n");
	context = begun(2, 8, 1);
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++) {
		int wanted = cases[i].coll == NCCL_COLL_ALL_REDUCE ? 0 : 6;
		int algo = -1;
		int proto = -1;
		int channels = 0;

		assert_int_equal(plugin.v2->getCollInfo(context, cases[i].coll, 5, cases[i].collnet,
							cases[i].nvls, 1, &algo, &proto, &channels),
				 ncclSuccess);
		assert_int_equal(algo, cases[i].taken ? cases[i].algo : -1);
		assert_int_equal(proto, cases[i].taken ? NCCL_PROTO_SIMPLE : -1);
		assert_int_equal(channels, cases[i].taken ? wanted : 0);
	}
	end(2, context);
}

static void nccls_own_settings_come_first(void **state)
{
	static const struct {
		const char *algo;
		const char *proto;
		bool all_reduce, broadcast; /* by the rules? */
		const char *told;
	} cases[] = {
		{"Ring", NULL, false, false, "stays out of broadcast, reduce, allgather, "},
		{NULL, "Simple", false, false, "NCCL_PROTO=Simple"},
		{"allreduce:tree", NULL, false, true, "stays out of allreduce: NCCL_ALGO="},
		{"^nvls,nvlstree", NULL, true, true, NULL},
		{"^ring", NULL, true, false, NULL},
		{"ring;allreduce:^ring", NULL, true, false, "stays out of broadcast, "},
		{"", "", true, true, NULL},
	};

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++) {
		setup(NULL);
		if (cases[i].algo != NULL)
			setenv("NCCL_ALGO", cases[i].algo, 1);
		if (cases[i].proto != NULL)
			setenv("NCCL_PROTO", cases[i].proto, 1);
		load_with("allreduce,0,-1,tree,ll,2,-1,-1\nbroadcast,0,-1,ring,simple,2,-1,-1\n");
		for (int version = 2; version <= 6; version++) {
			void *context = begun(version, 16, 2);
			struct asked asked = ask(version, context, ALL_REDUCE(5));

			assert_int_equal(asked.algo, cases[i].all_reduce ? NCCL_ALGO_TREE : -1);
			assert_int_equal(asked.channels, cases[i].all_reduce ? 2 : 0);
			asked = ask(version, context, (struct asked){.coll = NCCL_COLL_BROADCAST});
			assert_int_equal(asked.algo, cases[i].broadcast ? NCCL_ALGO_RING : -1);
			end(version, context);
		}
		assert_heard_times(cases[i].told != NULL ? 1 : 0, "stays out of ");
		if (cases[i].told != NULL)
			assert_heard_times(1, cases[i].told);
		teardown(NULL);
	}
}

static void a_wrong_file_is_told_once_and_changes_nothing(void **state)
{
	(void)state;
	load_with(
		"allreduce,0,65536,tree,simple,-1,-1,-1\nallreduce,0,65536,tre,simple,-1,-1,-1\n");
	for (int version = 2; version <= 6; version++) {
		void *context = begun(version, 16, 2);
		struct asked asked = ask(version, context, ALL_REDUCE(5));

		assert_left(&asked, 0);
		end(version, context);
	}
	assert_heard_times(1, "WARN");
	assert_heard_times(1, "WARN NET/Sextant : tuner: SEXTANT_TUNER_FILE=");
	assert_heard_times(1, ": line 2");
	assert_heard_times(1, "\"tre\"");
}

static void a_missing_file_is_told_once_and_changes_nothing(void **state)
{
	(void)state;
	setenv("NCCL_TUNER_CONFIG_FILE", "/nonexistent/rules", 1);
	load();
	for (int version = 2; version <= 6; version++) {
		void *context = begun(version, 16, 2);
		struct asked asked = ask(version, context, ALL_REDUCE(5));

		assert_left(&asked, 0);
		end(version, context);
	}
	assert_heard_times(1,
			   "WARN NET/Sextant : tuner: NCCL_TUNER_CONFIG_FILE=/nonexistent/rules: ");
	assert_heard_times(1, "No such file");
	assert_heard_times(1, "WARN");
}

static void without_a_file_nothing_changes(void **state)
{
	void *context;
	struct asked asked;

	(void)state;
	load();
	context = begun(6, 16, 2);
	asked = ask(6, context, ALL_REDUCE(5));
	assert_left(&asked, 0);
	end(6, context);
	assert_heard_times(0, "WARN");
	assert_heard_times(1, "0 of 0 rules and 0 of 0 models of no file (SEXTANT_TUNER_FILE)");
}

static void the_digest_of_line(char out[17])
{
	const char *at = strstr(heard_text(), "tuner: digest ");

	assert_non_null(at);
	snprintf(out, 17, "%s", at + strlen("tuner: digest "));
}

static void unlike_digests_end_the_communicator(void **state)
{
	char expected[160];
	char digest[17];
	void *context;

	(void)state;
	load_with(SOME_RULES);
	context = begun(6, 16, 2);
	end(6, context);
	the_digest_of_line(digest);
	setenv("SEXTANT_TUNER_DIGEST", digest, 1);
	for (int version = 2; version <= 6; version++)
		end(version, begun(version, 16, 2));
	assert_heard_times(0, "WARN");

	setenv("SEXTANT_TUNER_DIGEST", "0123456789abcdef", 1);
	for (int version = 2; version <= 6; version++) {
		context = &context;
		assert_int_equal(begin(version, 16, 2, &context), ncclInvalidUsage);
		assert_ptr_equal(context, &context);
	}
	snprintf(expected, sizeof(expected),
		 "SEXTANT_TUNER_DIGEST=0123456789abcdef, but the rules of %s on ", rules_path);
	assert_heard_times(5, expected);
	snprintf(expected, sizeof(expected), " have digest %s: ", digest);
	assert_heard_times(5, expected);
	assert_heard_times(5, "`sextant tune lint FILE`");
	/* A rank whose file is of no use is caught by it as well. */
	setenv("SEXTANT_TUNER_DIGEST", digest, 1);
	teardown(NULL);
	load_with("nonsense\n");
	assert_int_equal(begin(6, 16, 2, &context), ncclInvalidUsage);
}

static void the_file_is_read_once(void **state)
{
	struct asked asked;
	void *context;

	(void)state;
	load_with(SOME_RULES);
	end(6, begun(6, 16, 2));
	write_rules("allreduce,0,-1,ring,simple,-1,-1,-1\n");
	context = begun(6, 16, 2);
	asked = ask(6, context, ALL_REDUCE(5));
	assert_chosen(&asked, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0);
	end(6, context);
}

static size_t chunk_of(void *context, size_t bytes, int algo, int proto, size_t given)
{
	size_t chunk = given;

	assert_int_equal(plugin.v6->getChunkSize(context, NCCL_COLL_ALL_REDUCE, bytes, algo, proto,
						 4, &chunk),
			 ncclSuccess);
	return chunk;
}

static void chunks_are_those_of_the_rules(void **state)
{
	static const struct {
		size_t bytes;
		int algo, proto;
		size_t given, got;
	} cases[] = {
		{5, NCCL_ALGO_TREE, NCCL_PROTO_LL128, 30720, 4096},
		{15, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 131072, 1 << 20},
		{15, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 4 << 20, 1 << 20},
		/* Only of ring and tree does NCCL limit what is too much. */
		{25, NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 131072, 131072},
		{25, NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 524288, 262144},
		/* Not what the rule says. */
		{25, NCCL_ALGO_NVLS_TREE, NCCL_PROTO_SIMPLE, 131072, 131072},
		{15, NCCL_ALGO_RING, 3, 1000, 1000},
		{15, 7, NCCL_PROTO_LL, 1000, 1000},
		{15, -1, -1, 1000, 1000},
		{35, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 131072, 131072},
	};
	void *context;

	(void)state;
	load_with("sextant-rules 1\n"
		  "rule coll=allreduce bytes=0..9 algo=tree proto=ll128 chunk=4K\n"
		  "rule coll=allreduce bytes=10..19 algo=ring proto=simple chunk=1M\n"
		  "rule coll=allreduce bytes=20..29 algo=nvls proto=simple chunk=256K\n");
	context = begun(6, 16, 2);
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++)
		assert_int_equal(chunk_of(context, cases[i].bytes, cases[i].algo, cases[i].proto,
					  cases[i].given),
				 cases[i].got);
	end(6, context);
	assert_heard_times(0, "WARN");
}

/* NCCL divides by what is left of a chunk after rounding it down to the protocol's grain. */
static void chunks_below_the_grain_are_refused_with_the_file(void **state)
{
	void *context;

	(void)state;
	load_with("sextant-rules 1\nrule coll=allreduce algo=ring proto=simple chunk=512\n");
	context = begun(6, 16, 2);
	assert_int_equal(chunk_of(context, 5, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 131072), 131072);
	end(6, context);
	assert_heard_times(1, "is no size of a chunk");
}

static void wrong_arguments_change_nothing(void **state)
{
	struct asked asked = ALL_REDUCE(5);
	struct asked before;
	size_t chunk = 1000;
	void *context;

	(void)state;
	load_with("allreduce,0,-1,tree,ll,2,-1,-1\n");
	fill_costs(&asked);
	before = asked;
	context = begun(6, 16, 2);
	assert_int_equal(plugin.v6->getCollInfo(NULL, 4, 5, 1, (float **)asked.costs, ALGOS, PROTOS,
						0, &asked.channels),
			 ncclSuccess);
	assert_int_equal(plugin.v6->getCollInfo(context, 4, 5, 1, NULL, ALGOS, PROTOS, 0, NULL),
			 ncclSuccess);
	assert_int_equal(plugin.v6->getCollInfo(context, 4, 5, 1, (float **)asked.costs, 0, PROTOS,
						0, &asked.channels),
			 ncclSuccess);
	assert_int_equal(plugin.v6->getCollInfo(context, 4, 5, 1, (float **)asked.costs, ALGOS, -1,
						0, &asked.channels),
			 ncclSuccess);
	assert_int_equal(plugin.v2->getCollInfo(context, 4, 5, 0, 0, 1, NULL, NULL, NULL),
			 ncclSuccess);
	assert_int_equal(plugin.v6->getChunkSize(NULL, 4, 5, 0, 0, 1, &chunk), ncclSuccess);
	assert_int_equal(plugin.v6->getChunkSize(context, 4, 5, 0, 0, 1, NULL), ncclSuccess);
	assert_memory_equal(&asked, &before, sizeof(asked));
	assert_int_equal(chunk, 1000);
	/* The number of channels is the caller's choice to hear of. */
	assert_int_equal(plugin.v6->getCollInfo(context, 4, 5, -3, (float **)asked.costs, ALGOS,
						PROTOS, 0, NULL),
			 ncclSuccess);
	assert_true(asked.costs[NCCL_ALGO_TREE][NCCL_PROTO_LL] == 0.0f);
	end(6, context);
	end(6, NULL);
}

static void shapes_that_cannot_be_are_left_to_nccl(void **state)
{
	static const size_t shapes[][2] = {{0, 0}, {4, 0}, {4, 5}, {1ull << 33, 5}};

	(void)state;
	load_with(SOME_RULES);
	for (size_t i = 0; i < SXT_ARRAY_LEN(shapes); i++) {
		void *context = begun(6, shapes[i][0], shapes[i][1]);
		struct asked asked = ask(6, context, ALL_REDUCE(5));

		assert_left(&asked, 0);
		end(6, context);
	}
	assert_heard_times(4, "make no sense");
}

/* One communicator of its own, from beginning to end, over and over. */
static void *live(void *arg)
{
	size_t nodes = (size_t)(uintptr_t)arg;

	for (int i = 0; i < 20; i++) {
		void *context = NULL;
		float costs[ALGOS][PROTOS] = {{1}};
		int channels = 0;

		if (plugin.v6->init(&context, nodes, 8 * nodes, nodes, heard_logger, NULL, NULL) !=
			    ncclSuccess ||
		    plugin.v6->getCollInfo(context, NCCL_COLL_ALL_GATHER, 5, 1, (float **)costs,
					   ALGOS, PROTOS, 0, &channels) != ncclSuccess ||
		    plugin.v6->finalize(context) != ncclSuccess || channels != (nodes == 4 ? 3 : 0))
			return arg;
	}
	return NULL;
}

static void communicators_live_in_threads_of_their_own(void **state)
{
	pthread_t threads[6];
	void *failed;

	(void)state;
	load_with("allgather,0,-1,tree,ll,3,4,-1\n");
	for (size_t i = 0; i < SXT_ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, live, (void *)(1 + i)), 0);
	for (size_t i = 0; i < SXT_ARRAY_LEN(threads); i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
}

#define TUNER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TUNER_TEST(every_version_answers_by_the_rules),
		TUNER_TEST(what_no_rule_is_for_stays_as_it_was),
		TUNER_TEST(what_nccl_cannot_use_is_never_written),
		TUNER_TEST(a_smaller_table_is_not_overrun),
		TUNER_TEST(communicators_do_not_mix),
		TUNER_TEST(pipelined_and_registered_calls_are_told_apart),
		TUNER_TEST(v2_is_given_what_any_machine_has),
		TUNER_TEST(nccls_own_settings_come_first),
		TUNER_TEST(a_wrong_file_is_told_once_and_changes_nothing),
		TUNER_TEST(a_missing_file_is_told_once_and_changes_nothing),
		TUNER_TEST(without_a_file_nothing_changes),
		TUNER_TEST(unlike_digests_end_the_communicator),
		TUNER_TEST(the_file_is_read_once),
		TUNER_TEST(chunks_are_those_of_the_rules),
		TUNER_TEST(chunks_below_the_grain_are_refused_with_the_file),
		TUNER_TEST(wrong_arguments_change_nothing),
		TUNER_TEST(shapes_that_cannot_be_are_left_to_nccl),
		TUNER_TEST(communicators_live_in_threads_of_their_own),
	};
	int failed;

	if (argc != 2)
		return 64;
	plugin_path = argv[1];
	snprintf(rules_path, sizeof(rules_path), "/tmp/test_tuner.%d", (int)getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(rules_path);
	return failed;
}
