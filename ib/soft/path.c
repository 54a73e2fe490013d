/*
 * path.c - from port to port: who has an address, and how long a transfer takes. Hot.
 */
#include "ib/soft/objects.h"

#include <string.h>

/* An InfiniBand port's subnet is the prefix of its first GID. */
static bool in_one_subnet(const struct sxt_soft_port *a, const struct sxt_soft_port *b)
{
	struct sxt_soft_gid of_a[SXT_SOFT_GIDS_MAX];
	struct sxt_soft_gid of_b[SXT_SOFT_GIDS_MAX];

	sxt_soft_gids_read(a, of_a);
	sxt_soft_gids_read(b, of_b);
	return memcmp(of_a[0].raw, of_b[0].raw, 8) == 0;
}

/*
 * A LID leads to a port of the sender's subnet. What is of another one goes by its GID through a
 * router, which takes what is sent to the LID that the GID names in its bytes 4 and 5 (FLID).
 */
static int find_infiniband(const struct sxt_soft_fabric *fabric, const struct sxt_soft_port *from,
			   const struct ibv_ah_attr *attr)
{
	const uint8_t *gid = attr->grh.dgid.raw;
	int index = sxt_soft_port_by_lid(fabric, attr->dlid);

	if (index >= 0 && in_one_subnet(from, &fabric->ports[index]))
		return index;
	if (!attr->is_global || (attr->dlid != 0 && attr->dlid != (gid[4] << 8 | gid[5])))
		return -ENOENT;
	return sxt_soft_port_by_gid(fabric, gid);
}

struct sxt_soft_port *sxt_soft_port_by_address(const struct sxt_soft_engine *engine,
					       const struct sxt_soft_port *from,
					       const struct ibv_ah_attr *attr)
{
	struct sxt_soft_fabric *fabric = engine->state->fabric;
	int index = -ENOENT;

	if (from->link_layer == SXT_SOFT_INFINIBAND)
		index = find_infiniband(fabric, from, attr);
	else if (attr->is_global)
		index = sxt_soft_port_by_gid(fabric, attr->grh.dgid.raw);
	if (index < 0 || fabric->ports[index].link_layer != from->link_layer)
		return NULL;
	return &fabric->ports[index];
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The slower of two bandwidths, where 0 is unlimited. */
static uint64_t slower(uint64_t a, uint64_t b)
{
	if (a == 0 || b == 0)
		return a + b;
	return a < b ? a : b;
}

uint64_t sxt_soft_path_latency(const struct sxt_soft_port *from, const struct sxt_soft_port *to)
{
	return later(from->latency_ns, to->latency_ns);
}

uint64_t sxt_soft_path_time(struct sxt_soft_port *from, const struct sxt_soft_port *to,
			    uint64_t bytes)
{
	uint64_t bps = slower(from->bandwidth_bps, to->bandwidth_bps);
	uint64_t latency = sxt_soft_path_latency(from, to);
	uint64_t took = 0;
	uint64_t busy;
	uint64_t end;

	if (SXT_LIKELY((bps | latency) == 0))
		return 0;
	end = sxt_soft_now_ns();
	if (bps != 0) {
		/* 8e9 x 1 GiB overflows 64 bits. */
		took = (uint64_t)((double)bytes * 8e9 / (double)bps);
		busy = atomic_load_explicit(&from->busy_until_ns, memory_order_relaxed);
		do {
			end = later(busy, end);
		} while (!atomic_compare_exchange_weak_explicit(&from->busy_until_ns, &busy,
								end + took, memory_order_relaxed,
								memory_order_relaxed));
	}
	return end + took + latency;
}
