/*
 * test_fault.c - what goes wrong on the data path: what the caller is told, what the log says,
 * that the first error sticks, and that closing works from every state.
 */
#include "tests/unit/ib/pair.h"

#include "core/sys.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct pair));
	pair_open(*state, &pair_usual);
	return 0;
}

static int teardown(void **state)
{
	pair_close(*state);
	free(*state);
	return 0;
}

static int test_rc(struct sxt_request *request)
{
	bool done = false;
	int rc = sxt_test(request, &done, NULL);

	return rc != 0 ? rc : done ? 1 : 0;
}

/* The peer's orderly end as its CLOSE frame tells it. */
static void note_closed(struct sxt_conn *conn, struct sxt_conn *peer)
{
	sxt_conn_progress_get(peer, &conn->peer_progress);
	sxt_conn_note(conn, SXT_NOTE_PEER_CLOSED);
}

static void log_names(const char *word)
{
	if (strstr(pair_log(), word) == NULL)
		fail_msg("no \"%s\" in: %s", word, pair_log());
}

static void a_message_too_large_fails_the_connection(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(pair_recv(pair, 0, 100, 42, &recv), 0);
	assert_int_equal(pair_send(pair, 0, 101, 42, &send), -EMSGSIZE);
	assert_int_equal(pair_log_cnt(), 1);
	log_names("hostb:2");
	log_names("101 bytes, tag 42");
	log_names("100 bytes");
	assert_int_equal(pair_send(pair, 0, 8, 42, &send), -EMSGSIZE);
	assert_int_equal(pair_log_cnt(), 1);
	/* The peer hears of it by the side channel. */
	pair->recv->note_error = -EMSGSIZE;
	sxt_conn_note(pair->recv, SXT_NOTE_FAILED);
	assert_int_equal(test_rc(recv), -EMSGSIZE);
	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv), -EMSGSIZE);
	assert_int_equal(pair_log_cnt(), 1);
}

static void misuse_is_refused(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *request;
	struct sxt_conn *send;
	struct sxt_conn *recv;

	assert_int_equal(sxt_send(pair->recv, pair->from, 8, 0, pair->from_mr, &request), -EINVAL);
	log_names("other end");
	sxt_conn_destroy(pair->recv);
	sxt_conn_destroy(pair->send);
	pair_more(pair, &pair->send, &pair->recv);
	assert_int_equal(pair_recv(pair, 0, 8, 0, &request), 0);
	assert_int_equal(sxt_send(pair->send, pair->from, 8, 0, NULL, &request), -EINVAL);
	log_names("without a registration");
	pair_more(pair, &send, &recv);
	sxt_conn_destroy(pair->recv);
	sxt_conn_destroy(pair->send);
	pair->send = send;
	pair->recv = recv;
	static const int tags[9];

	assert_int_equal(pair_recv_group(pair, 0, 8, tags, &request), -EINVAL);
	log_names("receive of 0 messages");
}

static void a_receive_beyond_the_ports_is_refused(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *request;

	assert_int_equal(pair_recv(pair, 0, 65ull << 30, 0, &request), -EMSGSIZE);
	log_names("68719476736 each");
}

static void a_zero_byte_message_needs_no_registration(void **state)
{
	struct pair *pair = *state;
	void *data = NULL;
	uint64_t bytes = 0;
	int tag = 1;
	struct sxt_mr *mr = NULL;
	struct sxt_recv_spec spec = {
		.cnt = 1, .data = &data, .bytes = &bytes, .tags = &tag, .mrs = &mr};
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(sxt_recv(pair->recv, &spec, &recv), 0);
	assert_int_equal(sxt_send(pair->send, NULL, 0, 1, NULL, &send), 0);
	pair_done(send, NULL);
	pair_done(recv, NULL);
}

