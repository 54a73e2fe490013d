/*
 * tuner.c - the tuner's communicators: what NCCL asks is answered by the rules of the process. One
 * thread of NCCL's at a time per communicator, several communicators at once.
 */
#include "plugin/tuner.h"

#include "core/config.h"
#include "core/list.h"
#include "core/log.h"
#include "core/status.h"
#include "ib/ib.h"
#include "ib/wire.h"
#include "plugin/logger.h"
#include "plugin/net.h"
#include "plugin/result.h"
#include "plugin/ruleset.h"
#include "telemetry/clock.h"
#include "telemetry/write.h"
#include "tuner/choose.h"
#include "tuner/fields.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)SXT_COLL_BROADCAST == (int)NCCL_COLL_BROADCAST, "");
_Static_assert((int)SXT_COLL_REDUCE == (int)NCCL_COLL_REDUCE, "");
_Static_assert((int)SXT_COLL_ALL_GATHER == (int)NCCL_COLL_ALL_GATHER, "");
_Static_assert((int)SXT_COLL_REDUCE_SCATTER == (int)NCCL_COLL_REDUCE_SCATTER, "");
_Static_assert((int)SXT_COLL_ALL_REDUCE == (int)NCCL_COLL_ALL_REDUCE, "");
_Static_assert((int)SXT_ALGO_TREE == (int)NCCL_ALGO_TREE, "");
_Static_assert((int)SXT_ALGO_RING == (int)NCCL_ALGO_RING, "");
_Static_assert((int)SXT_ALGO_COLLNET_DIRECT == (int)NCCL_ALGO_COLLNET_DIRECT, "");
_Static_assert((int)SXT_ALGO_COLLNET_CHAIN == (int)NCCL_ALGO_COLLNET_CHAIN, "");
_Static_assert((int)SXT_ALGO_NVLS == (int)NCCL_ALGO_NVLS, "");
_Static_assert((int)SXT_ALGO_NVLS_TREE == (int)NCCL_ALGO_NVLS_TREE, "");
_Static_assert((int)SXT_ALGO_PAT == (int)NCCL_ALGO_PAT, "");
_Static_assert((int)SXT_ALGOS == NCCL_NUM_ALGORITHMS, "");
_Static_assert((int)SXT_PROTO_LL == (int)NCCL_PROTO_LL, "");
_Static_assert((int)SXT_PROTO_LL128 == (int)NCCL_PROTO_LL128, "");
_Static_assert((int)SXT_PROTO_SIMPLE == (int)NCCL_PROTO_SIMPLE, "");
_Static_assert((int)SXT_PROTOS == NCCL_NUM_PROTOCOLS, "");

/* One communicator. */
struct tuner {
	struct sxt_chooser *chooser;
	uint32_t told[SXT_COLLS]; /* of each algorithm and protocol, that it cannot be had */
	struct sxt_tele_choice *counts[SXT_COLLS]; /* CHOICES of each; NULL: nobody counts */
	struct sxt_ib *ib;                         /* whose segment they are in */
	uint64_t number;
	bool is_used;
	struct sxt_list node;
};
_Static_assert((int)SXT_ALGOS *(int)SXT_PROTOS <= 32, "a bit each");

/* What a call can come to: an algorithm and a protocol, or left to NCCL. */
#define LEFT_TO_NCCL ((uint32_t)SXT_ALGOS * SXT_PROTOS)
#define CHOICES      (LEFT_TO_NCCL + 1)
_Static_assert((int)SXT_COLLS *(int)CHOICES <= (int)SXT_TELE_CHOICES_CAP, "a record each");

/* Those that live, for their peers' questions. */
static struct {
	pthread_mutex_t lock;
	struct sxt_list tuners;
} process = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.tuners = {&process.tuners, &process.tuners},
};

static bool is_shape(const struct sxt_tuner_comm *comm, struct sxt_shape *out)
{
	if (comm->nodes == 0 || comm->nodes > comm->ranks || comm->ranks > UINT32_MAX)
		return false;
	out->nodes = (uint32_t)comm->nodes;
	out->ranks = (uint32_t)comm->ranks;
	return true;
}

