/*
 * side.c - the life of side channels: listening, dialling, suspicion, death. Slow path, under the
 * watcher's lock.
 */
#include "ib/side.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/conn.h"
#include "ib/listen.h"
#include "ib/oob.h"
#include "ib/process.h"
#include "ib/side_io.h"
#include "ib/watcher.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG         4096
#define ACCEPTS_MAX     64   /* per event */
#define STRANGERS_MAX   1024 /* accepted and silent */
#define REDIAL_NS       (500 * SXT_NS_PER_MS)
#define REDIAL_LIMIT_NS (2 * SXT_NS_PER_SEC)
#define GREETING_NS     (10 * SXT_NS_PER_SEC)
#define CLOSE_TRIES     100 /* of 10 ms */

static const struct sxt_sys *sys_of(const struct sxt_watcher *watcher)
{
	return watcher->ib->sys;
}

static uint64_t peer_dead_ns(const struct sxt_watcher *watcher)
{
	return watcher->ib->config->peer_dead_s * SXT_NS_PER_SEC;
}

static void set_int(const struct sxt_watcher *watcher, int fd, int level, int name, int value)
{
	/* Each is an improvement only: without it the channel works and notices less. */
	sxt_ignore(sys_of(watcher)->setsockopt(fd, level, name, &value, sizeof(value)));
}

static void tune_socket(const struct sxt_watcher *watcher, int fd)
{
	int seconds = (int)watcher->ib->config->peer_dead_s;

	set_int(watcher, fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(watcher, fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(watcher, fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
	set_int(watcher, fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
	set_int(watcher, fd, IPPROTO_TCP, TCP_KEEPCNT, seconds < 3 ? 3 : seconds);
	if (seconds < 1000000)
		set_int(watcher, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
}

static void close_socket(struct sxt_side *side)
{
	if (side->fd >= 0)
		sys_of(side->watcher)->close(side->fd);
	side->fd = -1;
	side->wants_out = false;
}

static int add_to_epoll(const struct sxt_side *side, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = side->serial};

	if (sys_of(side->watcher)
		    ->epoll_ctl(side->watcher->epfd, EPOLL_CTL_ADD, side->fd, &event) != 0)
		return -errno;
	return 0;
}

void sxt_side_watch(struct sxt_side *side, bool wants_out)
{
	struct epoll_event event = {.events = EPOLLIN | (wants_out ? (uint32_t)EPOLLOUT : 0),
				    .data.u64 = side->serial};

	if (side->wants_out == wants_out)
		return;
	if (sys_of(side->watcher)
		    ->epoll_ctl(side->watcher->epfd, EPOLL_CTL_MOD, side->fd, &event) == 0)
		side->wants_out = wants_out;
	else
		SXT_LOG(SXT_LOG_WARN, "side channel to %s: epoll_ctl: %m", side->peer);
}

static int open_listener(struct sxt_watcher *watcher, const struct sxt_oob *oob, int *out)
{
	const struct sxt_sys *sys = sys_of(watcher);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = SXT_WATCH_LISTEN};
	int rc;
	int fd = sys->socket(oob->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (sys->bind(fd, (const struct sockaddr *)&oob->addr, oob->addr_len) != 0 ||
	    sys->listen(fd, BACKLOG) != 0 ||
	    sys->epoll_ctl(watcher->epfd, EPOLL_CTL_ADD, fd, &event) != 0) {
		rc = -errno;
		sys->close(fd);
		return rc;
	}
	*out = fd;
	return 0;
}

int sxt_sides_listen(struct sxt_watcher *watcher)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr);
	struct sxt_oob oob;
	char text[64];
	int fd = -1;
	int rc;

	if (watcher->listen_fd >= 0)
		return 0;
	rc = sxt_oob_choose(sys_of(watcher), watcher->ib->config, &oob);
	if (rc != 0)
		return rc;
	rc = open_listener(watcher, &oob, &fd);
	if (rc == 0 && sys_of(watcher)->getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
		rc = -errno;
		sys_of(watcher)->close(fd);
	}
	sxt_oob_text(rc == 0 ? &addr : &oob.addr, text, sizeof(text));
	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR, "side channel: listening on %s (%s): %s", oob.ifname, text,
			sxt_strerror(rc));
		return rc;
	}
	watcher->listen_fd = fd;
	sxt_oob_to_wire(&addr, &watcher->listen_addr);
	SXT_LOG(SXT_LOG_INFO, "side channel: listening on %s (%s)", oob.ifname, text);
	return 0;
}