/* The first cause is told once, flushes are counted, and it waits for the peer's own words. */
static void a_completion_error_is_told_once(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv[4];
	struct sxt_request *send[4];
	int i;

	for (i = 0; i < 4; i++)
		assert_int_equal(pair_recv(pair, 0, 4096, i, &recv[i]), 0);
	sxt_fake_hold(pair->send->paths[0].qp, true);
	for (i = 0; i < 4; i++)
		assert_int_equal(pair_send(pair, 0, 1000, (uint32_t)i, &send[i]), 0);
	sxt_fake_deliver(pair->send->paths[0].qp, 1);
	sxt_fake_fail_next(pair->send->paths[0].qp, IBV_WC_RETRY_EXC_ERR, 129);
	sxt_fake_hold(pair->send->paths[0].qp, false);
	assert_int_equal(test_rc(send[1]), 0);
	assert_int_equal(pair_log_cnt(), 0);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send[0]), -EAGAIN);
	pair_advance(2 * SXT_NS_PER_SEC);
	assert_int_equal(test_rc(send[1]), -EREMOTEIO);
	assert_int_equal(test_rc(send[3]), -EREMOTEIO);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send[2]), -EREMOTEIO);
	assert_int_equal(pair_log_cnt(), 1);
	log_names("fake_0: sending to hostb:2");
	log_names("RDMA write of a message failed, 1000 bytes, tag 1");
	log_names("status 12, vendor 0x81");
	log_names("192.0.2.1 -> ");
	log_names("192.0.2.2");
	log_names("time-out 20, 7 retries (about 30.1 s)");
	log_names("it worked before");
	log_names("2 flushed");
	assert_int_equal(test_rc(send[0]), 1);
}

static void a_flush_before_its_cause_does_not_hide_it(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .vendor_err = 249};

	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	wc.wr_id = sxt_wr_id(pair->recv->paths, SXT_WR_CTS, 1);
	sxt_fake_push(pair->recv->paths[0].cq->cq, &wc);
	sxt_fake_push(pair->recv->paths[0].cq->cq, &wc);
	wc.status = IBV_WC_RETRY_EXC_ERR;
	wc.vendor_err = 129;
	sxt_fake_push(pair->recv->paths[0].cq->cq, &wc);
	wc.status = IBV_WC_WR_FLUSH_ERR;
	sxt_fake_push(pair->recv->paths[0].cq->cq, &wc);
	assert_int_equal(test_rc(recv), 0);
	pair_advance(2 * SXT_NS_PER_SEC);
	assert_int_equal(test_rc(recv), -EREMOTEIO);
	assert_int_equal(pair_log_cnt(), 1);
	log_names("clear-to-send");
	log_names("status 12");
	log_names("3 flushed");
	log_names("nothing ever got through");
}

/* What the caller hears of a write that fails with a status while its port went down before. */
static void fail_after_port(struct pair *pair, enum ibv_wc_status status, uint64_t ago_ns)
{
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	atomic_store(&pair->send->paths[0].port->lost_ns, pair->ib.sys->now_ns());
	pair_advance(ago_ns - SXT_NS_PER_SEC);
	sxt_fake_fail_next(pair->send->paths[0].qp, status, 0);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), 0);
	sxt_ignore(test_rc(send));
	pair_advance(SXT_NS_PER_SEC);
	assert_int_equal(test_rc(send), -EREMOTEIO);
}

static void a_port_that_went_down_explains_a_flush(void **state)
{
	fail_after_port(*state, IBV_WC_WR_FLUSH_ERR, 3 * SXT_NS_PER_SEC);
	log_names("port 1 of fake_0 went down 3.0 s before this");
}

static void a_port_that_went_down_explains_a_timeout(void **state)
{
	fail_after_port(*state, IBV_WC_RETRY_EXC_ERR, 31 * SXT_NS_PER_SEC);
	log_names("(about 30.1 s); port 1 of fake_0 went down 31.0 s before this");
}

static void a_port_that_went_down_long_ago_explains_nothing(void **state)
{
	fail_after_port(*state, IBV_WC_WR_FLUSH_ERR, 200 * SXT_NS_PER_SEC);
	log_names("failed without naming a cause");
}

static void a_local_error_is_told_at_once(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	sxt_fake_fail_next(pair->send->paths[0].qp, IBV_WC_LOC_PROT_ERR, 81);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), 0);
	assert_int_equal(test_rc(send), -EREMOTEIO);
	log_names("outside its registration");
	assert_null(strstr(pair_log(), "time-out"));
}

static void link_local_gid_hint(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	pair->send->paths[0].local.path.gid[0] = 0xfe;
	pair->send->paths[0].local.path.gid[1] = 0x80;
	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	sxt_fake_fail_next(pair->send->paths[0].qp, IBV_WC_RETRY_EXC_ERR, 129);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), 0);
	assert_int_equal(test_rc(send), 0);
	pair_advance(SXT_NS_PER_SEC);
	assert_int_equal(test_rc(send), -EREMOTEIO);
	log_names("link-local");
	log_names("NCCL_IB_GID_INDEX");
}

