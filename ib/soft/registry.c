/*
 * registry.c - QP numbers of the whole fabric: one table in a file all processes map. Lock-free.
 *
 * A number is given out again only after the cursor went once round the table, and then with the
 * next generation; the start is random, so that no number means the same in two runs.
 */
#include "ib/soft/objects.h"

#define WORD_IN_USE (1ull << 63)
#define QPN_MASK    0xffffffull

static uint64_t word_make(uint32_t qpn, uint32_t proc, uint32_t qp_slot)
{
	return (uint64_t)qpn | (uint64_t)proc << 24 | (uint64_t)qp_slot << 34 | WORD_IN_USE;
}

static bool word_in_use(uint64_t word)
{
	return (word & WORD_IN_USE) != 0;
}

static uint32_t word_proc(uint64_t word)
{
	return (uint32_t)(word >> 24) & 0x3ff;
}

static uint32_t word_qp_slot(uint64_t word)
{
	return (uint32_t)(word >> 34) & 0x3fff;
}

_Static_assert(SXT_SOFT_PROCS_MAX <= 1024, "a process slot has 10 bits in a registry word");
_Static_assert(SXT_SOFT_QPS_MAX <= 16384, "a QP slot has 14 bits in a registry word");

/* Any fixed scrambling will do: it only makes numbers unlike each other. */
static uint32_t scramble(uint64_t value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdull;
	value ^= value >> 33;
	return (uint32_t)value;
}

/*
 * Its process is gone without giving it back, and this caller is the one to inherit it: the dead
 * word is taken out first, so that nobody takes the heir, who has not signed yet, for dead too.
 */
static bool entry_inherit(const struct sxt_soft_engine *engine, struct sxt_soft_qpn_entry *entry,
			  uint64_t word)
{
	uint64_t proc_word = atomic_load_explicit(&entry->proc_word, memory_order_acquire);

	return proc_word != 0 &&
	       !sxt_soft_proc_is_alive(engine->state->fabric, word_proc(word), proc_word) &&
	       atomic_compare_exchange_strong(&entry->proc_word, &proc_word, 0);
}

static bool entry_claim(struct sxt_soft_engine *engine, uint32_t slot, uint32_t qp_slot,
			uint32_t *out)
{
	struct sxt_soft_qpn_entry *entry = &engine->registry->qpns[slot];
	uint64_t seen = atomic_load_explicit(&entry->word, memory_order_acquire);
	uint32_t generation;
	uint64_t next;

	if (word_in_use(seen) && !entry_inherit(engine, entry, seen))
		return false;
	if (seen == 0)
		generation = scramble(engine->state->fabric->start_ns + slot);
	else
		generation = (uint32_t)((seen & QPN_MASK) >> SXT_SOFT_QPN_SLOT_BITS) + 1;
	generation &= 0xff;
	next = word_make(slot | generation << SXT_SOFT_QPN_SLOT_BITS, engine->self->slot, qp_slot);
	if (!atomic_compare_exchange_strong(&entry->word, &seen, next))
		return false;
	atomic_store_explicit(&entry->proc_word, engine->self->word, memory_order_release);
	*out = (uint32_t)(next & QPN_MASK);
	return true;
}

int sxt_soft_qpn_take(struct sxt_soft_engine *engine, uint32_t qp_slot, uint32_t *out)
{
	struct sxt_soft_registry *registry = engine->registry;
	uint32_t fresh = 0;

	if (atomic_load_explicit(&registry->cursor, memory_order_relaxed) == 0)
		sxt_ignore(atomic_compare_exchange_strong(
			&registry->cursor, &fresh, scramble(engine->state->fabric->start_ns) | 1));
	for (uint32_t i = 0; i < SXT_SOFT_QPN_SLOTS; i++) {
		uint32_t slot =
			atomic_fetch_add_explicit(&registry->cursor, 1, memory_order_relaxed) %
			SXT_SOFT_QPN_SLOTS;

		if (slot >= SXT_SOFT_QPN_FIRST && entry_claim(engine, slot, qp_slot, out))
			return 0;
	}
	return -ENOMEM;
}

void sxt_soft_qpn_give(struct sxt_soft_engine *engine, uint32_t qpn)
{
	struct sxt_soft_qpn_entry *entry = &engine->registry->qpns[qpn % SXT_SOFT_QPN_SLOTS];

	atomic_store_explicit(&entry->proc_word, 0, memory_order_relaxed);
	atomic_fetch_and_explicit(&entry->word, ~WORD_IN_USE, memory_order_release);
}

int sxt_soft_qpn_find(struct sxt_soft_engine *engine, uint32_t qpn, struct sxt_soft_peer **peer_out,
		      struct sxt_soft_qp_shared **qp_out)
{
	struct sxt_soft_qpn_entry *entry = &engine->registry->qpns[qpn % SXT_SOFT_QPN_SLOTS];
	uint64_t word = atomic_load_explicit(&entry->word, memory_order_acquire);
	uint64_t proc_word = atomic_load_explicit(&entry->proc_word, memory_order_acquire);
	struct sxt_soft_peer *peer;
	int rc;

	if (!word_in_use(word) || (word & QPN_MASK) != qpn)
		return -ENOENT;
	rc = sxt_soft_peer_get(engine, word_proc(word), proc_word, &peer);
	if (rc != 0)
		return rc;
	*peer_out = peer;
	*qp_out = &peer->arena->qps[word_qp_slot(word)];
	return 0;
}
