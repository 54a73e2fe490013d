/*
 * pair.c - the fixture of pair.h.
 */
#include "tests/unit/ib/pair.h"

#include "core/log.h"
#include "core/sys.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct sxt_fake_config pair_usual = {
	.devices_cnt = 2,
	.inline_bytes = 64,
	.max_msg_bytes = 1u << 30,
	.max_cqe = 1 << 18,
};

static uint64_t clock_ns;
static char log_line[1024];
static int log_cnt;
static struct sxt_sys sys;

static uint64_t clock_read(void)
{
	return clock_ns;
}

static void log_take(enum sxt_log_level level, const char *file, int line, const char *text)
{
	(void)file;
	(void)line;
	if (level != SXT_LOG_ERROR)
		return;
	sxt_ignore(snprintf(log_line, sizeof(log_line), "%s", text));
	log_cnt++;
}

void pair_advance(uint64_t ns)
{
	clock_ns += ns;
}

const char *pair_log(void)
{
	return log_line;
}

int pair_log_cnt(void)
{
	return log_cnt;
}

int pair_paths_make(struct sxt_conn *conn)
{
	struct sxt_port_address local;
	uint32_t cnt;
	int rc = 0;

	for (uint32_t i = 0; i < conn->paths_cnt && rc == 0; i++) {
		uint32_t place = i % conn->nic->ports_cnt;

		rc = sxt_port_candidates(conn->nic->ports[place], &local, 1, &cnt);
		if (rc == 0)
			rc = sxt_path_create(conn, i, place, &local.place);
	}
	return rc;
}

void pair_more(struct pair *pair, struct sxt_conn **send_out, struct sxt_conn **recv_out)
{
	struct sxt_wire_memory ring;
	struct sxt_wire_memory records;
	struct sxt_conn *send;
	struct sxt_conn *recv;

	struct sxt_wire_path peers[SXT_PATHS_MAX];
	uint32_t cnt = sxt_conn_paths_cnt(pair->ib.nics[0], pair->ib.nics[1]->ports_cnt);

	assert_int_equal(sxt_conn_create(pair->send_ctx, pair->ib.nics[0], SXT_CONN_SEND, cnt,
					 &send),
			 0);
	assert_int_equal(sxt_conn_create(pair->recv_ctx, pair->ib.nics[1], SXT_CONN_RECV, cnt,
					 &recv),
			 0);
	assert_int_equal(pair_paths_make(send), 0);
	assert_int_equal(pair_paths_make(recv), 0);
	sxt_ignore(snprintf(send->peer_name, sizeof(send->peer_name), "hostb:2 fake_1"));
	sxt_ignore(snprintf(recv->peer_name, sizeof(recv->peer_name), "hosta:1 fake_0"));
	sxt_conn_memory(send, &ring);
	sxt_conn_memory(recv, &records);
	for (uint32_t i = 0; i < cnt; i++)
		peers[i] = send->paths[i].local.path;
	assert_int_equal(sxt_conn_start(recv, peers, &ring), 0);
	for (uint32_t i = 0; i < cnt; i++)
		peers[i] = recv->paths[i].local.path;
	assert_int_equal(sxt_conn_start(send, peers, &records), 0);
	sxt_conn_made(send);
	sxt_conn_made(recv);
	*send_out = send;
	*recv_out = recv;
}

static struct sxt_mr *buffer_register(struct sxt_conn *conn, uint8_t **out)
{
	struct sxt_mr_spec spec = {.bytes = PAIR_BUFFER, .dmabuf_fd = -1};
	struct sxt_mr *mr;

	assert_int_equal(posix_memalign(&spec.addr, 4096, PAIR_BUFFER), 0);
	memset(spec.addr, 0, PAIR_BUFFER);
	assert_int_equal(sxt_mr_get(conn, &spec, &mr), 0);
	*out = spec.addr;
	return mr;
}

/* The first two NICs take the machine's ports between them. */
static void nics_shape(struct pair *pair, const struct pair_shape *shape)
{
	struct sxt_nic *send = pair->ib.nics[0];
	struct sxt_nic *recv = pair->ib.nics[1];

	assert_int_equal(pair->ib.ports_cnt, shape->send_ports + shape->recv_ports);
	send->ports_cnt = shape->send_ports;
	recv->ports_cnt = shape->recv_ports;
	for (uint32_t i = 0; i < send->ports_cnt; i++)
		send->ports[i] = pair->ib.ports[i];
	for (uint32_t i = 0; i < recv->ports_cnt; i++)
		recv->ports[i] = pair->ib.ports[send->ports_cnt + i];
	pair->config.ib_qps_per_connection = shape->qps;
	pair->config.ib_split_data_on_qps = shape->split;
	pair->config.ib_adaptive_routing = shape->adaptive;
	pair->config.ib_ar_threshold = shape->ar_bytes;
}

void pair_open(struct pair *pair, const struct sxt_fake_config *fake)
{
	const struct pair_shape plain = {.send_ports = 1, .recv_ports = 1, .qps = 1};

	pair_open_shaped(pair, fake, &plain);
}

