/*
 * pairs_advise.c - which ports to use: those that reach what they must, as NCCL joins them by their
 * numbers. Pure, and the same on both ends.
 */
#include "cli/doctor/pairs.h"

#include <stdio.h>
#include <string.h>

/* The ports still in use, and which rail each belongs to. */
struct choice {
	const struct sxt_pairs *pairs;
	bool active[2][SXT_PAIRS_PORTS_MAX];
	int rail[2][SXT_PAIRS_PORTS_MAX];
	int rails_cnt;
};

static uint32_t ports_cnt(const struct choice *c, int end)
{
	return c->pairs->hosts[end].ports_cnt;
}

static bool works(const struct choice *c, int end, uint32_t port, uint32_t other)
{
	const struct sxt_pairs_cell *cell = end == SXT_PAIRS_CALLER
						    ? sxt_pairs_cell_of(c->pairs, port, other)
						    : sxt_pairs_cell_of(c->pairs, other, port);

	return cell->state == SXT_PAIRS_GOOD && !cell->way[0].broke && !cell->way[1].broke;
}

static bool reaches_any(const struct choice *c, int end, uint32_t port)
{
	for (uint32_t i = 0; i < ports_cnt(c, !end); i++) {
		if (c->active[!end][i] && works(c, end, port, i))
			return true;
	}
	return false;
}

/* Without one port another may be left with nothing, so until none is. */
static void drop_alone(struct choice *c)
{
	bool dropped = true;

	while (dropped) {
		dropped = false;
		for (uint32_t n = 0; n < ports_cnt(c, 0) + ports_cnt(c, 1); n++) {
			int end = n < ports_cnt(c, 0) ? 0 : 1;
			uint32_t i = end == 0 ? n : n - ports_cnt(c, 0);

			if (!c->active[end][i] || reaches_any(c, end, i))
				continue;
			c->active[end][i] = false;
			dropped = true;
		}
	}
}

/* The port and all that it reaches, directly or not, become one rail. */
static void spread(struct choice *c, int end, uint32_t port, int rail)
{
	c->rail[end][port] = rail;
	for (uint32_t i = 0; i < ports_cnt(c, !end); i++) {
		if (c->active[!end][i] && c->rail[!end][i] < 0 && works(c, end, port, i))
			spread(c, !end, i, rail);
	}
}

static void find_rails(struct choice *c)
{
	memset(c->rail, 0xff, sizeof(c->rail));
	c->rails_cnt = 0;
	for (uint32_t i = 0; i < ports_cnt(c, 0); i++) {
		if (c->active[0][i] && c->rail[0][i] < 0)
			spread(c, 0, i, c->rails_cnt++);
	}
}

/* How many ports of its own rail a port does not reach. */
static uint32_t missing_cnt(const struct choice *c, int end, uint32_t port)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < ports_cnt(c, !end); i++)
		cnt += c->active[!end][i] && c->rail[!end][i] == c->rail[end][port] &&
		       !works(c, end, port, i);
	return cnt;
}

/* The port that misses most of its rail goes. Return: false if none misses any. */
static bool drop_worst(struct choice *c)
{
	uint32_t most = 0;
	uint32_t at = 0;
	int of = 0;

	for (int end = 0; end < 2; end++) {
		for (uint32_t i = 0; i < ports_cnt(c, end); i++) {
			uint32_t cnt = c->active[end][i] ? missing_cnt(c, end, i) : 0;

			if (cnt <= most)
				continue;
			most = cnt;
			at = i;
			of = end;
		}
	}
	if (most > 0)
		c->active[of][at] = false;
	return most > 0;
}

/* NCCL joins ports of one number; are those of one rail? */
static bool is_aligned(const struct choice *c)
{
	uint32_t j = 0;

	for (uint32_t i = 0; i < ports_cnt(c, 0); i++) {
		if (!c->active[0][i])
			continue;
		while (j < ports_cnt(c, 1) && !c->active[1][j])
			j++;
		if (j == ports_cnt(c, 1) || c->rail[0][i] != c->rail[1][j])
			return false;
		j++;
	}
	while (j < ports_cnt(c, 1) && !c->active[1][j])
		j++;
	return j == ports_cnt(c, 1);
}

static bool all_active(const struct choice *c, int end)
{
	for (uint32_t i = 0; i < ports_cnt(c, end); i++) {
		if (!c->active[end][i])
			return false;
	}
	return true;
}

static void write_list(const struct choice *c, int end, bool with_rails, char *out,
		       size_t out_bytes)
{
	size_t used = 0;

	for (uint32_t i = 0; i < ports_cnt(c, end); i++) {
		char rail[16] = "";

		if (!c->active[end][i])
			continue;
		if (with_rails)
			snprintf(rail, sizeof(rail), ":%d", c->rail[end][i]);
		used += (size_t)snprintf(out + used, out_bytes - used, "%c%s%s",
					 used == 0 ? '=' : ',', c->pairs->hosts[end].ports[i].name,
					 rail);
	}
}

void sxt_pairs_advise(const struct sxt_pairs *pairs, struct sxt_pairs_advice *out)
{
	struct choice c = {.pairs = pairs};
	bool with_rails;

	*out = (struct sxt_pairs_advice){0};
	memset(c.active, true, sizeof(c.active));
	do {
		drop_alone(&c);
		find_rails(&c);
	} while (drop_worst(&c));
	out->rails_cnt = (uint32_t)c.rails_cnt;
	with_rails = c.rails_cnt > 1 && !is_aligned(&c);
	for (int end = 0; end < 2 && c.rails_cnt > 0; end++) {
		if (with_rails || !all_active(&c, end))
			write_list(&c, end, with_rails, out->set[end], sizeof(out->set[end]));
	}
}
