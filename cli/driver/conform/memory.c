/*
 * memory.c - checks of registrations.
 */
#include "cli/driver/conform/pair.h"

#include <errno.h>

/* Ranges of a buffer as users have them: odd, small, overlapping, twice the same. */
static const struct {
	size_t offset;
	size_t bytes;
} ranges[] = {
	{1, 1}, {3, 4093}, {4095, 2}, {1000, 9000}, {5000, 70001}, {5000, 70001}, {131072, 65536},
};

#define RANGES SXT_ARRAY_LEN(ranges)

/* One end's registrations of all ranges. */
static int reg_all(struct sxt_pair *pair, void *comm, const struct sxt_memory *whole,
		   struct sxt_memory *out)
{
	for (size_t i = 0; i < RANGES; i++) {
		out[i].data = whole->data + ranges[i].offset;
		out[i].bytes = ranges[i].bytes;
		if (sxt_pair_reg(pair, comm, &out[i]) != 0)
			return -EIO;
	}
	return 0;
}

/* One message that fills a range at both ends, with the range's own handles. */
static int move_range(struct sxt_pair *pair, size_t i, const struct sxt_memory *out,
		      const struct sxt_memory *in)
{
	struct sxt_drv_msg to =
		sxt_pair_clear(pair, SXT_PAIR_HOME + ranges[i].offset, ranges[i].bytes);
	struct sxt_drv_msg from =
		sxt_pair_fill(pair, SXT_PAIR_HOME + ranges[i].offset, ranges[i].bytes, (uint32_t)i);

	to.mhandle = in[i].mhandle;
	from.mhandle = out[i].mhandle;
	if (sxt_pair_recv(pair, 1, &to) != 0 || sxt_trial_sync(pair->trial) != 0 ||
	    sxt_pair_send(pair, &from) != 0 || sxt_pair_wait(pair) != 0)
		return -EIO;
	return sxt_pair_verify(pair, &to, ranges[i].bytes, (uint32_t)i);
}

static int dereg_range(struct sxt_pair *pair, size_t i, const struct sxt_memory *out,
		       const struct sxt_memory *in)
{
	struct sxt_trial *trial = pair->trial;

	if (trial->sends && SXT_CALL(trial, "deregMr",
				     trial->net->calls.dereg(pair->send_comm, out[i].mhandle)) != 0)
		return -EIO;
	if (trial->receives &&
	    SXT_CALL(trial, "deregMr", trial->net->calls.dereg(pair->recv_comm, in[i].mhandle)) !=
		    0)
		return -EIO;
	return 0;
}

int sxt_check_reg_any_range(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_memory out[RANGES] = {0};
	struct sxt_memory in[RANGES] = {0};
	struct sxt_memory whole;

	if (sxt_trial_open(trial) != 0 || sxt_pair_open(&pair, trial) != 0)
		return -EIO;
	whole = (struct sxt_memory){.data = pair.out.data + SXT_PAIR_HOME};
	if (trial->sends && reg_all(&pair, pair.send_comm, &whole, out) != 0)
		return -EIO;
	whole.data = pair.in.data + SXT_PAIR_HOME;
	if (trial->receives && reg_all(&pair, pair.recv_comm, &whole, in) != 0)
		return -EIO;
	/* What overlaps a range that is given back stays usable. */
	for (size_t i = 0; i < RANGES; i++) {
		if (move_range(&pair, i, out, in) != 0 ||
		    (i + 1 < RANGES && move_range(&pair, i + 1, out, in) != 0) ||
		    dereg_range(&pair, i, out, in) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}