static void different_subnets_hint(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	pair->send->paths[0].peer.gid[14] = 77;
	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	sxt_fake_fail_next(pair->send->paths[0].qp, IBV_WC_RETRY_EXC_ERR, 129);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), 0);
	assert_int_equal(test_rc(send), 0);
	pair_advance(SXT_NS_PER_SEC);
	assert_int_equal(test_rc(send), -EREMOTEIO);
	log_names("different subnets");
}

static void the_peers_own_words_win_over_a_completion_error(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	sxt_fake_fail_next(pair->send->paths[0].qp, IBV_WC_REM_ACCESS_ERR, 136);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), 0);
	assert_int_equal(test_rc(send), 0);
	pair->send->note_error = -EMSGSIZE;
	sxt_conn_note(pair->send, SXT_NOTE_FAILED);
	assert_int_equal(test_rc(send), -EMSGSIZE);
	pair_advance(2 * SXT_NS_PER_SEC);
	assert_int_equal(test_rc(send), -EMSGSIZE);
	assert_int_equal(pair_log_cnt(), 0);
}

static void a_deregistered_target_is_named(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	sxt_mr_put(pair->recv, pair->to_mr);
	pair->to_mr = NULL;
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), 0);
	assert_int_equal(test_rc(send), 0);
	assert_int_equal(test_rc(recv), 0);
	pair_advance(SXT_NS_PER_SEC);
	assert_int_equal(test_rc(send), -EREMOTEIO);
	log_names("undid the registration");
	assert_int_equal(test_rc(recv), -EREMOTEIO);
	log_names("without naming a cause");
}

static void a_refused_post_fails_the_connection(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send = NULL;

	assert_int_equal(pair_recv(pair, 0, 8, 0, &recv), 0);
	sxt_fake_refuse_post(pair->send->paths[0].qp, EINVAL);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), -EREMOTEIO);
	assert_null(send);
	log_names("posting a message");
	log_names("Invalid argument");
	sxt_fake_refuse_post(pair->recv->paths[0].qp, ENOMEM);
	assert_int_equal(pair_recv(pair, 0, 8, 0, &send), -EREMOTEIO);
	log_names("posting a clear-to-send");
}

/* Four messages of a group, the last of which makes all of them go. */
static void group_send(struct pair *pair, struct sxt_request **recv, struct sxt_request **sends)
{
	static const int tags[4] = {0, 1, 2, 3};

	assert_int_equal(pair_recv_group(pair, 4, 64, tags, recv), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(pair_send(pair, 0, 10 + i, i, &sends[i]), 0);
}

/* Whichever write of a group fails, its data's or the record's. */
static void a_group_that_fails_is_booked_once(void **state)
{
	(void)state;
	for (int which = 0; which <= 4; which++) {
		struct sxt_request *sends[4];
		struct sxt_request *recv;
		struct pair pair;

		pair_open(&pair, &pair_usual);
		sxt_fake_hold(pair.send->paths[0].qp, true);
		group_send(&pair, &recv, sends);
		sxt_fake_deliver(pair.send->paths[0].qp, which);
		sxt_fake_fail_next(pair.send->paths[0].qp, IBV_WC_RETRY_EXC_ERR, 129);
		sxt_fake_hold(pair.send->paths[0].qp, false);
		assert_int_equal(test_rc(sends[3]), 0);
		pair_advance(2 * SXT_NS_PER_SEC);
		for (int i = 0; i < 4; i++)
			assert_int_equal(test_rc(sends[i]), -EREMOTEIO);
		log_names(which == 4 ? "13 bytes, tag 3" : "status 12");
		assert_int_equal(pair.send->paths[0].sq_used, 0);
		assert_true(sxt_conn_drain(pair.send, NULL));
		pair_close(&pair);
	}
}

/* What was posted of the group before still flushes, and closing waits for it. */
static void a_refused_group_fails_the_connection(void **state)
{
	static const int tags[2] = {0, 1};
	struct pair *pair = *state;
	struct sxt_request *sends[2] = {NULL, NULL};
	struct sxt_request *recv;

	assert_int_equal(pair_recv_group(pair, 2, SXT_GATHER_BYTES, tags, &recv), 0);
	sxt_fake_hold(pair->send->paths[0].qp, true);
	assert_int_equal(pair_send(pair, 0, SXT_GATHER_BYTES, 0, &sends[0]), 0);
	sxt_fake_refuse_post(pair->send->paths[0].qp, ENOMEM);
	assert_int_equal(pair_send(pair, 0, 8, 1, &sends[1]), -EREMOTEIO);
	assert_null(sends[1]);
	log_names("posting messages of a group");
	assert_int_equal(test_rc(sends[0]), -EREMOTEIO);
	sxt_fake_refuse_post(pair->send->paths[0].qp, 0);
	sxt_path_to_error(pair->send, &pair->send->paths[0]);
	assert_true(sxt_conn_drain(pair->send, NULL));
}

/* Messages of a group that were kept back stay here; also if the peer changes its mind. */
static void nothing_more_is_written_to_a_peer_that_closed(void **state)
{
	static const int tags[3] = {0, 1, 2};

	(void)state;
	for (int optional = 0; optional < 2; optional++) {
		struct sxt_fake_counts before;
		struct sxt_request *send;
		struct sxt_request *recv;
		struct pair pair;

		pair_open(&pair, &pair_usual);
		assert_int_equal(pair_recv_group(&pair, 3, 64, tags, &recv), 0);
		assert_int_equal(pair_send(&pair, 0, 8, 0, &send), 0);
		note_closed(pair.send, pair.recv);
		if (optional != 0)
			sxt_send_end(pair.send)->ring[1].size_high |= SXT_CTS_OPTIONAL;
		before = sxt_fake_counts();
		assert_int_equal(pair_send(&pair, 0, 8, 1, &send), -ECONNRESET);
		assert_int_equal(sxt_fake_counts().send_wrs, before.send_wrs);
		log_names("closed the connection");
		pair_close(&pair);
	}
}

static void bad_immediate(struct pair *pair, uint32_t imm, const char *word)
{
	struct ibv_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .imm_data = htonl(imm)};
	struct sxt_conn *send;
	struct sxt_conn *recv;
	struct sxt_request *request;

	pair_more(pair, &send, &recv);
	wc.wr_id = sxt_wr_id(recv->paths, SXT_WR_RECV, 0);
	sxt_fake_push(recv->paths[0].cq->cq, &wc);
	/* Any connection of the context drains for all. */
	assert_int_equal(pair_recv(pair, 0, 8, 0, &request), 0);
	pair_waits(request);
	assert_int_equal(recv->error, -EPROTO);
	log_names(word);
	assert_int_equal(pair_send(pair, 0, 8, 0, &request), 0);
	pair_done(request, NULL);
	recv->paths[0].rq_posted++;
	sxt_conn_destroy(send);
	sxt_conn_destroy(recv);
}

