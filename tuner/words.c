/*
 * words.c - names to numbers, forgiving in spelling as NCCL's own tools are.
 */
#include "tuner/words.h"

#include <errno.h>

const char *const sxt_coll_names[SXT_COLLS] = {
	[SXT_COLL_BROADCAST] = "broadcast",  [SXT_COLL_REDUCE] = "reduce",
	[SXT_COLL_ALL_GATHER] = "allgather", [SXT_COLL_REDUCE_SCATTER] = "reducescatter",
	[SXT_COLL_ALL_REDUCE] = "allreduce",
};

const char *const sxt_algo_names[SXT_ALGOS] = {
	[SXT_ALGO_TREE] = "tree",
	[SXT_ALGO_RING] = "ring",
	[SXT_ALGO_COLLNET_DIRECT] = "collnet_direct",
	[SXT_ALGO_COLLNET_CHAIN] = "collnet_chain",
	[SXT_ALGO_NVLS] = "nvls",
	[SXT_ALGO_NVLS_TREE] = "nvls_tree",
	[SXT_ALGO_PAT] = "pat",
};

const char *const sxt_proto_names[SXT_PROTOS] = {
	[SXT_PROTO_LL] = "ll",
	[SXT_PROTO_LL128] = "ll128",
	[SXT_PROTO_SIMPLE] = "simple",
};

/* The next letter that counts, lower case; 0 at the end. No ctype.h: that follows the locale. */
static char next_letter(const char **at)
{
	while (**at == '_' || **at == '-')
		(*at)++;
	if (**at == '\0')
		return '\0';
	if (**at >= 'A' && **at <= 'Z')
		return (char)(*(*at)++ - 'A' + 'a');
	return *(*at)++;
}

static bool is_same(const char *word, const char *name)
{
	char letter;

	do {
		letter = next_letter(&word);
		if (letter != next_letter(&name))
			return false;
	} while (letter != '\0');
	return true;
}

static int number_of(const char *word, const char *const *names, int names_cnt)
{
	for (int i = 0; i < names_cnt; i++) {
		if (is_same(word, names[i]))
			return i;
	}
	return -EINVAL;
}

int sxt_coll_of(const char *word)
{
	return number_of(word, sxt_coll_names, SXT_COLLS);
}

int sxt_algo_of(const char *word)
{
	return number_of(word, sxt_algo_names, SXT_ALGOS);
}

int sxt_proto_of(const char *word)
{
	return number_of(word, sxt_proto_names, SXT_PROTOS);
}

/* By algorithm, a bit for each collective; ncclTopoTuneModel() in NCCL's graph/tuning.cc. */
#define BIT(coll)  (1u << SXT_COLL_##coll)
#define GATHERING  (BIT(ALL_GATHER) | BIT(REDUCE_SCATTER))
#define EVERYTHING ((1u << SXT_COLLS) - 1)

static const unsigned int possible[SXT_ALGOS] = {
	[SXT_ALGO_TREE] = BIT(ALL_REDUCE),
	[SXT_ALGO_RING] = EVERYTHING,
	[SXT_ALGO_COLLNET_DIRECT] = BIT(ALL_REDUCE) | GATHERING,
	[SXT_ALGO_COLLNET_CHAIN] = BIT(ALL_REDUCE),
	[SXT_ALGO_NVLS] = BIT(ALL_REDUCE) | GATHERING,
	[SXT_ALGO_NVLS_TREE] = BIT(ALL_REDUCE),
	[SXT_ALGO_PAT] = GATHERING,
};

bool sxt_is_possible(enum sxt_coll coll, enum sxt_algo algo, enum sxt_proto proto)
{
	bool has_all = algo == SXT_ALGO_TREE || algo == SXT_ALGO_RING;

	return (possible[algo] & 1u << coll) != 0 && (has_all || proto == SXT_PROTO_SIMPLE);
}