static struct sxt_side *create(struct sxt_watcher *watcher)
{
	struct sxt_side *side = calloc(1, sizeof(*side));

	if (side == NULL)
		return NULL;
	side->watcher = watcher;
	side->serial = SXT_WATCH_SIDES + watcher->next_serial++;
	side->fd = -1;
	sxt_list_init(&side->conns);
	sxt_list_append(&watcher->sides, &side->node);
	return side;
}

static void destroy(struct sxt_side *side)
{
	if (!side->is_dialled && side->state == SXT_SIDE_GREETING)
		side->watcher->strangers_cnt--;
	close_socket(side);
	sxt_list_remove(&side->node);
	sxt_side_io_free(side);
	free(side);
}

static void note_all(struct sxt_side *side, int error)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &side->conns) {
		struct sxt_conn *conn = SXT_LIST_ENTRY(node, struct sxt_conn, side_node);

		/* One that is being made asks for the channel's state itself. */
		if (conn->attempt == NULL)
			sxt_side_note_failed(conn, error);
	}
}

static uint32_t live_conns_cnt(const struct sxt_side *side)
{
	struct sxt_list *node;
	struct sxt_list *after;
	uint32_t cnt = 0;

	sxt_list_for_each (node, after, &side->conns) {
		struct sxt_conn *conn = SXT_LIST_ENTRY(node, struct sxt_conn, side_node);

		cnt += conn->attempt == NULL && conn->ended == SXT_CONN_LIVES ? 1 : 0;
	}
	return cnt;
}

void sxt_side_note_failed(struct sxt_conn *conn, int error)
{
	if (conn->ended != SXT_CONN_LIVES)
		return;
	conn->ended = SXT_CONN_NOTED_FAILED;
	conn->note_error = error;
	sxt_conn_note(conn, SXT_NOTE_FAILED);
}

void sxt_side_kill(struct sxt_side *side, int rc, const char *why)
{
	uint32_t live = live_conns_cnt(side);

	if (side->state == SXT_SIDE_DEAD)
		return;
	if (!side->is_dialled && side->state == SXT_SIDE_GREETING)
		side->watcher->strangers_cnt--;
	close_socket(side);
	side->state = SXT_SIDE_DEAD;
	side->error = rc;
	snprintf(side->why, sizeof(side->why), "%s", why);
	if (live > 0)
		SXT_LOG(SXT_LOG_ERROR, "peer %s (%s) is gone: %s; %u connections with it fail",
			side->peer, side->addr_text, why, live);
	note_all(side, rc);
	sxt_ignore(sxt_listeners_forget(side->watcher, side, 0));
}

static void become_suspicious(struct sxt_side *side, uint64_t now_ns, const char *why)
{
	if (side->dead_ns == 0) {
		side->dead_ns = now_ns + peer_dead_ns(side->watcher);
		SXT_LOG(SXT_LOG_INFO, "side channel to %s (%s) is lost: %s; %s for %u s",
			side->peer, side->addr_text, why,
			side->is_dialled ? "dialling again" : "waiting for it to come back",
			side->watcher->ib->config->peer_dead_s);
		snprintf(side->why, sizeof(side->why), "%s", why);
	}
	side->state = side->is_dialled ? SXT_SIDE_DIALLING : SXT_SIDE_LOST;
	/* The first new attempt goes out at once. */
	side->redial_ns = side->redial_ns > now_ns ? side->redial_ns : now_ns;
}