static void immediates_nobody_asked_for_fail_the_connection(void **state)
{
	struct pair *pair = *state;

	bad_immediate(pair, 5u << SXT_IMM_HANDLE_SHIFT | SXT_IMM_LAST, "no receive with this");
	bad_immediate(pair, 999u << SXT_IMM_HANDLE_SHIFT | SXT_IMM_LAST, "handle 999");
}

static uint32_t imm_of(const struct sxt_conn *conn, uint32_t handle, uint32_t generation_add)
{
	const struct sxt_request *request =
		&((const struct sxt_recv_end *)conn)->requests[handle / SXT_RECVS_MAX];

	return handle << SXT_IMM_HANDLE_SHIFT |
	       (sxt_request_generation(request) + generation_add) % SXT_IMM_GENERATIONS
		       << SXT_IMM_GEN_SHIFT;
}

static void wrong_immediate(struct pair *pair, uint32_t generation_add, uint32_t rest,
			    const char *word)
{
	struct ibv_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = 8};
	struct sxt_request *request;

	assert_int_equal(pair_recv(pair, 0, 8, 0, &request), 0);
	wc.wr_id = sxt_wr_id(pair->recv->paths, SXT_WR_RECV, 0);
	wc.imm_data = htonl(imm_of(pair->recv, 0, generation_add) | rest);
	sxt_fake_push(pair->recv->paths[0].cq->cq, &wc);
	assert_int_equal(test_rc(request), -EPROTO);
	log_names(word);
	pair->recv->paths[0].rq_posted++;
}

static void an_old_generation_fails_the_connection(void **state)
{
	wrong_immediate(*state, 1, SXT_IMM_LAST, "earlier use");
}

static void a_chunk_not_granted_fails_the_connection(void **state)
{
	wrong_immediate(*state, 0, 1u << SXT_IMM_INDEX_SHIFT | SXT_IMM_LAST, "not granted");
}

static void a_stale_record_fails_the_connection(void **state)
{
	wrong_immediate(*state, 0, SXT_IMM_RECORD | SXT_IMM_LAST, "size record");
}