/* SEXTANT_TUNER_DIGEST is what the launcher wants all ranks to have. */
static int check_digest(const struct sxt_ruleset *set)
{
	const char *wanted = sxt_env_get("SEXTANT_TUNER_DIGEST");
	char own[24];
	char host[64] = "?";

	snprintf(own, sizeof(own), "%016llx", (unsigned long long)set->rules->digest);
	if (wanted == NULL || wanted[0] == '\0' || strcasecmp(wanted, own) == 0)
		return 0;
	/* Without a name the line is still of use. */
	sxt_ignore(gethostname(host, sizeof(host) - 1));
	SXT_LOG(SXT_LOG_ERROR,
		"tuner: SEXTANT_TUNER_DIGEST=%s, but the rules of %s on %s have digest %s: "
		"give all hosts the same SEXTANT_TUNER_FILE, or set the digest that "
		"`sextant tune lint FILE` prints",
		wanted, set->path != NULL ? set->path : "no file", host, own);
	return -EINVAL;
}

static uint32_t models_covering(const struct sxt_rules *rules, struct sxt_shape shape)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < rules->models_cnt; i++)
		cnt += sxt_when_covers(&rules->models[i].when, shape) ? 1 : 0;
	return cnt;
}

static uint32_t rules_covering(const struct sxt_rules *rules, struct sxt_shape shape)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < rules->rules_cnt; i++)
		cnt += sxt_when_covers(&rules->rules[i].when, shape) ? 1 : 0;
	return cnt;
}

static void tell(const struct sxt_ruleset *set, struct sxt_shape shape)
{
	const struct sxt_rules *rules = set->rules;

	SXT_LOG(SXT_LOG_INFO,
		"tuner: digest %016llx, %u of %u rules and %u of %u models of %s are for "
		"%u ranks on %u nodes",
		(unsigned long long)rules->digest, rules_covering(rules, shape), rules->rules_cnt,
		models_covering(rules, shape), rules->models_cnt,
		set->path != NULL ? set->path : "no file (SEXTANT_TUNER_FILE)", shape.ranks,
		shape.nodes);
}

static bool is_used(const struct sxt_ruleset *set)
{
	for (int coll = 0; coll < SXT_COLLS; coll++) {
		if (!set->forced.is_named[coll])
			return true;
	}
	return false;
}

/* Every communicator writes the same. */
static void begin_counting(struct tuner *tuner)
{
	struct sxt_tele_choice *records;

	tuner->ib = sxt_net_hold();
	records = tuner->ib != NULL ? sxt_tele_choices(sxt_ib_tele(tuner->ib)) : NULL;
	for (uint32_t i = 0; records != NULL && i < SXT_COLLS * CHOICES; i++) {
		struct sxt_tele_choice *record = &records[i];
		uint32_t choice = i % CHOICES;
		bool is_left = choice == LEFT_TO_NCCL;

		sxt_tele_set32(&record->coll, i / CHOICES);
		sxt_tele_set32(&record->algo, is_left ? SXT_TELE_CHOICE_LEFT : choice / SXT_PROTOS);
		sxt_tele_set32(&record->proto,
			       is_left ? SXT_TELE_CHOICE_LEFT : choice % SXT_PROTOS);
		if (choice == 0)
			tuner->counts[i / CHOICES] = record;
	}
}

static int create(const struct sxt_ruleset *set, struct sxt_shape shape, uint64_t number,
		  struct tuner **out)
{
	struct tuner *tuner = calloc(1, sizeof(*tuner));
	int rc = -ENOMEM;

	if (tuner != NULL)
		rc = sxt_chooser_make(set->rules, shape, set->forced.allowed, &tuner->chooser);
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "tuner: %s", sxt_strerror(rc));
		free(tuner);
		return rc;
	}
	begin_counting(tuner);
	tuner->number = number;
	tuner->is_used = is_used(set);
	pthread_mutex_lock(&process.lock);
	sxt_list_append(&process.tuners, &tuner->node);
	pthread_mutex_unlock(&process.lock);
	*out = tuner;
	return 0;
}

ncclResult_t sxt_tuner_init(const struct sxt_tuner_comm *comm, ncclDebugLogger_t logger,
			    void **context)
{
	const struct sxt_ruleset *set;
	struct tuner *tuner = NULL;
	struct sxt_shape shape;
	int rc;

	sxt_logger_set(logger);
	rc = sxt_ruleset_get(&set);
	if (rc == 0 && check_digest(set) != 0)
		return ncclInvalidUsage;
	if (rc == 0 && is_shape(comm, &shape)) {
		tell(set, shape);
		rc = create(set, shape, comm->number, &tuner);
	} else if (rc == 0) {
		SXT_LOG(SXT_LOG_WARN, "tuner: %zu ranks on %zu nodes make no sense: NCCL chooses",
			comm->ranks, comm->nodes);
	}
	if (rc == 0)
		*context = tuner;
	return sxt_result(rc);
}

