/*
 * sim.c - the simulated cluster.
 */
#include "tests/unit/cli/tune/sim.h"

#include <gsl/gsl_randist.h>
#include <math.h>

#define NOISE     0.05
#define FIRST_LOG 10 /* 1 KiB */
#define LAST_LOG  32 /* 4 GiB */
#define HOSTS_MAX 64 /* above that a comment tells nodes and ranks */

/*
 * How much of a tree's bandwidth is left by protocol and size from 64 B on in powers of two, of the
 * kind that NCCL corrects its own model by.
 */
static const double tree_left[SXT_PROTOS][23] = {{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
						  .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1},
						 {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
						  .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1},
						 {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
						  .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

static double left_of(enum sxt_proto proto, double log2_bytes)
{
	double at = fmin(fmax(log2_bytes - 6, 0), 22);
	int i = (int)fmin(at, 21);

	return tree_left[proto][i] + (tree_left[proto][i + 1] - tree_left[proto][i]) * (at - i);
}

static double between(gsl_rng *rng, double low, double high)
{
	return low * pow(high / low, gsl_rng_uniform(rng));
}

void sim_init(struct sim *sim, unsigned long seed)
{
	static const uint32_t per_node[] = {1, 4, 8};
	static const double intra_us[SXT_PROTOS] = {0.7, 1.4, 3.5};
	static const double net_us[SXT_PROTOS] = {3, 5, 14};
	static const double share[SXT_PROTOS] = {0.3, 0.85, 1};
	double net_gbs = 0;
	double belief = 0;

	sim->rng = gsl_rng_alloc(gsl_rng_mt19937);
	gsl_rng_set(sim->rng, seed);
	sim->per_node = per_node[gsl_rng_uniform_int(sim->rng, 3)];
	net_gbs = between(sim->rng, 10, 400);
	belief = between(sim->rng, 0.6, 1.6);
	for (int ring = 0; ring < 2; ring++) {
		for (int p = 0; p < SXT_PROTOS; p++) {
			struct sim_costs *truth = &sim->truth[ring][p];

			truth->base_us = between(sim->rng, 4, 15);
			truth->intra_us = intra_us[p] * between(sim->rng, 0.6, 1.6);
			truth->net_us = net_us[p] * between(sim->rng, 0.5, 2);
			truth->gbs = net_gbs * share[p] * between(sim->rng, 0.8, 1.2);
			sim->belief[ring][p] =
				(struct sim_costs){.base_us = 7,
						   .intra_us = intra_us[p],
						   .net_us = net_us[p],
						   .gbs = net_gbs * share[p] * belief *
							  between(sim->rng, 0.8, 1.25)};
			sim->knee_log2[ring][p] = 18 + 10 * gsl_rng_uniform(sim->rng);
			sim->knee_factor[ring][p] = between(sim->rng, 0.65, 1.1);
		}
	}
	sim->slow_from = (uint32_t)gsl_rng_uniform_int(sim->rng, 9);
	sim->slow_us = between(sim->rng, 2, 30);
	sim->slow_factor = between(sim->rng, 0.7, 0.95);
}

void sim_fini(struct sim *sim)
{
	gsl_rng_free(sim->rng);
}

struct structure {
	double intra;
	double net;
	double traffic;
};

static struct structure structure_of(const struct sim *sim, enum sxt_coll coll, bool is_ring,
				     uint32_t nodes)
{
	double ranks = (double)nodes * sim->per_node;
	double turns = coll == SXT_COLL_ALL_REDUCE ? 2 : 1;
	double steps = turns * (ranks - 1);
	double net = nodes > 1 ? fmin(turns * nodes, steps) : 0;

	if (is_ring)
		return (struct structure){steps - net, net, turns * (ranks - 1) / ranks};
	return (struct structure){2.0 * (sim->per_node - 1), 2 * ceil(log2(nodes)), 2};
}

double sim_us(const struct sim *sim, enum sxt_coll coll, enum sxt_algo algo, enum sxt_proto proto,
	      uint32_t nodes, uint64_t bytes)
{
	bool is_ring = algo == SXT_ALGO_RING;
	const struct sim_costs *costs = &sim->truth[is_ring][proto];
	struct structure s = structure_of(sim, coll, is_ring, nodes);
	double log2_bytes = log2((double)bytes);
	/* Half of a knee's change happens within an octave of it. */
	double above = 1 / (1 + exp2(-2 * (log2_bytes - sim->knee_log2[is_ring][proto])));
	double gbs = costs->gbs * (1 + (sim->knee_factor[is_ring][proto] - 1) * above);
	double us = costs->base_us + s.intra * costs->intra_us + s.net * costs->net_us;

	if (algo > SXT_ALGO_RING || (!is_ring && coll != SXT_COLL_ALL_REDUCE))
		return -1;
	if (!is_ring)
		gbs *= left_of(proto, log2_bytes);
	if (nodes > sim->slow_from) {
		/* In a tree the straggler is a leaf of one half. */
		us += sim->slow_us * (coll == SXT_COLL_ALL_REDUCE ? 2 : 1);
		gbs *= is_ring ? sim->slow_factor : (1 + sim->slow_factor) / 2;
	}
	return us + s.traffic * (double)bytes / (1e3 * gbs);
}

int sim_costs(const struct sim *sim, enum sxt_coll coll, uint32_t nodes, uint64_t bytes,
	      float out[SXT_ALGOS * SXT_PROTOS])
{
	int best = -1;

	for (int i = 0; i < SXT_ALGOS * SXT_PROTOS; i++) {
		int algo = i / SXT_PROTOS;
		int proto = i % SXT_PROTOS;
		bool is_ring = algo == SXT_ALGO_RING;
		struct structure s = structure_of(sim, coll, is_ring, nodes);
		const struct sim_costs *costs = &sim->belief[is_ring][proto];
		double gbs = costs->gbs;

		out[i] = -1;
		if (algo > SXT_ALGO_RING || (!is_ring && coll != SXT_COLL_ALL_REDUCE))
			continue;
		if (!is_ring)
			gbs *= left_of(proto, floor(log2((double)bytes)));
		out[i] = (float)(costs->base_us + s.intra * costs->intra_us +
				 s.net * costs->net_us + s.traffic * (double)bytes / (1e3 * gbs));
		if (best < 0 || out[i] < out[best])
			best = i;
	}
	return best;
}

static const char *program_of(enum sxt_coll coll)
{
	static const char *const names[] = {"broadcast", "reduce", "all_gather", "reduce_scatter",
					    "all_reduce"};

	return names[coll];
}

static void print_head(const struct sim *sim, FILE *to, enum sxt_coll coll, uint32_t nodes,
		       int forced)
{
	static const char *const algos[] = {"Tree", "Ring"};
	static const char *const protos[] = {"LL", "LL128", "Simple"};

	fprintf(to, "# sextant sweep:");
	if (forced >= 0)
		fprintf(to, " NCCL_ALGO=%s NCCL_PROTO=%s", algos[forced / SXT_PROTOS],
			protos[forced % SXT_PROTOS]);
	if (nodes > HOSTS_MAX)
		fprintf(to, " NODES=%u RANKS=%u", nodes, nodes * sim->per_node);
	fprintf(to, "\n# Collective test starting: %s_perf\n", program_of(coll));
	fprintf(to, "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4294967296 step: 2(factor)\n#\n");
	for (uint32_t i = 0; nodes <= HOSTS_MAX && i < nodes * sim->per_node; i++)
		fprintf(to, "#  Rank %2u Group  0 Pid %6u on node%u device %2u [0x16] NVIDIA\n", i,
			1000 + i, i / sim->per_node, i % sim->per_node);
	fprintf(to, "#\n# %57s %30s\n", "out-of-place", "in-place");
	fprintf(to, "# size count type redop root time algbw busbw #wrong time algbw busbw "
		    "#wrong\n# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)\n");
}

static void print_time(struct sim *sim, FILE *to, double us, uint64_t bytes)
{
	double noisy = us * exp(gsl_ran_gaussian(sim->rng, NOISE));

	fprintf(to, " %8.2f %7.2f %7.2f  N/A", noisy, (double)bytes / noisy / 1e3,
		(double)bytes / noisy / 1e3);
}

void sim_log(struct sim *sim, FILE *to, enum sxt_coll coll, uint32_t nodes, int forced, int cycles)
{
	float costs[SXT_ALGOS * SXT_PROTOS];

	print_head(sim, to, coll, nodes, forced);
	for (int i = 0; i < cycles * (LAST_LOG - FIRST_LOG + 1); i++) {
		uint64_t bytes = 1ull << (FIRST_LOG + i % (LAST_LOG - FIRST_LOG + 1));
		int taken = forced >= 0 ? forced : sim_costs(sim, coll, nodes, bytes, costs);
		double us = sim_us(sim, coll, (enum sxt_algo)(taken / SXT_PROTOS),
				   (enum sxt_proto)(taken % SXT_PROTOS), nodes, bytes);

		fprintf(to, "%12llu %12llu float sum -1", (unsigned long long)bytes,
			(unsigned long long)bytes / 4);
		print_time(sim, to, us, bytes);
		print_time(sim, to, us, bytes);
		fputc('\n', to);
	}
	fprintf(to, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n");
}