static void a_senseless_entry_fails_the_connection(void **state)
{
	struct pair *pair = *state;
	struct sxt_send_end *end = sxt_send_end(pair->send);
	struct sxt_request *send;

	end->ring[0].group = 9;
	end->ring[0].addr_lap = sxt_cts_lap(0);
	end->ring[0].sequence = 1;
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), -EPROTO);
	log_names("clear-to-send 1 makes no sense: group 0x9");
}

/* A software device may copy a line from its end: the sequence is there, the rest is not. */
static void half_an_entry_is_not_there_yet(void **state)
{
	struct pair *pair = *state;
	struct sxt_send_end *end = sxt_send_end(pair->send);
	struct sxt_request *send;

	end->ring[0].sequence = 1;
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), -EAGAIN);
	assert_int_equal(pair->send->error, 0);
	end->ring[0].addr_lap = sxt_cts_lap(SXT_RING_ENTRIES); /* of another lap */
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), -EAGAIN);
	assert_int_not_equal(sxt_cts_lap(0), 0);
	assert_int_not_equal(sxt_cts_lap(255 * 256), sxt_cts_lap(256 * 256));
}

static void completions_of_the_closed_are_dropped(void **state)
{
	struct pair *pair = *state;
	struct sxt_conn *send;
	struct sxt_conn *recv;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RDMA_WRITE};
	struct sxt_request *request;
	uint64_t old_id;

	pair_more(pair, &send, &recv);
	old_id = sxt_wr_id(send->paths, SXT_WR_SEND, 3);
	sxt_conn_destroy(send);
	sxt_conn_destroy(recv);
	/* Once while the slot is empty, once while another connection has it. */
	wc.wr_id = old_id;
	sxt_fake_push(pair->send->paths[0].cq->cq, &wc);
	wc.status = IBV_WC_RETRY_EXC_ERR;
	sxt_fake_push(pair->send->paths[0].cq->cq, &wc);
	sxt_ignore(sxt_data_drain_all(pair->send));
	assert_int_equal(pair->send_ctx->stale_completions_cnt, 2);
	pair_more(pair, &send, &recv);
	assert_int_equal(send->slot, old_id >> SXT_WR_SLOT_SHIFT & SXT_WR_SLOT_MASK);
	sxt_fake_push(pair->send->paths[0].cq->cq, &wc);
	assert_int_equal(pair_recv(pair, 0, 8, 0, &request), 0);
	assert_int_equal(pair_send(pair, 0, 8, 0, &request), 0);
	pair_done(request, NULL);
	assert_int_equal(pair->send_ctx->stale_completions_cnt, 3);
	assert_int_equal(send->error, 0);
	sxt_conn_destroy(send);
	sxt_conn_destroy(recv);
}

/* A thread that gets the processor once a second. */
static uint64_t now_ns_of_late;

static uint64_t clock_of_late(void)
{
	now_ns_of_late += SXT_NS_PER_SEC;
	return now_ns_of_late;
}

static int poll_nothing(struct ibv_cq *cq, int cnt, struct ibv_wc *wcs)
{
	(void)cq;
	(void)cnt;
	(void)wcs;
	return 0;
}

static void a_late_thread_takes_what_was_flushed(void **state)
{
	struct pair *pair = *state;
	const struct sxt_sys *usual = pair->ib.sys;
	struct sxt_sys late = *usual;
	struct sxt_conn *send;
	struct sxt_conn *recv;
	uint32_t reserved = pair->recv->paths[0].cq->reserved;

	pair_more(pair, &send, &recv);
	late.now_ns = clock_of_late;
	pair->ib.sys = &late;
	sxt_conn_destroy(send);
	sxt_conn_destroy(recv);
	pair->ib.sys = usual;
	assert_int_equal(sxt_data_drain_all(pair->recv), 0);
	assert_int_equal(pair->recv->paths[0].cq->reserved, reserved);
}

static void room_stays_taken_while_completions_may_come(void **state)
{
	struct pair *pair = *state;
	const struct sxt_sys *usual = pair->ib.sys;
	struct sxt_sys late = *usual;
	struct sxt_conn *send;
	struct sxt_conn *recv;
	uint32_t reserved;
	struct ibv_context *context;

	pair_more(pair, &send, &recv);
	assert_ptr_equal(recv->paths[0].cq, pair->recv->paths[0].cq);
	reserved = recv->paths[0].cq->reserved;
	context = recv->paths[0].qp->context;
	late.now_ns = clock_of_late;
	pair->ib.sys = &late;
	context->ops.poll_cq = poll_nothing;
	sxt_conn_destroy(recv);
	pair->ib.sys = usual;
	context->ops.poll_cq = pair->send->paths[0].qp->context->ops.poll_cq;
	assert_int_equal(pair->recv->paths[0].cq->reserved, reserved);
	sxt_conn_destroy(send);
}