void sxt_side_lost(struct sxt_side *side, int rc, const char *why)
{
	struct sxt_watcher *watcher = side->watcher;
	uint64_t now_ns = sys_of(watcher)->now_ns();

	if (side->state == SXT_SIDE_DEAD)
		return;
	if ((!side->is_dialled && !side->was_up) ||
	    (side->was_up && side->refs == 0 && side->tx.used == 0)) {
		sxt_side_kill(side, rc, why);
		return;
	}
	close_socket(side);
	sxt_side_io_reset(side);
	side->state_end_ns = 0;
	side->error = rc;
	if (side->was_up) {
		become_suspicious(side, now_ns, why);
	} else {
		/* Never up: a peer that just began to listen may still be in its way. */
		side->state = SXT_SIDE_DIALLING;
		side->dead_ns = side->dead_ns != 0 ? side->dead_ns : now_ns + peer_dead_ns(watcher);
		side->redial_ns = now_ns + REDIAL_NS;
		snprintf(side->why, sizeof(side->why), "%s (%s)", why, sxt_strerror(rc));
	}
	sxt_watcher_wake(watcher);
}

static void connected(struct sxt_side *side)
{
	side->state = SXT_SIDE_GREETING;
	side->state_end_ns = sys_of(side->watcher)->now_ns() + GREETING_NS;
	sxt_side_io_say_hello(side);
	if (side->fd >= 0)
		sxt_side_io_flush(side);
}

static int open_dialled(struct sxt_side *side)
{
	const struct sxt_sys *sys = sys_of(side->watcher);
	int rc;

	side->fd = sys->socket(side->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (side->fd < 0)
		return -errno;
	tune_socket(side->watcher, side->fd);
	if (sys->connect(side->fd, (const struct sockaddr *)&side->addr, side->addr_len) != 0 &&
	    errno != EINPROGRESS)
		return -errno;
	rc = add_to_epoll(side, EPOLLIN | EPOLLOUT);
	side->wants_out = rc == 0;
	return rc;
}

static void dial(struct sxt_side *side)
{
	uint64_t now_ns = sys_of(side->watcher)->now_ns();
	int rc;

	side->state = SXT_SIDE_DIALLING;
	side->redial_ns = now_ns + REDIAL_NS;
	side->state_end_ns = side->dead_ns != 0 ? now_ns + REDIAL_LIMIT_NS : 0;
	rc = open_dialled(side);
	if (rc != 0)
		sxt_side_lost(side, rc, "dialling failed");
	sxt_watcher_wake(side->watcher);
}

static struct sxt_side *find_live(const struct sxt_watcher *watcher, const uint8_t *process)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);

		if (side->state != SXT_SIDE_DEAD && (side->is_dialled || side->was_up) &&
		    memcmp(side->process, process, sizeof(side->process)) == 0)
			return side;
	}
	return NULL;
}

static int create_dialled(struct sxt_watcher *watcher, const struct sxt_wire_handle *handle,
			  struct sxt_side **out)
{
	struct sockaddr_storage addr;
	struct sxt_side *side;
	socklen_t len = 0;
	int rc = sxt_oob_from_wire(&handle->addr, &addr, &len);

	if (rc != 0)
		return rc;
	side = create(watcher);
	if (side == NULL)
		return -ENOMEM;
	side->is_dialled = true;
	side->addr = addr;
	side->addr_len = len;
	memcpy(side->process, handle->process, sizeof(side->process));
	memcpy(side->token, handle->token, sizeof(side->token));
	sxt_oob_text(&addr, side->addr_text, sizeof(side->addr_text));
	snprintf(side->peer, sizeof(side->peer), "%s", side->addr_text);
	dial(side);
	*out = side;
	return 0;
}

int sxt_side_get(struct sxt_watcher *watcher, const struct sxt_wire_handle *handle,
		 bool always_dial, struct sxt_side **out)
{
	struct sxt_side *side = always_dial ? NULL : find_live(watcher, handle->process);
	int rc = 0;

	if (side == NULL)
		rc = create_dialled(watcher, handle, &side);
	if (rc != 0)
		return rc;
	side->refs++;
	*out = side;
	return 0;
}

void sxt_side_put(struct sxt_side *side)
{
	if (side == NULL)
		return;
	side->refs--;
	/* The watcher frees what nobody holds; a channel that is up stays for the next one. */
	if (side->refs == 0 && side->state != SXT_SIDE_UP)
		sxt_watcher_wake(side->watcher);
}

