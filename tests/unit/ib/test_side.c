/*
 * test_side.c - side channels against strangers, garbage, silence and cut cables.
 */
#include "ib/side.h"

#include "core/log.h"
#include "ib/conn.h"
#include "ib/context.h"
#include "ib/listen.h"
#include "tests/unit/ib/rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TURNS 400

static struct rig_link pair;

static struct sxt_side *first_side(const struct sxt_ib *ib)
{
	assert_false(sxt_list_empty(&ib->watcher->sides));
	return SXT_LIST_ENTRY(ib->watcher->sides.next, struct sxt_side, node);
}

static void turn_often(void)
{
	for (int i = 0; i < 50; i++)
		rig_turn();
}

static int setup_listening(void **state)
{
	rig_setup(state);
	assert_int_equal(rig_start(0, true), 0);
	assert_int_equal(rig_start(1, true), 0);
	rig_listen(&pair, rig.ibs[0], rig.ibs[1], NULL);
	return 0;
}

static int setup_connected(void **state)
{
	setup_listening(state);
	rig_join(&pair);
	return 0;
}

static int teardown(void **state)
{
	sxt_conn_close(pair.send);
	turn_often();
	sxt_conn_close(pair.recv);
	sxt_listener_close(pair.listener);
	return rig_teardown(state);
}

static void say(int fd, const void *bytes, size_t cnt)
{
	assert_int_equal(send(fd, bytes, cnt, MSG_NOSIGNAL), cnt);
	turn_often();
}

/* Whatever a stranger did, the listener still takes a connection. */
static void still_connects(void)
{
	rig_join(&pair);
}

static void garbage_costs_one_line_and_one_socket(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n";
	int fds[3];

	(void)state;
	for (size_t i = 0; i < SXT_ARRAY_LEN(fds); i++) {
		fds[i] = rig_dial(rig.ibs[1]);
		say(fds[i], http, sizeof(http) - 1);
		assert_true(rig_hung_up(fds[i]));
	}
	/* One line in ten seconds, with the address and what was seen. */
	assert_int_equal(rig_logged("1 side channel: 127.0.0.1:"), 1);
	assert_int_equal(rig_logged("47 45 54 20"), 1);
	rig_advance(11 * SXT_NS_PER_SEC);
	close(fds[0]);
	fds[0] = rig_dial(rig.ibs[1]);
	say(fds[0], http, sizeof(http) - 1);
	assert_int_equal(rig_logged("2 more not shown"), 1);
	for (size_t i = 0; i < SXT_ARRAY_LEN(fds); i++)
		close(fds[i]);
	still_connects();
}

static void garbage_shorter_than_a_header_shows_when_it_hangs_up(void **state)
{
	int fd = rig_dial(rig.ibs[1]);

	(void)state;
	say(fd, "hello?\n", 7);
	close(fd);
	turn_often();
	assert_int_equal(rig_logged("hung up after 7 bytes"), 1);
	still_connects();
}

static void a_port_scan_is_not_worth_a_line(void **state)
{
	(void)state;
	close(rig_dial(rig.ibs[1]));
	turn_often();
	assert_int_equal(rig_logged("\n1 "), 0);
	assert_int_equal(rig.ibs[1]->watcher->strangers_cnt, 0);
	still_connects();
}

static void half_a_frame_and_silence_are_dropped_in_time(void **state)
{
	struct sxt_frame_out frame;
	int silent = rig_dial(rig.ibs[1]);
	int half = rig_dial(rig.ibs[1]);

	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	sxt_frame_add_text(&frame, SXT_TLV_HOST, "somebody");
	say(half, frame.bytes, frame.used - 5);
	assert_int_equal(rig.ibs[1]->watcher->strangers_cnt, 2);
	rig_advance(9 * SXT_NS_PER_SEC);
	turn_often();
	assert_int_equal(rig.ibs[1]->watcher->strangers_cnt, 2);
	rig_advance(2 * SXT_NS_PER_SEC);
	assert_true(rig_hung_up(half));
	assert_true(rig_hung_up(silent));
	assert_int_equal(rig.ibs[1]->watcher->strangers_cnt, 0);
	assert_int_equal(rig_logged("of a frame and then nothing for 10 s"), 1);
	close(silent);
	close(half);
	still_connects();
}