ncclResult_t sxt_tuner_finalize(void *context)
{
	struct tuner *tuner = context;

	if (tuner == NULL)
		return ncclSuccess;
	pthread_mutex_lock(&process.lock);
	sxt_list_remove(&tuner->node);
	pthread_mutex_unlock(&process.lock);
	sxt_net_release(tuner->ib);
	sxt_chooser_free(tuner->chooser);
	free(tuner);
	return ncclSuccess;
}

/* Once for each, though a rule may want it with every call. */
static SXT_COLD void tell_unavailable(struct tuner *tuner, uint32_t coll, uint32_t algo,
				      uint32_t proto)
{
	uint32_t bit = 1u << (algo * SXT_PROTOS + proto);

	if ((tuner->told[coll] & bit) != 0)
		return;
	tuner->told[coll] |= bit;
	SXT_LOG(SXT_LOG_INFO,
		"tuner: a rule wants %s by %s/%s, which NCCL cannot use here: NCCL chooses",
		sxt_coll_names[coll], sxt_algo_names[algo], sxt_proto_names[proto]);
}

/* One more answer. Several threads may count the same: each has a communicator. */
static SXT_INLINE void count(const struct tuner *tuner, const struct sxt_call *call, uint32_t at)
{
	struct sxt_tele_choice *counts = call->coll < SXT_COLLS ? tuner->counts[call->coll] : NULL;

	/* Relaxed: they stand for nothing else. */
	if (counts != NULL)
		__atomic_fetch_add(&counts[at].calls[sxt_tele_size_bucket(call->bytes)], 1,
				   __ATOMIC_RELAXED);
}

ncclResult_t sxt_tuner_choose(void *context, int coll, size_t bytes, int pipe_ops, float **costs,
			      int algos, int protos, int reg, int *channels)
{
	struct tuner *tuner = context;
	/* NCCL casts its float[algos][protos]. */
	float *table = (float *)costs;
	const struct sxt_call call = {
		.coll = (uint32_t)coll,
		.bytes = bytes,
		.pipe_ops = pipe_ops > 0 ? (uint32_t)pipe_ops : 0,
		.reg = (int8_t)(reg > 0 ? 1 : reg),
		.costs = table,
		.algos = (uint32_t)algos,
		.protos = (uint32_t)protos,
	};
	struct sxt_choice choice;
	uint32_t at = LEFT_TO_NCCL;

	if (tuner == NULL || table == NULL || algos <= 0 || protos <= 0)
		return ncclSuccess;
	choice = sxt_choose(tuner->chooser, &call);
	if (SXT_UNLIKELY(choice.source == SXT_CHOICE_UNAVAILABLE))
		tell_unavailable(tuner, call.coll, choice.algo, choice.proto);
	if (sxt_choice_is_made(&choice)) {
		table[choice.algo * call.protos + choice.proto] = 0.0f;
		if (choice.channels != 0 && channels != NULL)
			*channels = (int)choice.channels;
		at = choice.algo * SXT_PROTOS + choice.proto;
	}
	count(tuner, &call, at);
	return ncclSuccess;
}

ncclResult_t sxt_tuner_choose_v3(void *context, int coll, size_t bytes, int pipe_ops, float **costs,
				 int algos, int protos, int *channels)
{
	return sxt_tuner_choose(context, coll, bytes, pipe_ops, costs, algos, protos, -1, channels);
}

/*
 * What NCCL 2.19 and 2.20, which have v2, can do anywhere (ncclTopoTuneModel in graph/tuning.cc).
 * Whether LL128 keeps its lines whole is known to NCCL only, so a rule for it does not count.
 */
static bool can_v2(int coll, const struct sxt_choice *choice, bool collnet, bool nvls)
{
	bool is_all_reduce = coll == SXT_COLL_ALL_REDUCE;
	bool is_simple = choice->proto == SXT_PROTO_SIMPLE;

	if (choice->proto == SXT_PROTO_LL128)
		return false;
	switch (choice->algo) {
	case SXT_ALGO_RING:
		return true;
	case SXT_ALGO_TREE:
		return is_all_reduce;
	case SXT_ALGO_COLLNET_DIRECT:
	case SXT_ALGO_COLLNET_CHAIN:
		return is_all_reduce && is_simple && collnet;
	case SXT_ALGO_NVLS:
		return is_simple && nvls && coll != SXT_COLL_BROADCAST && coll != SXT_COLL_REDUCE;
	case SXT_ALGO_NVLS_TREE:
		return is_all_reduce && is_simple && nvls;
	default:
		return false;
	}
}