void sxt_side_attach(struct sxt_side *side, struct sxt_conn *conn)
{
	struct sxt_watcher *watcher = side->watcher;

	if (conn->id == 0) {
		watcher->next_conn_id += watcher->next_conn_id == UINT32_MAX ? 2 : 1;
		conn->id = watcher->next_conn_id;
	}
	conn->side = side;
	side->refs++;
	sxt_list_append(&side->conns, &conn->side_node);
}

void sxt_side_detach(struct sxt_conn *conn)
{
	if (conn->side == NULL)
		return;
	sxt_list_remove(&conn->side_node);
	sxt_side_put(conn->side);
	conn->side = NULL;
}

void sxt_side_send(struct sxt_side *side, const struct sxt_frame_out *frame)
{
	int rc;

	if (side->state == SXT_SIDE_DEAD)
		return;
	rc = sxt_side_io_queue(side, frame);
	if (rc != 0)
		sxt_side_kill(side, rc, "the peer reads nothing and the buffer for it is full");
	else if (side->state == SXT_SIDE_UP)
		sxt_side_io_flush(side);
}

void sxt_side_come_up(struct sxt_side *side)
{
	SXT_LOG(SXT_LOG_DEBUG, "side channel with %s (%s) is up", side->peer, side->addr_text);
	if (side->was_up)
		SXT_LOG(SXT_LOG_INFO, "side channel with %s (%s) is back", side->peer,
			side->addr_text);
	if (!side->is_dialled && !side->was_up)
		side->watcher->strangers_cnt--;
	side->state = SXT_SIDE_UP;
	side->was_up = true;
	side->incarnation++;
	side->state_end_ns = 0;
	side->redial_ns = 0;
	side->dead_ns = 0;
	sxt_side_io_flush(side);
}

void sxt_side_adopt(struct sxt_side *side, struct sxt_side *fresh)
{
	struct sxt_side_bytes rx = side->rx;
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = side->serial};
	int rc = 0;

	close_socket(side);
	sxt_side_io_reset(side);
	side->fd = fresh->fd;
	side->rx = fresh->rx;
	fresh->fd = -1;
	fresh->rx = rx;
	fresh->rx.used = 0;
	sxt_side_kill(fresh, -ECONNRESET, "taken over");
	if (sys_of(side->watcher)
		    ->epoll_ctl(side->watcher->epfd, EPOLL_CTL_MOD, side->fd, &event) != 0)
		rc = -errno;
	if (rc == 0)
		sxt_side_io_say_hello(side);
	if (rc != 0)
		sxt_side_lost(side, rc, "epoll_ctl failed");
	else if (side->fd >= 0)
		sxt_side_come_up(side);
}

static void accept_one(struct sxt_watcher *watcher, int fd, const struct sockaddr_storage *addr)
{
	struct sxt_side *side = NULL;
	char text[64];

	sxt_oob_text(addr, text, sizeof(text));
	if (watcher->strangers_cnt < STRANGERS_MAX)
		side = create(watcher);
	if (side == NULL) {
		sxt_side_io_warn(watcher, text,
				 "is hung up on: too many connected and say nothing");
		sys_of(watcher)->close(fd);
		return;
	}
	watcher->strangers_cnt++;
	side->fd = fd;
	side->state = SXT_SIDE_GREETING;
	side->state_end_ns = sys_of(watcher)->now_ns() + GREETING_NS;
	side->addr = *addr;
	snprintf(side->addr_text, sizeof(side->addr_text), "%s", text);
	snprintf(side->peer, sizeof(side->peer), "%s", text);
	tune_socket(watcher, fd);
	if (add_to_epoll(side, EPOLLIN) != 0)
		sxt_side_kill(side, -EIO, "epoll_ctl failed");
}

static void listen_for(const struct sxt_watcher *watcher, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = SXT_WATCH_LISTEN};

	if (sys_of(watcher)->epoll_ctl(watcher->epfd, EPOLL_CTL_MOD, watcher->listen_fd, &event) !=
	    0)
		SXT_LOG(SXT_LOG_WARN, "side channel: epoll_ctl: %m");
}

