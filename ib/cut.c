/*
 * cut.c - messages of more than one write: how they are cut, and the chain that each path gets.
 *
 * Thread: NCCL's data path, under the owner word. Never waits, allocates, logs or calls the system.
 */
#include "ib/send.h"

/* How a message is cut: chunk i of size bytes goes over the i-th of its paths, round and round. */
struct cut {
	uint64_t size;   /* of a chunk, a multiple of 128: LL and LL128 need whole lines */
	uint32_t chunks; /* the last one may be shorter */
	uint32_t paths;
	bool record; /* each path's immediate comes with a size record of its own, behind the data
		      */
};

static uint32_t smaller(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* Even shares, no more paths than have something to carry or the receiver has granted. */
static int cut_make(struct sxt_send_end *end, const struct sxt_message *message, struct cut *out)
{
	bool imm = (message->cts->size_high & SXT_CTS_WANT_IMM) != 0;
	uint64_t least = (message->bytes - 1) / end->chunk_bytes + 1;
	uint32_t most = imm ? message->cts->max_chunks : SXT_CONN_CHUNKS_MAX;
	uint64_t chunks;

	out->record = imm && message->bytes > end->ar_bytes;
	if (most == 0 || least > SXT_CONN_CHUNKS_MAX || (least > most && !out->record))
		return sxt_send_bad_cts(end, message->cts);
	out->paths = smaller((message->bytes - 1) / end->stripe_bytes + 1, end->stripes);
	out->paths = smaller(out->paths, most);
	chunks = (least + out->paths - 1) / out->paths * out->paths;
	if (chunks > SXT_CONN_CHUNKS_MAX || (chunks > most && !out->record))
		chunks = least;
	out->size = ((message->bytes - 1) / chunks + 1 + 127) & ~127ull;
	out->chunks = (uint32_t)((message->bytes - 1) / out->size) + 1;
	out->paths = smaller(out->chunks, out->paths);
	return 0;
}

/* Work requests of a cut's i-th path. */
static uint32_t stripe_wrs(const struct cut *cut, uint32_t i)
{
	return (cut->chunks - i + cut->paths - 1) / cut->paths + (cut->record ? 1 : 0);
}

/* The size record that says how much came before it on this path, and in all. */
static void record_make(struct sxt_send_end *end, const struct sxt_message *message,
			const struct sxt_path *path, struct ibv_send_wr *wr)
{
	uint64_t *record = &end->records[end->conn.free_requests->index];

	*record = sxt_send_record(message);
	*wr->sg_list = (struct ibv_sge){(uintptr_t)record, sizeof(*record), path->lkey};
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->send_flags = end->inline_bytes >= sizeof(*record) ? IBV_SEND_INLINE : 0;
	wr->wr.rdma.remote_addr = end->records_addr + message->cts->handle * sizeof(*record);
	wr->wr.rdma.rkey = path->rkey;
}

static void chunk_make(const struct sxt_message *message, const struct sxt_path *path,
		       const struct cut *cut, uint32_t chunk, struct ibv_send_wr *wr)
{
	bool imm = (message->cts->size_high & SXT_CTS_WANT_IMM) != 0 && !cut->record;
	uint64_t offset = chunk * cut->size;

	*wr->sg_list = (struct ibv_sge){
		.addr = message->addr + offset,
		.length = smaller(message->bytes - offset, (uint32_t)cut->size),
		.lkey = message->mr->lkeys[path->local_place],
	};
	wr->num_sge = 1;
	wr->opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	wr->send_flags = 0;
	wr->wr.rdma.remote_addr = (message->cts->addr_lap & SXT_CTS_ADDR_MASK) + offset;
	wr->wr.rdma.rkey = message->cts->rkeys[path->peer_place];
	wr->imm_data = sxt_send_immediate(message->cts, chunk,
					  chunk == cut->chunks - 1 ? SXT_IMM_LAST : 0);
}

/*
 * A chain under one doorbell for one path. Only its last write is signaled: a queue pair completes
 * in order, so it speaks for all before it.
 */
static int post_stripe(struct sxt_send_end *end, const struct sxt_message *message,
		       const struct cut *cut, uint32_t stripe)
{
	struct sxt_path *path = sxt_conn_path(&end->conn, message->position + stripe);
	struct ibv_send_wr wrs[SXT_CONN_CHUNKS_MAX + 1];
	struct ibv_sge sges[SXT_CONN_CHUNKS_MAX + 1];
	uint32_t cnt = stripe_wrs(cut, stripe);
	uint32_t index = sxt_wr_send_index(end->conn.free_requests->index, cnt);
	struct ibv_send_wr *bad;
	uint32_t i;
	int rc;

	for (i = 0; i < cnt; i++) {
		uint32_t chunk = stripe + i * cut->paths;

		wrs[i].wr_id = sxt_wr_id(path, SXT_WR_CHUNK, index);
		wrs[i].next = &wrs[i + 1];
		wrs[i].sg_list = &sges[i];
		if (chunk < cut->chunks)
			chunk_make(message, path, cut, chunk, &wrs[i]);
		else
			record_make(end, message, path, &wrs[i]);
	}
	if (cut->record)
		wrs[cnt - 1].imm_data =
			sxt_send_immediate(message->cts, stripe,
					   SXT_IMM_RECORD |
						   (stripe == cut->paths - 1 ? SXT_IMM_LAST : 0));
	wrs[cnt - 1].wr_id = sxt_wr_id(path, SXT_WR_SEND, index);
	wrs[cnt - 1].next = NULL;
	wrs[cnt - 1].send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(path->qp, wrs, &bad);
	if (rc != 0)
		return sxt_conn_post_failed(&end->conn, path, rc, "a message");
	path->sq_used += cnt;
	return 0;
}

/* More than one write. Nothing is posted before there is room for all of it. */
int sxt_send_cut(struct sxt_send_end *end, const struct sxt_message *message)
{
	struct cut cut = {0}; /* gcc at -O2 does not see that it is written where it is used */
	struct sxt_request *request = end->conn.free_requests;
	uint32_t i;
	int rc = cut_make(end, message, &cut);

	for (i = 0; rc == 0 && i < cut.paths; i++)
		rc = sxt_send_room(end, sxt_conn_path(&end->conn, message->position + i),
				   stripe_wrs(&cut, i));
	if (rc != 0)
		return rc;
	sxt_send_use_member(end, message->place);
	for (i = 0; rc == 0 && i < cut.paths; i++)
		rc = post_stripe(end, message, &cut, i);
	if (rc != 0)
		return rc;
	sxt_send_request_start(end, message);
	end->imms += request->flags & SXT_REQ_IMM;
	request->open = (uint8_t)cut.paths;
	if (cut.paths > 1)
		request->flags |= SXT_REQ_STRIPED;
	return 0;
}