static void closing_with_requests_in_flight_leaves_nothing(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *request;
	uint64_t polls;
	int i;

	sxt_fake_hold(pair->send->paths[0].qp, true);
	for (i = 0; i < 20; i++) {
		assert_int_equal(pair_recv(pair, 0, 4096, i, &request), 0);
		if (i < 10)
			assert_int_equal(pair_send(pair, 0, 4096, (uint32_t)i, &request), 0);
	}
	sxt_fake_hold(pair->recv->paths[0].qp, true);
	assert_int_equal(pair_recv(pair, 0, 4096, i, &request), 0);
	polls = sxt_fake_counts().polls;
	sxt_conn_destroy(pair->send);
	pair->send = NULL;
	sxt_conn_destroy(pair->recv);
	pair->recv = NULL;
	assert_int_equal(pair_log_cnt(), 0);
	/* It saw everything flushed, and did not wait for the limit. */
	assert_in_range(sxt_fake_counts().polls - polls, 1, 100);
}

static void every_chunk_flushed_is_booked_once(void **state)
{
	struct sxt_fake_config config = pair_usual;
	struct pair pair;
	struct sxt_request *recv[3];
	struct sxt_request *send[3];
	int i;

	(void)state;
	config.max_msg_bytes = 1024;
	pair_open(&pair, &config);
	sxt_fake_hold(pair.send->paths[0].qp, true);
	for (i = 0; i < 3; i++) {
		assert_int_equal(pair_recv(&pair, 0, 10 * 1024, i, &recv[i]), 0);
		assert_int_equal(pair_send(&pair, 0, 10 * 1024, (uint32_t)i, &send[i]), 0);
	}
	assert_int_equal(sxt_fake_deliver(pair.send->paths[0].qp, 13), 13);
	assert_int_equal(test_rc(send[0]), 1);
	assert_int_equal(test_rc(recv[0]), 1);
	sxt_fake_fail_next(pair.send->paths[0].qp, IBV_WC_RETRY_EXC_ERR, 129);
	sxt_fake_hold(pair.send->paths[0].qp, false);
	assert_int_equal(test_rc(send[1]), 0);
	assert_int_equal(pair.send->paths[0].sq_used, 0);
	pair_advance(SXT_NS_PER_SEC);
	assert_int_equal(test_rc(send[2]), -EREMOTEIO);
	log_names("10240 bytes, tag 1");
	log_names("16 flushed");
	assert_int_equal(test_rc(recv[1]), 0);
	pair_close(&pair);
}

static void *note_later(void *arg)
{
	struct sxt_conn *conn = arg;

	conn->note_error = -ETIMEDOUT;
	sxt_conn_note(conn, SXT_NOTE_FAILED);
	return NULL;
}

/* The watcher's thread leaves a note while this one works; it may not stop in between. */
static void a_note_reaches_a_thread_at_work(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;
	pthread_t thread;
	int rc = 0;

	assert_int_equal(pthread_create(&thread, NULL, note_later, pair->send), 0);
	while (rc == 0) {
		rc = pair_recv(pair, 0, 8, 0, &recv);
		if (rc == 0)
			rc = pair_send(pair, 0, 8, 0, &send);
		if (rc == 0) {
			pair_done(recv, NULL);
			rc = test_rc(send) < 0 ? -ETIMEDOUT : 0;
		}
	}
	pthread_join(thread, NULL);
	assert_int_equal(rc, -ETIMEDOUT);
	assert_int_equal(pair_send(pair, 0, 8, 0, &send), -ETIMEDOUT);
}

static void a_half_made_end_is_freed(void **state)
{
	struct pair *pair = *state;
	struct sxt_conn *conn;

	assert_int_equal(sxt_conn_create(pair->send_ctx, pair->ib.nics[0], SXT_CONN_SEND, 1, &conn),
			 0);
	sxt_conn_destroy(conn);
	assert_int_equal(sxt_conn_create(pair->send_ctx, pair->ib.nics[0], SXT_CONN_RECV, 1, &conn),
			 0);
	sxt_conn_destroy(conn);
	sxt_conn_destroy(NULL);
}

