/*
 * pair.c - how the two ends of a connection are made and closed, and their memory.
 */
#include "cli/driver/conform/pair.h"

#include "core/status.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void sxt_pair_init(struct sxt_pair *pair, struct sxt_trial *trial)
{
	memset(pair, 0, sizeof(*pair));
	pair->trial = trial;
	pair->ctx = trial->ctx;
	pair->dev = trial->dev;
}

int sxt_pair_listen(struct sxt_pair *pair)
{
	struct sxt_trial *trial = pair->trial;

	if (trial->receives) {
		if (SXT_CALL(trial, "listen",
			     sxt_drv_net_listen(trial->net, pair->ctx, pair->dev, pair->handle,
						&pair->listen_comm)) != 0)
			return -EIO;
		if (pair->listen_comm == NULL)
			return sxt_trial_fail(trial, "listen() gives success and no listen comm");
	}
	return sxt_trial_swap(trial, pair->handle, sizeof(pair->handle));
}

int sxt_pair_poll_connect(struct sxt_pair *pair)
{
	if (!pair->trial->sends || pair->send_comm != NULL)
		return 0;
	return SXT_CALL(pair->trial, "connect",
			sxt_drv_net_connect(pair->trial->net, pair->ctx, pair->dev, pair->handle,
					    &pair->send_comm));
}

int sxt_pair_poll_accept(struct sxt_pair *pair)
{
	if (!pair->trial->receives || pair->recv_comm != NULL)
		return 0;
	return SXT_CALL(pair->trial, "accept",
			sxt_drv_net_accept(pair->trial->net, pair->listen_comm, &pair->recv_comm));
}

static bool is_met(const struct sxt_pair *pair)
{
	return (!pair->trial->sends || pair->send_comm != NULL) &&
	       (!pair->trial->receives || pair->recv_comm != NULL);
}

int sxt_pair_meet(struct sxt_pair *pair)
{
	while (!is_met(pair)) {
		if (sxt_pair_poll_connect(pair) != 0 || sxt_pair_poll_accept(pair) != 0)
			return -EIO;
		if (is_met(pair))
			break;
		if (sxt_trial_pause(pair->trial, pair->trial->sends && pair->send_comm == NULL
							 ? "connect() gives no comm"
							 : "accept() gives no comm") != 0)
			return -EIO;
	}
	return 0;
}

int sxt_memory_map(struct sxt_trial *trial, size_t bytes, struct sxt_memory *out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("sextant-conform", MFD_CLOEXEC);
	void *data = MAP_FAILED;

	bytes = (bytes + page - 1) / page * page;
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (data == MAP_FAILED)
		return sxt_trial_fail(trial, "no memory for a buffer of %zu bytes: %s", bytes,
				      sxt_strerror(errno));
	*out = (struct sxt_memory){.data = data, .bytes = bytes};
	return 0;
}

int sxt_pair_reg(struct sxt_pair *pair, void *comm, struct sxt_memory *memory)
{
	const struct sxt_drv_mem mem = {
		.data = memory->data,
		.bytes = memory->bytes,
		.type = NCCL_PTR_HOST,
	};

	return SXT_CALL(pair->trial, "regMr",
			sxt_drv_net_reg(pair->trial->net, comm, &mem, &memory->mhandle));
}

int sxt_pair_buffers(struct sxt_pair *pair, size_t bytes)
{
	struct sxt_trial *trial = pair->trial;

	if (trial->sends && (sxt_memory_map(trial, bytes, &pair->out) != 0 ||
			     sxt_pair_reg(pair, pair->send_comm, &pair->out) != 0))
		return -EIO;
	if (trial->receives && (sxt_memory_map(trial, bytes, &pair->in) != 0 ||
				sxt_pair_reg(pair, pair->recv_comm, &pair->in) != 0))
		return -EIO;
	return 0;
}

int sxt_pair_open(struct sxt_pair *pair, struct sxt_trial *trial)
{
	sxt_pair_init(pair, trial);
	if (sxt_pair_listen(pair) != 0 || sxt_pair_meet(pair) != 0)
		return -EIO;
	return sxt_pair_buffers(pair, SXT_PAIR_BYTES);
}

static int release(struct sxt_pair *pair, void *comm, struct sxt_memory *memory)
{
	if (memory->data == NULL)
		return 0;
	if (SXT_CALL(pair->trial, "deregMr",
		     pair->trial->net->calls.dereg(comm, memory->mhandle)) != 0)
		return -EIO;
	return 0;
}

static void unmap(struct sxt_memory *memory)
{
	if (memory->data != NULL)
		munmap(memory->data, memory->bytes);
	*memory = (struct sxt_memory){0};
}

int sxt_pair_close_send(struct sxt_pair *pair)
{
	struct sxt_trial *trial = pair->trial;

	if (pair->send_comm == NULL)
		return 0;
	if (release(pair, pair->send_comm, &pair->out) != 0 ||
	    SXT_CALL(trial, "closeSend", trial->net->calls.close_send(pair->send_comm)) != 0)
		return -EIO;
	pair->send_comm = NULL;
	unmap(&pair->out);
	return 0;
}

int sxt_pair_close_recv(struct sxt_pair *pair)
{
	struct sxt_trial *trial = pair->trial;

	if (pair->recv_comm == NULL)
		return 0;
	if (release(pair, pair->recv_comm, &pair->in) != 0 ||
	    SXT_CALL(trial, "closeRecv", trial->net->calls.close_recv(pair->recv_comm)) != 0)
		return -EIO;
	pair->recv_comm = NULL;
	unmap(&pair->in);
	return 0;
}

int sxt_pair_close(struct sxt_pair *pair)
{
	struct sxt_trial *trial = pair->trial;

	if (sxt_pair_close_send(pair) != 0 || sxt_pair_close_recv(pair) != 0)
		return -EIO;
	if (pair->listen_comm != NULL &&
	    SXT_CALL(trial, "closeListen", trial->net->calls.close_listen(pair->listen_comm)) != 0)
		return -EIO;
	pair->listen_comm = NULL;
	return 0;
}
