/*
 * huge.c - the check of a message of 3 GiB on a machine that need not have so much memory: each
 * quarter of the buffer is one small file, mapped many times side by side.
 */
#include "cli/driver/conform/pair.h"

#include "core/status.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIME_FACTOR   6
#define HUGE_BYTES    (3ull << 30)
#define QUARTERS      4
#define QUARTER_BYTES (HUGE_BYTES / QUARTERS)
#define FILE_BYTES    (16ull << 20) /* divides a quarter */

/* Puts one file over a quarter. Return: 0, or a negative errno. */
static int map_quarter(uint8_t *at)
{
	int fd = memfd_create("sextant-conform-huge", MFD_CLOEXEC);
	int rc = 0;

	if (fd < 0 || ftruncate(fd, (off_t)FILE_BYTES) != 0)
		rc = -errno;
	for (size_t offset = 0; rc == 0 && offset < QUARTER_BYTES; offset += FILE_BYTES) {
		if (mmap(at + offset, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 fd, 0) == MAP_FAILED)
			rc = -errno;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int map_huge(struct sxt_trial *trial, struct sxt_memory *out)
{
	uint8_t *data = mmap(NULL, HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc = data == MAP_FAILED ? -errno : 0;

	for (size_t i = 0; rc == 0 && i < QUARTERS; i++)
		rc = map_quarter(data + i * QUARTER_BYTES);
	if (rc != 0)
		return sxt_trial_skip(trial, "3 GiB cannot be mapped: %s", sxt_strerror(rc));
	*out = (struct sxt_memory){.data = data, .bytes = HUGE_BYTES};
	return 0;
}

/* A machine may not let so much be registered: that is no fault of the plugin's. */
static int reg_huge(struct sxt_pair *pair, void *comm, struct sxt_memory *memory)
{
	const struct sxt_drv_mem mem = {.data = memory->data,
					.bytes = memory->bytes,
					.type = NCCL_PTR_HOST};
	ncclResult_t result =
		SXT_TRY(pair->trial, "regMr",
			sxt_drv_net_reg(pair->trial->net, comm, &mem, &memory->mhandle));

	if (result == ncclSuccess)
		return 0;
	return sxt_trial_skip(pair->trial, "3 GiB do not fit: regMr() gives %s",
			      sxt_drv_result_name(result));
}

static int open_huge(struct sxt_pair *pair)
{
	struct sxt_trial *trial = pair->trial;
	int rc = 0;

	if (trial->sends)
		rc = map_huge(trial, &pair->out);
	if (rc == 0 && trial->sends)
		rc = reg_huge(pair, pair->send_comm, &pair->out);
	if (rc == 0 && trial->receives)
		rc = map_huge(trial, &pair->in);
	if (rc == 0 && trial->receives)
		rc = reg_huge(pair, pair->recv_comm, &pair->in);
	return rc;
}

/* Fills or clears one file of each quarter; the rest of the quarter is the same pages. */
static void prepare(struct sxt_pair *pair)
{
	for (uint32_t i = 0; i < QUARTERS; i++) {
		sxt_pair_fill(pair, i * QUARTER_BYTES, FILE_BYTES, i + 1);
		if (pair->trial->receives)
			memset(pair->in.data + i * QUARTER_BYTES, 0, FILE_BYTES);
	}
}

static int verify(struct sxt_pair *pair)
{
	for (uint32_t i = 0; i < QUARTERS && pair->trial->receives; i++) {
		const struct sxt_drv_msg msg = {.data = pair->in.data + i * QUARTER_BYTES};

		if (!sxt_pair_arrived(&msg, FILE_BYTES, i + 1))
			return sxt_trial_fail(pair->trial,
					      "of 3 GiB, what lies from %llu MiB to %llu MiB is "
					      "wrong",
					      i * QUARTER_BYTES >> 20,
					      (i + 1) * QUARTER_BYTES >> 20);
	}
	return 0;
}

int sxt_check_message_3gib(struct sxt_trial *trial)
{
	static struct sxt_pair pair;
	struct sxt_drv_msg in = {.bytes = HUGE_BYTES, .tag = SXT_PAIR_TAG};
	struct sxt_drv_msg out = {.bytes = HUGE_BYTES, .tag = SXT_PAIR_TAG};
	int rc;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	if (trial->props.max_p2p_bytes < HUGE_BYTES)
		return sxt_trial_skip(trial, "maxP2pBytes is %zu", trial->props.max_p2p_bytes);
	sxt_pair_init(&pair, trial);
	if (sxt_pair_listen(&pair) != 0 || sxt_pair_meet(&pair) != 0)
		return -EIO;
	sxt_trial_extend(trial, TIME_FACTOR);
	rc = open_huge(&pair);
	if (rc != 0)
		return rc;
	prepare(&pair);
	in.data = pair.in.data;
	in.mhandle = pair.in.mhandle;
	out.data = pair.out.data;
	out.mhandle = pair.out.mhandle;
	if (sxt_pair_recv(&pair, 1, &in) != 0 || sxt_trial_sync(trial) != 0 ||
	    sxt_pair_send(&pair, &out) != 0 || sxt_pair_wait(&pair) != 0 || verify(&pair) != 0)
		return -EIO;
	return sxt_pair_end(&pair);
}