static void a_peer_that_makes_no_sense_is_refused(void **state)
{
	struct pair *pair = *state;
	struct sxt_wire_memory memory;
	struct sxt_wire_path path = pair->recv->paths[0].local.path;
	struct sxt_conn *conn;

	assert_int_equal(sxt_conn_create(pair->send_ctx, pair->ib.nics[0], SXT_CONN_SEND, 1, &conn),
			 0);
	assert_int_equal(pair_paths_make(conn), 0);
	sxt_conn_memory(pair->recv, &memory);
	memory.bytes--;
	assert_int_equal(sxt_conn_start(conn, &path, &memory), -EPROTO);
	memory.bytes++;
	memory.rkeys_cnt = 0;
	assert_int_equal(sxt_conn_start(conn, &path, &memory), -EPROTO);
	memory.rkeys_cnt = 1;
	path.place = 1;
	assert_int_equal(sxt_conn_start(conn, &path, &memory), -EPROTO);
	path.place = 0;
	path.max_message_log2 = 6;
	assert_int_equal(sxt_conn_start(conn, &path, &memory), -EPROTO);
	sxt_conn_destroy(conn);
}

/* The receiver's process ends at once after its last receive was done; acknowledgements stay out.
 */
static void what_the_peer_took_counts_as_delivered(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv[2];
	struct sxt_request *send[3];

	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv[0]), 0);
	assert_int_equal(pair_recv_optional(pair, 0, 8, 2, &recv[1]), 0);
	sxt_fake_hold_acks(pair->send->paths[0].qp, true);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send[0]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 2, &send[1]), 0);
	pair_done(recv[0], NULL);
	pair_done(recv[1], NULL);
	assert_int_equal(pair_recv_optional(pair, 0, 8, 3, &recv[1]), 0);
	pair_done(recv[1], NULL);
	note_closed(pair->send, pair->recv);
	sxt_conn_destroy(pair->recv);
	pair->recv = NULL;
	pair_done(send[0], NULL);
	pair_done(send[1], NULL);
	/* A clear-to-send that is still there for a message nobody waits for. */
	assert_int_equal(pair_send(pair, 0, 8, 3, &send[2]), 0);
	pair_done(send[2], NULL);
	assert_int_equal(pair_log_cnt(), 0);
	/* And nothing more. */
	assert_int_equal(pair_send(pair, 0, 8, 4, &send[2]), -ECONNRESET);
	log_names("closed the connection");
	assert_int_equal(pair_log_cnt(), 1);
}

/* The error of a queue pair that went away comes before the CLOSE that explains it. */
static void an_error_before_the_close_is_forgiven(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;
	struct sxt_wire_progress progress;

	assert_int_equal(pair_recv_optional(pair, 0, 8, 2, &recv), 0);
	pair_done(recv, NULL);
	sxt_conn_progress_get(pair->recv, &progress);
	sxt_conn_destroy(pair->recv);
	pair->recv = NULL;
	assert_int_equal(pair_send(pair, 0, 8, 2, &send), 0);
	pair_waits(send);
	pair_waits(send);
	pair->send->peer_progress = progress;
	sxt_conn_note(pair->send, SXT_NOTE_PEER_CLOSED);
	pair_done(send, NULL);
	assert_int_equal(pair_log_cnt(), 0);
}

static void what_the_peer_did_not_take_is_lost(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;
	struct sxt_request *send;

	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv), 0);
	sxt_fake_hold(pair->send->paths[0].qp, true);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send), 0);
	note_closed(pair->send, pair->recv);
	sxt_conn_destroy(pair->recv);
	pair->recv = NULL;
	assert_int_equal(test_rc(send), -ECONNRESET);
	log_names("8 bytes, tag 1");
	assert_int_equal(test_rc(send), -ECONNRESET);
	assert_int_equal(pair_log_cnt(), 1);
}

static void a_receiver_hears_of_a_sender_that_closed(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv[3];
	struct sxt_request *send[2];

	assert_int_equal(pair_recv_optional(pair, 0, 8, 1, &recv[0]), 0);
	pair_done(recv[0], NULL);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send[0]), 0);
	pair_done(send[0], NULL);
	/* Entry written and used, but its acknowledgement never came. */
	sxt_fake_hold_acks(pair->recv->paths[0].qp, true);
	assert_int_equal(pair_recv_optional(pair, 0, 8, 2, &recv[0]), 0);
	assert_int_equal(pair_recv(pair, 0, 8, 3, &recv[1]), 0);
	assert_int_equal(pair_recv(pair, 0, 8, 4, &recv[2]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 2, &send[0]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 3, &send[1]), 0);
	pair_done(send[0], NULL);
	pair_done(send[1], NULL);
	note_closed(pair->recv, pair->send);
	sxt_conn_destroy(pair->send);
	pair->send = NULL;
	pair_done(recv[0], NULL);
	pair_done(recv[1], NULL);
	assert_int_equal(pair_log_cnt(), 0);
	assert_int_equal(test_rc(recv[2]), -ECONNRESET);
	log_names("after 1 messages");
}