void pair_open_shaped(struct pair *pair, const struct sxt_fake_config *fake,
		      const struct pair_shape *shape)
{
	struct sxt_fake_config machine = *fake;
	size_t i;

	machine.devices_cnt = (int)(shape->send_ports + shape->recv_ports);
	memset(pair, 0, sizeof(*pair));
	log_line[0] = '\0';
	log_cnt = 0;
	clock_ns = SXT_NS_PER_SEC;
	sxt_log_set_sink(log_take);
	assert_int_equal(sxt_fake_reset(&machine), 0);
	assert_int_equal(sxt_config_load(&pair->config), 0);
	sys = sxt_sys_host;
	sys.now_ns = clock_read;
	pair->ib.sys = &sys;
	pair->ib.config = &pair->config;
	pair->ib.verbs = sxt_fake_verbs();
	/* Its lock is all that the data path needs of it: there is no side channel. */
	pthread_mutex_init(&pair->watcher.lock, NULL);
	pair->ib.watcher = &pair->watcher;
	sxt_list_init(&pair->ib.devices);
	assert_int_equal(sxt_ports_open(&pair->ib), 0);
	assert_int_equal(sxt_nics_open(&pair->ib), 0);
	nics_shape(pair, shape);
	assert_int_equal(sxt_context_create(&pair->ib, 0, &pair->send_ctx), 0);
	assert_int_equal(sxt_context_create(&pair->ib, 0, &pair->recv_ctx), 0);
	pair_more(pair, &pair->send, &pair->recv);
	pair->from_mr = buffer_register(pair->send, &pair->from);
	pair->to_mr = buffer_register(pair->recv, &pair->to);
	for (i = 0; i < PAIR_BUFFER; i++)
		pair->from[i] = (uint8_t)(i * 31 + i / 251);
}

void pair_close(struct pair *pair)
{
	struct sxt_fake_counts counts;

	sxt_conn_destroy(pair->send);
	sxt_conn_destroy(pair->recv);
	sxt_mr_cache_put(pair->ib.nics[0], pair->from_mr);
	sxt_mr_cache_put(pair->ib.nics[1], pair->to_mr);
	sxt_context_destroy(pair->send_ctx);
	sxt_context_destroy(pair->recv_ctx);
	sxt_nics_close(&pair->ib);
	sxt_ports_close(&pair->ib);
	pthread_mutex_destroy(&pair->watcher.lock);
	sxt_config_fini(&pair->config);
	free(pair->from);
	free(pair->to);
	counts = sxt_fake_counts();
	assert_int_equal(counts.rnr_naks, 0);
	assert_int_equal(counts.sq_overflows, 0);
	assert_int_equal(counts.rq_overflows, 0);
	assert_int_equal(counts.cq_overruns, 0);
	assert_int_equal(sxt_fake_reset(&pair_usual), 0);
	sxt_log_set_sink(NULL);
}

int pair_send(struct pair *pair, size_t offset, uint64_t bytes, uint32_t tag,
	      struct sxt_request **out)
{
	return sxt_send(pair->send, pair->from + offset, bytes, tag, pair->from_mr, out);
}

static int recv_one(struct pair *pair, size_t offset, uint64_t bytes, int tag, bool optional,
		    struct sxt_request **out)
{
	void *data = pair->to + offset;
	struct sxt_recv_spec spec = {
		.cnt = 1,
		.data = &data,
		.bytes = &bytes,
		.tags = &tag,
		.mrs = &pair->to_mr,
		.optional = optional,
	};

	return sxt_recv(pair->recv, &spec, out);
}

int pair_recv(struct pair *pair, size_t offset, uint64_t bytes, int tag, struct sxt_request **out)
{
	return recv_one(pair, offset, bytes, tag, false, out);
}

int pair_recv_optional(struct pair *pair, size_t offset, uint64_t bytes, int tag,
		       struct sxt_request **out)
{
	return recv_one(pair, offset, bytes, tag, true, out);
}

int pair_recv_group(struct pair *pair, int cnt, size_t stride, const int *tags,
		    struct sxt_request **out)
{
	void *data[SXT_RECVS_MAX];
	uint64_t bytes[SXT_RECVS_MAX];
	struct sxt_mr *mrs[SXT_RECVS_MAX];
	struct sxt_recv_spec spec = {
		.cnt = cnt, .data = data, .bytes = bytes, .tags = tags, .mrs = mrs};
	int i;

	for (i = 0; i < cnt; i++) {
		data[i] = pair->to + (size_t)i * stride;
		bytes[i] = stride;
		mrs[i] = pair->to_mr;
	}
	return sxt_recv(pair->recv, &spec, out);
}

void pair_done(struct sxt_request *request, int *sizes)
{
	bool done = false;
	int i;

	for (i = 0; i < 64 && !done; i++)
		assert_int_equal(sxt_test(request, &done, sizes), 0);
	assert_true(done);
}

void pair_waits(struct sxt_request *request)
{
	bool done = true;

	assert_int_equal(sxt_test(request, &done, NULL), 0);
	assert_false(done);
}

void pair_message_arrives(struct pair *pair, uint64_t bytes)
{
	struct sxt_request *send;
	struct sxt_request *recv;
	int size = -1;

	memset(pair->to, 0xee, PAIR_BUFFER);
	assert_int_equal(pair_recv(pair, 64, bytes, 3, &recv), 0);
	assert_int_equal(pair_send(pair, 128, bytes, 3, &send), 0);
	pair_done(send, &size);
	assert_int_equal(size, bytes);
	size = -1;
	pair_done(recv, &size);
	assert_int_equal(size, bytes);
	assert_memory_equal(pair->to + 64, pair->from + 128, bytes);
	assert_int_equal(pair->to[63], 0xee);
	assert_int_equal(pair->to[64 + bytes], 0xee);
}