ncclResult_t sxt_tuner_choose_v2(void *context, int coll, size_t bytes, int collnet, int nvls,
				 int pipe_ops, int *algo, int *proto, int *channels)
{
	struct tuner *tuner = context;
	const struct sxt_call call = {
		.coll = (uint32_t)coll,
		.bytes = bytes,
		.pipe_ops = pipe_ops > 0 ? (uint32_t)pipe_ops : 0,
		.reg = -1,
		.algos = SXT_ALGO_PAT,
		.protos = SXT_PROTOS,
	};
	struct sxt_choice choice;
	uint32_t at = LEFT_TO_NCCL;

	if (tuner == NULL || algo == NULL || proto == NULL)
		return ncclSuccess;
	choice = sxt_choose(tuner->chooser, &call);
	if (sxt_choice_is_made(&choice) && !can_v2(coll, &choice, collnet != 0, nvls != 0))
		choice.source = SXT_CHOICE_UNAVAILABLE;
	if (choice.source == SXT_CHOICE_UNAVAILABLE)
		tell_unavailable(tuner, call.coll, choice.algo, choice.proto);
	if (sxt_choice_is_made(&choice)) {
		at = choice.algo * SXT_PROTOS + choice.proto;
		*algo = (int)choice.algo;
		*proto = (int)choice.proto;
		if (choice.channels != 0 && channels != NULL)
			*channels = (int)choice.channels;
	}
	count(tuner, &call, at);
	return ncclSuccess;
}

/*
 * NCCL rounds a chunk down to the protocol's grain (16, 1920 and 512 bytes: ncclProtoGrainSize in
 * device.h), of a ring with SIMPLE it takes a fourth, and then it divides by what is left without a
 * look (calcCollChunking in enqueue.cc). No rule's chunk is that small.
 */
_Static_assert(SXT_CHUNK_MIN >= 1920 && SXT_CHUNK_MIN >= 4 * 512, "NCCL divides by it");

/*
 * Above, NCCL clamps to its buffer, which is the limit of ring and tree; NVLS, CollNet and PAT have
 * smaller ones that it does not look at again, so that there a rule only lowers.
 */
ncclResult_t sxt_tuner_chunk(void *context, int coll, size_t bytes, int algo, int proto,
			     int channels, size_t *chunk)
{
	struct tuner *tuner = context;
	const struct sxt_call call = {.coll = (uint32_t)coll, .bytes = bytes, .reg = -1};
	bool may_grow = algo == SXT_ALGO_RING || algo == SXT_ALGO_TREE;
	uint64_t wanted;

	(void)channels;
	if (tuner == NULL || chunk == NULL)
		return ncclSuccess;
	wanted = sxt_choose_chunk(tuner->chooser, &call, (uint32_t)algo, (uint32_t)proto);
	if (wanted != 0 && (wanted <= *chunk || may_grow))
		*chunk = wanted;
	return ncclSuccess;
}

void sxt_tuner_of(uint64_t number, struct sxt_wire_tuner *out)
{
	const struct sxt_ruleset *set;
	struct sxt_list *node;
	struct sxt_list *after;

	memset(out, 0, sizeof(*out));
	if (sxt_ruleset_get(&set) == 0 && !sxt_ruleset_is_empty(set))
		out->digest = set->rules->digest;
	out->use = number != 0 ? SXT_TUNER_UNUSED : SXT_TUNER_UNKNOWN;
	pthread_mutex_lock(&process.lock);
	sxt_list_for_each (node, after, &process.tuners) {
		const struct tuner *tuner = SXT_LIST_ENTRY(node, struct tuner, node);

		if (number != 0 && tuner->number != 0 && tuner->number != number)
			continue;
		if (tuner->is_used)
			out->use = SXT_TUNER_USED;
		else if (out->use == SXT_TUNER_UNKNOWN)
			out->use = SXT_TUNER_UNUSED;
	}
	pthread_mutex_unlock(&process.lock);
}