static void frames_may_come_a_byte_at_a_time(void **state)
{
	struct sxt_frame_out frame;
	int fd = rig_dial(rig.ibs[1]);

	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	sxt_frame_add(&frame, SXT_TLV_PROCESS, "0123456789abcdef", 16);
	sxt_frame_add(&frame, SXT_TLV_TOKEN, pair.handle.token, 16);
	for (size_t i = 0; i < frame.used; i++) {
		assert_int_equal(send(fd, frame.bytes + i, 1, MSG_NOSIGNAL), 1);
		rig_turn();
	}
	turn_often();
	assert_int_equal(first_side(rig.ibs[1])->state, SXT_SIDE_UP);
	close(fd);
	turn_often();
	still_connects();
}

static void an_older_peer_is_told_and_named(void **state)
{
	struct sxt_wire_frame header = {
		.magic = SXT_WIRE_MAGIC,
		.version = 0,
		.version_min = 0,
		.type = SXT_FRAME_HELLO,
	};
	struct sxt_frame_facts facts;
	uint8_t answer[512];
	char why[256];
	int fd = rig_dial(rig.ibs[1]);
	ssize_t got;

	(void)state;
	say(fd, &header, sizeof(header));
	got = recv(fd, answer, sizeof(answer), 0);
	assert_true(got > (ssize_t)sizeof(header));
	assert_int_equal(sxt_frame_read_header(answer, &header, why, sizeof(why)), 0);
	assert_int_equal(header.type, SXT_FRAME_REJECT);
	assert_int_equal(sxt_frame_read_records(answer + sizeof(header), header.length, &facts, why,
						sizeof(why)),
			 0);
	assert_int_equal(facts.error, -EPROTO);
	assert_non_null(strstr(facts.text, "wire versions 0 to 0"));
	assert_int_equal(rig_logged("wire versions 0 to 0"), 1);
	assert_true(rig_hung_up(fd));
	close(fd);
	still_connects();
}

static void the_first_frame_must_be_hello(void **state)
{
	struct sxt_frame_out frame;
	int fd = rig_dial(rig.ibs[1]);

	(void)state;
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, 5);
	say(fd, frame.bytes, frame.used);
	assert_true(rig_hung_up(fd));
	assert_int_equal(rig_logged("first frame is CONNECT"), 1);
	close(fd);
	still_connects();
}

/* A peer of our own making, with a HELLO that is taken. */
static int dial_as_peer(void)
{
	struct sxt_frame_out frame;
	int fd = rig_dial(rig.ibs[1]);

	sxt_frame_begin(&frame, SXT_FRAME_HELLO, 0, 0);
	sxt_frame_add(&frame, SXT_TLV_PROCESS, "0123456789abcdef", 16);
	sxt_frame_add(&frame, SXT_TLV_TOKEN, pair.handle.token, 16);
	sxt_frame_add_text(&frame, SXT_TLV_HOST, "imp:1");
	say(fd, frame.bytes, frame.used);
	return fd;
}

static void unlike_settings_are_told_once_by_both_ends(void **state)
{
	struct sxt_config other = *rig.ibs[1]->config;
	struct rig_link back;

	(void)state;
	other.ib_sl = 3;
	rig.ibs[1]->config = &other;
	rig_join(&pair);
	assert_int_equal(rig_logged("1 NCCL_IB_SL differs: 0 here ("), 1);
	assert_int_equal(rig_logged("1 NCCL_IB_SL differs: 3 here ("), 1);
	assert_int_equal(rig_logged("set it alike on all hosts"), 2);
	assert_int_equal(rig_logged(" differs: "), 2);
	/* The other way round it is the same two processes. */
	rig_listen(&back, rig.ibs[1], rig.ibs[0], NULL);
	rig_join(&back);
	assert_int_equal(rig_logged(" differs: "), 2);
	sxt_conn_close(back.send);
	turn_often();
	sxt_conn_close(back.recv);
	turn_often();
	rig.ibs[1]->config = rig.ibs[0]->config;
}