/* What waits stays waiting, and epoll would say so without end: look again in a while. */
static void pause_accepting(struct sxt_watcher *watcher, int rc)
{
	sxt_side_io_warn(watcher, "a peer cannot be accepted:",
			 rc == -EMFILE || rc == -ENFILE
				 ? "no descriptor is free, raise the limit (ulimit -n)"
				 : sxt_strerror(rc));
	listen_for(watcher, 0);
	watcher->listen_again_ns = sys_of(watcher)->now_ns() + REDIAL_NS;
}

void sxt_sides_accept(struct sxt_watcher *watcher)
{
	const struct sxt_sys *sys = sys_of(watcher);

	for (int i = 0; i < ACCEPTS_MAX && watcher->listen_fd >= 0; i++) {
		struct sockaddr_storage addr = {0};
		socklen_t len = sizeof(addr);
		int fd = sys->accept4(watcher->listen_fd, (struct sockaddr *)&addr, &len,
				      SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			accept_one(watcher, fd, &addr);
			continue;
		}
		/* Gone again before it was taken, or nothing more waits. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			pause_accepting(watcher, -errno);
		return;
	}
}

static struct sxt_side *find_serial(const struct sxt_watcher *watcher, uint64_t serial)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);

		if (side->serial == serial)
			return side;
	}
	return NULL;
}

static void dial_ended(struct sxt_side *side)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (sys_of(side->watcher)->getsockopt(side->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0)
		sxt_side_lost(side, -error, "dialling failed");
	else
		connected(side);
}

void sxt_sides_event(struct sxt_watcher *watcher, uint64_t serial, uint32_t events)
{
	struct sxt_side *side = find_serial(watcher, serial);

	if (side == NULL || side->fd < 0)
		return;
	if (side->state == SXT_SIDE_DIALLING) {
		if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
			dial_ended(side);
		return;
	}
	if ((events & EPOLLOUT) != 0)
		sxt_side_io_flush(side);
	if (side->fd >= 0 && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
		sxt_side_io_read(side);
}

static bool is_due(uint64_t at_ns, uint64_t now_ns)
{
	return at_ns != 0 && now_ns >= at_ns;
}

static void kill_suspicious(struct sxt_side *side)
{
	char why[320];

	if (side->was_up)
		snprintf(why, sizeof(why),
			 "%.160s, and it did not come back within %u s "
			 "(SEXTANT_PEER_DEAD_SECONDS), last by %s",
			 side->why, side->watcher->ib->config->peer_dead_s,
			 sxt_strerror(side->error));
	else
		snprintf(why, sizeof(why), "%.300s", side->why);
	sxt_side_kill(side, side->was_up || side->error == 0 ? -ECONNRESET : side->error, why);
}

/* Half a frame, or no HELLO at all. */
static void stopped(struct sxt_side *side)
{
	char why[128];

	snprintf(why, sizeof(why), "sent %zu bytes of a frame and then nothing for 10 s; dropped",
		 side->rx.used);
	sxt_side_io_warn(side->watcher, side->peer, why);
	sxt_side_lost(side, -ETIMEDOUT, "it stopped in the middle of a frame");
}

static void run_timers_of(struct sxt_side *side, uint64_t now_ns)
{
	if (side->state == SXT_SIDE_DEAD)
		return;
	if (is_due(side->dead_ns, now_ns)) {
		kill_suspicious(side);
	} else if (side->state == SXT_SIDE_DIALLING && side->fd < 0) {
		if (now_ns >= side->redial_ns)
			dial(side);
	} else if (is_due(side->state_end_ns, now_ns) && side->is_dialled) {
		sxt_side_lost(side, -ETIMEDOUT, "no answer came");
	} else if (is_due(side->state_end_ns, now_ns) || is_due(side->rx_end_ns, now_ns)) {
		stopped(side);
	}
}

static bool is_forgotten(const struct sxt_side *side)
{
	bool is_stranger = !side->is_dialled && side->state == SXT_SIDE_GREETING;
	/* Somebody closed while it was cut; the peer should hear that if it comes back. */
	bool has_words = side->was_up && side->state != SXT_SIDE_DEAD && side->tx.used > 0;

	return side->refs == 0 && side->state != SXT_SIDE_UP && !is_stranger && !has_words;
}

void sxt_sides_run_timers(struct sxt_watcher *watcher, uint64_t now_ns)
{
	struct sxt_list *node;
	struct sxt_list *after;

	if (is_due(watcher->listen_again_ns, now_ns) && watcher->listen_fd >= 0) {
		watcher->listen_again_ns = 0;
		listen_for(watcher, EPOLLIN);
	}
	sxt_list_for_each (node, after, &watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);

		run_timers_of(side, now_ns);
		if (is_forgotten(side))
			destroy(side);
	}
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return b != 0 && b < a ? b : a;
}

uint64_t sxt_sides_next_ns(const struct sxt_watcher *watcher)
{
	uint64_t next_ns = earlier(UINT64_MAX, watcher->listen_again_ns);
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->sides) {
		const struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);

		if (is_forgotten(side))
			return 0;
		if (side->state == SXT_SIDE_DEAD)
			continue;
		next_ns = earlier(next_ns, side->dead_ns);
		next_ns = earlier(next_ns, side->state_end_ns);
		next_ns = earlier(next_ns, side->rx_end_ns);
		if (side->state == SXT_SIDE_DIALLING && side->fd < 0)
			next_ns = side->redial_ns < next_ns ? side->redial_ns : next_ns;
	}
	return next_ns;
}