static void a_receive_after_the_close_fails(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;

	note_closed(pair->recv, pair->send);
	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv), -ECONNRESET);
	log_names("no message will come");
}

static void progress_counts_both_ends(void **state)
{
	struct pair *pair = *state;
	struct sxt_wire_progress progress;
	struct sxt_request *recv[2];
	struct sxt_request *send[2];

	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv[0]), 0);
	assert_int_equal(pair_recv(pair, 0, 8, 2, &recv[1]), 0);
	assert_int_equal(pair_send(pair, 0, 8, 1, &send[0]), 0);
	pair_done(send[0], NULL);
	sxt_fake_hold(pair->send->paths[0].qp, true);
	assert_int_equal(pair_send(pair, 0, 8, 2, &send[1]), 0);
	pair_done(recv[0], NULL);
	sxt_conn_progress_get(pair->send, &progress);
	assert_int_equal(progress.cts_posted, 2);
	assert_int_equal(progress.messages_taken, 1);
	sxt_conn_progress_get(pair->recv, &progress);
	assert_int_equal(progress.cts_posted, 2);
	assert_int_equal(progress.messages_taken, 1);
}

static void a_queue_pair_that_broke_by_itself_is_told(void **state)
{
	struct pair *pair = *state;
	struct sxt_request *recv;

	assert_int_equal(pair_recv(pair, 0, 8, 1, &recv), 0);
	sxt_fake_break_qp(pair->recv->paths[0].qp);
	assert_int_equal(test_rc(recv), 0);
	pair_advance(SXT_NS_PER_SEC);
	/* 288 flushes take more than one drain. */
	assert_int_equal(test_rc(recv), -EREMOTEIO);
	log_names("without naming a cause");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_message_too_large_fails_the_connection),
		TEST(misuse_is_refused),
		TEST(a_receive_beyond_the_ports_is_refused),
		TEST(a_zero_byte_message_needs_no_registration),
		TEST(a_completion_error_is_told_once),
		TEST(a_flush_before_its_cause_does_not_hide_it),
		TEST(a_port_that_went_down_explains_a_flush),
		TEST(a_port_that_went_down_explains_a_timeout),
		TEST(a_port_that_went_down_long_ago_explains_nothing),
		TEST(a_local_error_is_told_at_once),
		TEST(link_local_gid_hint),
		TEST(different_subnets_hint),
		TEST(the_peers_own_words_win_over_a_completion_error),
		TEST(a_deregistered_target_is_named),
		TEST(a_refused_post_fails_the_connection),
		cmocka_unit_test(a_group_that_fails_is_booked_once),
		TEST(a_refused_group_fails_the_connection),
		cmocka_unit_test(nothing_more_is_written_to_a_peer_that_closed),
		TEST(immediates_nobody_asked_for_fail_the_connection),
		TEST(an_old_generation_fails_the_connection),
		TEST(a_chunk_not_granted_fails_the_connection),
		TEST(a_stale_record_fails_the_connection),
		TEST(a_senseless_entry_fails_the_connection),
		TEST(half_an_entry_is_not_there_yet),
		TEST(completions_of_the_closed_are_dropped),
		TEST(a_late_thread_takes_what_was_flushed),
		TEST(room_stays_taken_while_completions_may_come),
		TEST(closing_with_requests_in_flight_leaves_nothing),
		cmocka_unit_test(every_chunk_flushed_is_booked_once),
		TEST(a_note_reaches_a_thread_at_work),
		TEST(a_half_made_end_is_freed),
		TEST(a_peer_that_makes_no_sense_is_refused),
		TEST(what_the_peer_took_counts_as_delivered),
		TEST(an_error_before_the_close_is_forgiven),
		TEST(what_the_peer_did_not_take_is_lost),
		TEST(a_receiver_hears_of_a_sender_that_closed),
		TEST(a_receive_after_the_close_fails),
		TEST(progress_counts_both_ends),
		TEST(a_queue_pair_that_broke_by_itself_is_told),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