static void a_peer_that_says_nonsense_hurts_itself_only(void **state)
{
	struct sxt_frame_out frame;
	int fd = dial_as_peer();

	(void)state;
	/* About connections that do not exist: ignored. */
	for (uint16_t type = SXT_FRAME_CONNECT; type < 12; type++) {
		sxt_frame_begin(&frame, type, 4711, 4712);
		say(fd, frame.bytes, frame.used);
	}
	assert_int_equal(first_side(rig.ibs[1])->state, SXT_SIDE_UP);
	/* A CONNECT without its records is refused, not fatal. */
	sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, 9);
	sxt_frame_add(&frame, SXT_TLV_TOKEN, pair.handle.token, 16);
	say(fd, frame.bytes, frame.used);
	assert_int_equal(pair.listener->offers_cnt, 0);
	assert_int_equal(first_side(rig.ibs[1])->state, SXT_SIDE_UP);
	say(fd, "this is no frame at all, but long enough for a header", 53);
	assert_true(rig_hung_up(fd));
	close(fd);
	still_connects();
}

static bool no_descriptor;

static int accept_without_descriptors(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	if (no_descriptor) {
		errno = EMFILE;
		return -1;
	}
	return sxt_sys_host.accept4(fd, addr, len, flags);
}

static void want_of_descriptors_pauses_accepting(void **state)
{
	struct epoll_event event;
	int fd;

	(void)state;
	rig.sys.accept4 = accept_without_descriptors;
	no_descriptor = true;
	fd = rig_dial(rig.ibs[1]);
	turn_often();
	assert_int_equal(rig_logged("ulimit -n"), 1);
	/* Nothing keeps the watcher awake meanwhile. */
	assert_int_equal(epoll_wait(rig.ibs[1]->watcher->epfd, &event, 1, 0), 0);
	assert_int_equal(rig.ibs[1]->watcher->strangers_cnt, 0);
	no_descriptor = false;
	rig_advance(SXT_NS_PER_SEC);
	turn_often();
	assert_int_equal(rig.ibs[1]->watcher->strangers_cnt, 1);
	close(fd);
	turn_often();
	still_connects();
}

static void offers_are_bounded(void **state)
{
	const struct sxt_wire_path path = {.qpn = 1, .link_layer = 2, .mtu = 5};
	const struct sxt_wire_memory ring = {.addr = 64, .bytes = 16384, .rkeys_cnt = 1};
	struct sxt_frame_out frame;
	int fd = dial_as_peer();

	(void)state;
	for (uint32_t i = 1; i <= SXT_OFFERS_MAX + 10; i++) {
		sxt_frame_begin(&frame, SXT_FRAME_CONNECT, 0, i);
		sxt_frame_add(&frame, SXT_TLV_TOKEN, pair.handle.token, 16);
		sxt_frame_add(&frame, SXT_TLV_PATH, &path, sizeof(path));
		sxt_frame_add(&frame, SXT_TLV_RING, &ring, sizeof(ring));
		assert_int_equal(send(fd, frame.bytes, frame.used, MSG_NOSIGNAL), frame.used);
		rig_turn();
	}
	for (int i = 0; i < 100000 && first_side(rig.ibs[1])->tx.used == 0 &&
			pair.listener->offers_cnt < SXT_OFFERS_MAX;
	     i++)
		rig_turn();
	turn_often();
	assert_int_equal(pair.listener->offers_cnt, SXT_OFFERS_MAX);
	/* They go with their channel. */
	close(fd);
	turn_often();
	rig_advance(6 * SXT_NS_PER_SEC);
	turn_often();
	assert_int_equal(pair.listener->offers_cnt, 0);
	still_connects();
}