/* A socket closed with bytes unread resets the peer's end, which may lose our last frames. */
static void read_away(const struct sxt_side *side)
{
	uint8_t buf[4096];

	for (int i = 0; i < 256; i++) {
		if (sys_of(side->watcher)->recv(side->fd, buf, sizeof(buf), MSG_DONTWAIT) <= 0)
			return;
	}
}

/*
 * Write what is left, within a bounded time. The watcher's own epoll would not wait: at the end of
 * a job all the other peers have something to say too.
 */
static void flush_patiently(struct sxt_side *side)
{
	const struct sxt_sys *sys = sys_of(side->watcher);
	struct epoll_event event = {.events = EPOLLOUT};
	int epfd = sys->epoll_create1(EPOLL_CLOEXEC);

	if (epfd < 0)
		return;
	if (sys->epoll_ctl(epfd, EPOLL_CTL_ADD, side->fd, &event) == 0) {
		for (int i = 0; i < CLOSE_TRIES && side->fd >= 0 && side->tx.used > 0; i++) {
			sxt_ignore(sys->epoll_wait(epfd, &event, 1, 10));
			sxt_side_io_flush(side);
		}
	}
	sys->close(epfd);
}

static void say_goodbye(struct sxt_side *side)
{
	struct sxt_frame_out frame;

	sxt_frame_begin(&frame, SXT_FRAME_CLOSE, 0, 0);
	sxt_side_send(side, &frame);
	if (side->fd >= 0 && side->tx.used > 0)
		flush_patiently(side);
	if (side->fd >= 0)
		read_away(side);
}

void sxt_sides_close_all(struct sxt_watcher *watcher)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &watcher->sides) {
		struct sxt_side *side = SXT_LIST_ENTRY(node, struct sxt_side, node);

		if (side->state == SXT_SIDE_UP)
			say_goodbye(side);
		destroy(side);
	}
	if (watcher->listen_fd >= 0)
		sys_of(watcher)->close(watcher->listen_fd);
	watcher->listen_fd = -1;
	watcher->listen_again_ns = 0;
}

void sxt_side_tell_failed(struct sxt_conn *conn, int error, const char *text)
{
	struct sxt_watcher *watcher = conn->ctx->ib->watcher;
	struct sxt_frame_out frame;

	pthread_mutex_lock(&watcher->lock);
	if (conn->side != NULL && conn->ended == SXT_CONN_LIVES) {
		sxt_frame_begin(&frame, SXT_FRAME_FAIL, conn->peer_id, conn->id);
		sxt_frame_add_error(&frame, error, text);
		sxt_side_send(conn->side, &frame);
	}
	pthread_mutex_unlock(&watcher->lock);
}
