/*
 * resort.c - moving a connection that is being made to other ports (slow path, polled).
 */
#include "ib/resort.h"

#include "ib/pairs.h"

/* What one NIC of an end has; index 0 is the named one, the others follow. */
static const struct sxt_wire_candidate *addresses(const struct sxt_resort_end *end, uint32_t index,
						  uint32_t *cnt_out)
{
	*cnt_out = index == 0 ? end->named_cnt : 1;
	return index == 0 ? end->named : &end->others[index - 1];
}

static uint8_t number_of(const struct sxt_resort_end *end, uint32_t index)
{
	return index == 0 ? SXT_RESORT_NAMED : end->others[index - 1].place;
}

/* Does a move to these two belong into this half of the plan? */
static bool belongs(const struct sxt_resort_end *from, uint32_t i, const struct sxt_resort_end *to,
		    uint32_t j, bool is_near)
{
	struct sxt_pair_ends ends = {0};

	if (i == 0 && j == 0)
		return false;
	ends.from = addresses(from, i, &ends.from_cnt);
	ends.to = addresses(to, j, &ends.to_cnt);
	if (ends.from_cnt == 0 || ends.to_cnt == 0 || ends.from->link_layer != ends.to->link_layer)
		return false;
	return sxt_pairs_near(&ends) == is_near;
}

static void add(struct sxt_resort_plan *plan, const struct sxt_resort_end *from, uint32_t i,
		const struct sxt_resort_end *to, uint32_t j)
{
	plan->moves[plan->moves_cnt++] = (struct sxt_resort_move){
		.from = number_of(from, i),
		.to = number_of(to, j),
		.is_whole = i == 0 && j == 0,
	};
}

/* The named NIC of either end with the others of the other one, in turn; then others with others.
 */
static void add_all(struct sxt_resort_plan *plan, const struct sxt_resort_end *from,
		    const struct sxt_resort_end *to, bool is_near, uint32_t most)
{
	uint32_t longest = from->others_cnt > to->others_cnt ? from->others_cnt : to->others_cnt;
	uint32_t end = plan->moves_cnt + most;

	for (uint32_t k = 1; k <= longest && plan->moves_cnt < end; k++) {
		if (k <= to->others_cnt && belongs(from, 0, to, k, is_near))
			add(plan, from, 0, to, k);
		if (k <= from->others_cnt && plan->moves_cnt < end &&
		    belongs(from, k, to, 0, is_near))
			add(plan, from, k, to, 0);
	}
	for (uint32_t i = 1; i <= from->others_cnt; i++) {
		for (uint32_t j = 1; j <= to->others_cnt && plan->moves_cnt < end; j++) {
			if (belongs(from, i, to, j, is_near))
				add(plan, from, i, to, j);
		}
	}
}

void sxt_resort_plan_make(const struct sxt_resort_end *from, const struct sxt_resort_end *to,
			  struct sxt_resort_plan *out)
{
	out->moves_cnt = 0;
	add_all(out, from, to, true, SXT_RESORT_NEAR_MAX);
	out->near_cnt = out->moves_cnt;
	if (out->near_cnt > 0)
		add(out, from, 0, to, 0);
	add_all(out, from, to, false, SXT_RESORT_FAR_MAX);
}