static void cut(struct sxt_ib *ib)
{
	assert_int_equal(shutdown(first_side(ib)->fd, SHUT_RDWR), 0);
}

static void a_cut_channel_comes_back_and_nothing_is_noted(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		/* Cut at either end; who dialled is always transport 0. */
		cut(rig.ibs[i % 2]);
		for (int k = 0; k < TURNS; k++) {
			rig_turn();
			rig_advance(10 * SXT_NS_PER_MS);
			if (first_side(rig.ibs[0])->incarnation == 2u + (uint32_t)i &&
			    first_side(rig.ibs[1])->incarnation == 2u + (uint32_t)i)
				break;
		}
		assert_int_equal(first_side(rig.ibs[0])->state, SXT_SIDE_UP);
		assert_int_equal(first_side(rig.ibs[1])->state, SXT_SIDE_UP);
		assert_int_equal(first_side(rig.ibs[0])->incarnation, 2 + i);
	}
	assert_int_equal(pair.send->notes, 0);
	assert_int_equal(pair.recv->notes, 0);
	assert_int_equal(rig_logged("\n0 "), 0);
	assert_true(rig_logged("is back") >= 4);
	/* And it carries frames again. */
	sxt_conn_close(pair.recv);
	pair.recv = NULL;
	turn_often();
	assert_int_equal(pair.send->notes, SXT_NOTE_PEER_CLOSED);
}

static void frames_written_while_it_is_cut_arrive_afterwards(void **state)
{
	struct rig_link other;

	(void)state;
	rig_listen(&other, rig.ibs[1], rig.ibs[0], NULL); /* keeps the closing process at work */
	cut(rig.ibs[0]);
	rig_turn();
	assert_int_equal(first_side(rig.ibs[0])->state, SXT_SIDE_DIALLING);
	sxt_conn_close(pair.send);
	pair.send = NULL;
	for (int k = 0; k < TURNS && pair.recv->notes == 0; k++) {
		rig_turn();
		rig_advance(10 * SXT_NS_PER_MS);
	}
	assert_int_equal(pair.recv->notes, SXT_NOTE_PEER_CLOSED);
	sxt_listener_close(other.listener);
}

static void a_handshake_survives_a_cut(void **state)
{
	struct rig_link other;

	(void)state;
	rig_listen(&other, rig.ibs[0], rig.ibs[1], NULL);
	for (int i = 0; i < TURNS; i++) {
		if (i % 3 == 2)
			cut(rig.ibs[0]);
		rig_advance(100 * SXT_NS_PER_MS);
		rig_poll(&other);
		if (i > 8)
			break;
	}
	for (int i = 0; i < TURNS && (other.connect_rc == -EAGAIN || other.accept_rc == -EAGAIN);
	     i++) {
		rig_poll(&other);
		rig_advance(10 * SXT_NS_PER_MS);
	}
	assert_int_equal(other.connect_rc, 0);
	assert_int_equal(other.accept_rc, 0);
	sxt_listener_close(other.listener);
	sxt_conn_close(other.send);
	turn_often();
	sxt_conn_close(other.recv);
}

/* NCCL would blame its caller for a bad argument or a wrong size. */
static void garbage_on_a_channel_is_the_peers_fault(void **state)
{
	static const char garbage[64] = "GET / HTTP/1.1";

	(void)state;
	assert_int_equal(send(first_side(rig.ibs[1])->fd, garbage, sizeof(garbage), 0),
			 sizeof(garbage));
	turn_often();
	assert_int_equal(pair.send->notes, SXT_NOTE_FAILED);
	assert_int_equal(pair.send->note_error, -EPROTO);
}

static void a_peer_that_does_not_come_back_is_dead(void **state)
{
	(void)state;
	/* The other process stops: its socket ends, nobody answers any more. */
	rig.ibs[1]->watcher->is_manual = false; /* rig_turn() leaves it alone */
	assert_int_equal(shutdown(rig.ibs[1]->watcher->listen_fd, SHUT_RDWR), 0);
	cut(rig.ibs[1]);
	for (int i = 0; i < 40; i++) {
		rig_turn();
		rig_advance(100 * SXT_NS_PER_MS);
	}
	assert_int_equal(pair.send->notes, 0);
	for (int i = 0; i < 30; i++) {
		rig_turn();
		rig_advance(100 * SXT_NS_PER_MS);
	}
	assert_int_equal(pair.send->notes, SXT_NOTE_FAILED);
	assert_int_equal(pair.send->note_error, -ECONNRESET);
	assert_int_equal(
		rig_logged("is gone: the peer closed it, and it did not come back within 5 s"), 1);
	rig.ibs[1]->watcher->is_manual = true;
}

static void the_end_that_waits_gives_up_as_well(void **state)
{
	(void)state;
	rig.ibs[0]->watcher->is_manual = false; /* who would dial again */
	cut(rig.ibs[0]);
	turn_often();
	assert_int_equal(first_side(rig.ibs[1])->state, SXT_SIDE_LOST);
	rig_advance(6 * SXT_NS_PER_SEC);
	turn_often();
	assert_int_equal(pair.recv->notes, SXT_NOTE_FAILED);
	assert_int_equal(pair.recv->note_error, -ECONNRESET);
	rig.ibs[0]->watcher->is_manual = true;
}

static void a_peer_that_reads_nothing_does_not_grow_our_memory(void **state)
{
	static const uint8_t padding[900];
	struct sxt_frame_out frame;
	struct sxt_side *side = first_side(rig.ibs[0]);

	(void)state;
	rig.ibs[1]->watcher->is_manual = false;
	sxt_frame_begin(&frame, SXT_FRAME_READY, 1, 1);
	sxt_frame_add(&frame, 999, padding, sizeof(padding));
	pthread_mutex_lock(&rig.ibs[0]->watcher->lock);
	for (int i = 0; i < 100000 && side->state != SXT_SIDE_DEAD; i++)
		sxt_side_send(side, &frame);
	pthread_mutex_unlock(&rig.ibs[0]->watcher->lock);
	assert_int_equal(side->state, SXT_SIDE_DEAD);
	assert_true(side->tx.cap <= 1u << 20);
	assert_int_equal(pair.send->notes, SXT_NOTE_FAILED);
	rig.ibs[1]->watcher->is_manual = true;
}

static void an_idle_watcher_sleeps(void **state)
{
	(void)state;
	turn_often();
	for (int i = 0; i < RIG_IBS; i++)
		assert_true(sxt_sides_next_ns(rig.ibs[i]->watcher) == UINT64_MAX);
}

#define LISTENING(name) cmocka_unit_test_setup_teardown(name, setup_listening, teardown)
#define CONNECTED(name) cmocka_unit_test_setup_teardown(name, setup_connected, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LISTENING(garbage_costs_one_line_and_one_socket),
		LISTENING(garbage_shorter_than_a_header_shows_when_it_hangs_up),
		LISTENING(a_port_scan_is_not_worth_a_line),
		LISTENING(half_a_frame_and_silence_are_dropped_in_time),
		LISTENING(frames_may_come_a_byte_at_a_time),
		LISTENING(an_older_peer_is_told_and_named),
		LISTENING(the_first_frame_must_be_hello),
		LISTENING(unlike_settings_are_told_once_by_both_ends),
		LISTENING(a_peer_that_says_nonsense_hurts_itself_only),
		LISTENING(want_of_descriptors_pauses_accepting),
		LISTENING(offers_are_bounded),
		CONNECTED(a_cut_channel_comes_back_and_nothing_is_noted),
		CONNECTED(frames_written_while_it_is_cut_arrive_afterwards),
		CONNECTED(a_handshake_survives_a_cut),
		CONNECTED(garbage_on_a_channel_is_the_peers_fault),
		CONNECTED(a_peer_that_does_not_come_back_is_dead),
		CONNECTED(the_end_that_waits_gives_up_as_well),
		CONNECTED(a_peer_that_reads_nothing_does_not_grow_our_memory),
		CONNECTED(an_idle_watcher_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
