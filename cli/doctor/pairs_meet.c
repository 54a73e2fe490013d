/*
 * pairs_meet.c - two doctors find each other and talk: one JSON document a line over TCP, each end
 * one line per step. Whoever else comes, or answers, is told apart and sent away; nothing is waited
 * for without a limit.
 */
#include "cli/doctor/pairs.h"

#include "core/config.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/oob.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES    (64u * 1024)
#define VISITOR_NS    (5 * SXT_NS_PER_SEC)  /* for who came to say who it is */
#define ANSWER_NS     (15 * SXT_NS_PER_SEC) /* for who listens; it may have a visitor */
#define STEP_NS       (120 * SXT_NS_PER_SEC)
#define SAY(fmt, ...) fprintf(stderr, "sextant doctor pairs: " fmt "\n", __VA_ARGS__)

struct sxt_pairs_link {
	int fd;
	char peer[96]; /* host name, for messages; before it is known the address */
	size_t len;    /* of what has come and was not taken */
	size_t line;   /* of the line at its beginning, to be dropped */
	char buf[LINE_BYTES];
};

struct address {
	char host[256]; /* "" any */
	char port[8];   /* "" any */
};

static bool is_port(const char *text)
{
	char *end = NULL;
	unsigned long value = strtoul(text, &end, 10);

	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= 65535;
}

/* "HOST:PORT", "[V6]:PORT", ":PORT", "HOST". */
static bool address_parse(const char *text, struct address *out)
{
	const char *host = text;
	const char *colon = strrchr(text, ':');
	size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);

	if (text[0] == '[') {
		const char *end = strchr(text, ']');

		if (end == NULL || (end[1] != '\0' && end[1] != ':'))
			return false;
		host = text + 1;
		len = (size_t)(end - host);
		colon = end[1] == ':' ? end + 1 : NULL;
	} else if (memchr(text, ':', len) != NULL) {
		return false;
	}
	if (len >= sizeof(out->host) || (colon != NULL && !is_port(colon + 1)))
		return false;
	snprintf(out->host, sizeof(out->host), "%.*s", (int)len, host);
	snprintf(out->port, sizeof(out->port), "%.7s", colon != NULL ? colon + 1 : "");
	return true;
}

static int resolve(const struct address *address, bool passive, struct addrinfo **out)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = (passive ? AI_PASSIVE : 0) | AI_NUMERICSERV,
	};
	int rc = getaddrinfo(address->host[0] != '\0' ? address->host : NULL,
			     address->port[0] != '\0' ? address->port : "0", &hints, out);

	if (rc == 0)
		return SXT_EXIT_OK;
	SAY("the address '%s' cannot be found: %s", address->host, gai_strerror(rc));
	return SXT_EXIT_MISSING;
}

static struct sxt_pairs_link *link_create(int fd, const struct sockaddr_storage *from)
{
	struct sxt_pairs_link *link = malloc(sizeof(*link));

	if (link == NULL) {
		close(fd);
		return NULL;
	}
	link->fd = fd;
	link->len = 0;
	link->line = 0;
	sxt_oob_text(from, link->peer, sizeof(link->peer));
	return link;
}

void sxt_pairs_hang_up(struct sxt_pairs_link *link)
{
	if (link == NULL)
		return;
	close(link->fd);
	free(link);
}

static int wait_ms(uint64_t end_ns)
{
	uint64_t now_ns = sxt_sys_host.now_ns();

	return now_ns >= end_ns ? 0 : (int)((end_ns - now_ns) / SXT_NS_PER_MS) + 1;
}

/* Returns the bytes that passed, 0 for none now, or a negative errno. */
static ssize_t send_some(struct sxt_pairs_link *link, const char *text, size_t len)
{
	ssize_t n = send(link->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int recv_some(struct sxt_pairs_link *link)
{
	ssize_t n;

	if (link->len == sizeof(link->buf))
		return -EMSGSIZE;
	n = recv(link->fd, link->buf + link->len, sizeof(link->buf) - link->len, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	link->len += (size_t)n;
	return n == 0 ? -ECONNRESET : 0;
}

/* Length of the line that has come, without its end; -1 while it has not. */
static ssize_t line_len(const struct sxt_pairs_link *link)
{
	const char *end = memchr(link->buf, '\n', link->len);

	return end != NULL ? end - link->buf : -1;
}

/* One turn of waiting: sends what is left, takes what comes. */
static int turn(struct sxt_pairs_link *link, const char **text, size_t *left, uint64_t end_ns)
{
	struct pollfd pfd = {.fd = link->fd, .events = POLLIN};
	ssize_t n;

	if (*left > 0)
		pfd.events |= POLLOUT;
	if (poll(&pfd, 1, wait_ms(end_ns)) == 0 && wait_ms(end_ns) == 0)
		return -ETIMEDOUT;
	n = (pfd.revents & POLLOUT) != 0 ? send_some(link, *text, *left) : 0;
	if (n < 0)
		return (int)n;
	*text += n;
	*left -= (size_t)n;
	return (pfd.revents & (POLLIN | POLLHUP | POLLERR)) != 0 ? recv_some(link) : 0;
}

/* Says a text; what comes meanwhile is taken, so that neither end waits for the other's room. */
static int say(struct sxt_pairs_link *link, const char *text, uint64_t end_ns)
{
	size_t left = strlen(text);
	int rc = 0;

	while (rc == 0 && left > 0)
		rc = turn(link, &text, &left, end_ns);
	return rc;
}

/* Says a text, "" for nothing, and waits for the other end's line. */
static int talk(struct sxt_pairs_link *link, const char *text, uint64_t patience_ns)
{
	uint64_t end_ns = sxt_sys_host.now_ns() + patience_ns;
	size_t left = 0;
	int rc;

	memmove(link->buf, link->buf + link->line, link->len - link->line);
	link->len -= link->line;
	link->line = 0;
	rc = say(link, text, end_ns);
	while (rc == 0 && line_len(link) < 0)
		rc = turn(link, &text, &left, end_ns);
	if (rc == 0)
		link->line = (size_t)line_len(link) + 1;
	return rc;
}

/* A document as one line; to be freed, NULL without memory. */
static char *line_make(json_t *document)
{
	char *text = document != NULL ? json_dumps(document, JSON_COMPACT) : NULL;
	size_t len = text != NULL ? strlen(text) : 0;
	char *line = text != NULL ? realloc(text, len + 2) : NULL;

	json_decref(document);
	if (line == NULL) {
		free(text);
		return NULL;
	}
	memcpy(line + len, "\n", 2);
	return line;
}

static json_t *line_parse(const struct sxt_pairs_link *link)
{
	return json_loadb(link->buf, link->line - 1, JSON_REJECT_DUPLICATES, NULL);
}

/* The beginning of what came, for a message. */
static void quote(const struct sxt_pairs_link *link, char *out, size_t out_bytes)
{
	size_t len = link->len < 40 ? link->len : 40;

	snprintf(out, out_bytes, "%.*s", (int)strnlen(link->buf, len), link->buf);
	out[strcspn(out, "\r\n")] = '\0';
	sxt_doctor_make_printable(out);
}

/* Who is at the other end? Nothing is said about @why yet. */
static int identify(struct sxt_pairs_link *link, int talked, struct sxt_pairs_host *out, char *why,
		    size_t why_bytes)
{
	json_t *hello = talked == 0 ? line_parse(link) : NULL;
	char said[64];
	int rc = talked;

	if (hello != NULL)
		rc = sxt_pairs_hello_read(hello, out, why, why_bytes);
	else if (talked == 0 || link->len > 0)
		rc = -EPROTO;
	json_decref(hello);
	if (rc == 0)
		snprintf(link->peer, sizeof(link->peer), "%s", out->name);
	if (rc == -EPROTO) {
		quote(link, said, sizeof(said));
		snprintf(why, why_bytes, "it is no sextant doctor; it said '%s'", said);
	} else if (rc == -ETIMEDOUT || rc == -ECONNRESET) {
		snprintf(why, why_bytes, "it %s",
			 rc == -ETIMEDOUT ? "says nothing" : "hung up without a word");
	}
	sxt_doctor_make_printable(why);
	return rc;
}

/* One visitor. Return: exit status, or -1 when it was another and the wait goes on. */
static int welcome(int listen_fd, struct sxt_pairs *pairs, struct sxt_pairs_link **out)
{
	struct sockaddr_storage from = {0};
	socklen_t from_len = sizeof(from);
	int fd = accept4(listen_fd, (void *)&from, &from_len, SOCK_CLOEXEC);
	struct sxt_pairs_link *link = fd >= 0 ? link_create(fd, &from) : NULL;
	char *hello = line_make(sxt_pairs_hello_write(&pairs->hosts[pairs->own]));
	char why[256] = "";
	int rc;

	if (link == NULL || hello == NULL) {
		/* Who came may be gone again. */
		free(hello);
		sxt_pairs_hang_up(link);
		return -1;
	}
	rc = identify(link, talk(link, "", VISITOR_NS), &pairs->hosts[!pairs->own], why,
		      sizeof(why));
	/* Another version hears ours, so that both can say so. */
	if (rc == -EPROTONOSUPPORT)
		sxt_ignore(say(link, hello, sxt_sys_host.now_ns() + VISITOR_NS));
	else if (rc == 0)
		rc = say(link, hello, sxt_sys_host.now_ns() + VISITOR_NS);
	free(hello);
	if (rc == 0) {
		*out = link;
		return SXT_EXIT_OK;
	}
	SAY("%s came, but %s%s", link->peer, why[0] != '\0' ? why : sxt_strerror(rc),
	    rc == -EPROTONOSUPPORT ? "; install one version on both hosts" : "; waiting on");
	sxt_pairs_hang_up(link);
	return rc == -EPROTONOSUPPORT ? SXT_EXIT_MISSING : -1;
}

static int wait_for_visitors(int listen_fd, int timeout_s, struct sxt_pairs *pairs,
			     struct sxt_pairs_link **out)
{
	uint64_t end_ns = sxt_sys_host.now_ns() + (uint64_t)timeout_s * SXT_NS_PER_SEC;
	int status = -1;

	while (status < 0 && wait_ms(end_ns) > 0) {
		struct pollfd pfd = {.fd = listen_fd, .events = POLLIN};

		if (poll(&pfd, 1, wait_ms(end_ns)) > 0)
			status = welcome(listen_fd, pairs, out);
	}
	if (status >= 0)
		return status;
	SAY("nobody came within %d s; run the command above on the other host, and see that no "
	    "firewall is in between",
	    timeout_s);
	return SXT_EXIT_MISSING;
}

/* An address that other hosts can use, where the one listened on is any. */
static bool own_address(struct sockaddr_storage *out, socklen_t *len_out)
{
	struct sxt_config config;
	struct sxt_oob oob;
	bool found;

	if (sxt_config_load(&config) != 0)
		return false;
	found = sxt_oob_choose(&sxt_sys_host, &config, &oob) == 0;
	sxt_config_fini(&config);
	if (found) {
		*out = oob.addr;
		*len_out = oob.addr_len;
	}
	return found;
}

/* An address of either family; both have their port at one place. */
union socket_address {
	struct sockaddr_storage any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static bool is_any(const union socket_address *addr)
{
	return addr->any.ss_family == AF_INET ? addr->in.sin_addr.s_addr == htonl(INADDR_ANY)
					      : IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

static void tell_command(int fd)
{
	union socket_address bound = {0};
	socklen_t len = sizeof(bound);
	in_port_t port;
	char text[96];

	if (getsockname(fd, (void *)&bound, &len) != 0)
		return;
	port = bound.in.sin_port;
	if (is_any(&bound) && own_address(&bound.any, &len))
		bound.in.sin_port = port;
	sxt_oob_text(&bound.any, text, sizeof(text));
	SAY("waiting; type on the other host: sextant doctor pairs %s", text);
}

static int listen_at(const struct sockaddr *addr, socklen_t len)
{
	const int one = 1;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int rc = fd >= 0 ? 0 : -errno;

	if (rc == 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
			bind(fd, addr, len) != 0 || listen(fd, 4) != 0))
		rc = -errno;
	if (rc == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	SAY("cannot listen: %s; choose another address or port with --listen=ADDR:PORT",
	    sxt_strerror(rc));
	return rc;
}

static int listen_fd_of(const char *address, int *out)
{
	struct sockaddr_storage any = {0};
	socklen_t any_len = 0;
	struct address parsed = {0};
	struct addrinfo *list = NULL;
	int status = SXT_EXIT_OK;

	if (address != NULL && !address_parse(address, &parsed)) {
		SAY("'%s' is no address to listen on; write ADDR:PORT, [ADDR]:PORT, :PORT or ADDR",
		    address);
		return SXT_EXIT_USAGE;
	}
	if (address == NULL && own_address(&any, &any_len)) {
		*out = listen_at((void *)&any, any_len);
		return *out >= 0 ? SXT_EXIT_OK : SXT_EXIT_MISSING;
	}
	status = resolve(&parsed, true, &list);
	if (status == SXT_EXIT_OK) {
		*out = listen_at(list->ai_addr, list->ai_addrlen);
		status = *out >= 0 ? SXT_EXIT_OK : SXT_EXIT_MISSING;
		freeaddrinfo(list);
	}
	return status;
}

int sxt_pairs_listen(const char *address, int timeout_s, struct sxt_pairs *pairs,
		     struct sxt_pairs_link **out)
{
	int fd = -1;
	int status = listen_fd_of(address, &fd);

	if (status != SXT_EXIT_OK)
		return status;
	tell_command(fd);
	status = wait_for_visitors(fd, timeout_s, pairs, out);
	close(fd);
	return status;
}

/* A connected socket, or a negative errno. */
static int connect_to(const struct addrinfo *ai, uint64_t end_ns)
{
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t len = sizeof(error);

	if (fd < 0)
		return -errno;
	if ((connect(fd, ai->ai_addr, ai->ai_addrlen) != 0 && errno != EINPROGRESS) ||
	    (poll(&pfd, 1, wait_ms(end_ns)) > 0 &&
	     getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0))
		error = errno;
	else if ((pfd.revents & (POLLOUT | POLLERR | POLLHUP)) == 0)
		error = ETIMEDOUT;
	if (error == 0)
		return fd;
	close(fd);
	return -error;
}

static int dial(const struct addrinfo *list, int timeout_s, struct sxt_pairs_link **out)
{
	uint64_t end_ns = sxt_sys_host.now_ns() + (uint64_t)timeout_s * SXT_NS_PER_SEC;
	struct sockaddr_storage to = {0};
	int fd = -EADDRNOTAVAIL;

	for (const struct addrinfo *ai = list; ai != NULL && fd < 0; ai = ai->ai_next) {
		fd = connect_to(ai, end_ns);
		memcpy(&to, ai->ai_addr, ai->ai_addrlen);
	}
	if (fd < 0)
		return fd;
	*out = link_create(fd, &to);
	return *out != NULL ? 0 : -ENOMEM;
}

static int introduce(struct sxt_pairs *pairs, struct sxt_pairs_link *link)
{
	char *hello = line_make(sxt_pairs_hello_write(&pairs->hosts[pairs->own]));
	char why[256] = "";
	int rc = -ENOMEM;

	if (hello != NULL)
		rc = identify(link, talk(link, hello, ANSWER_NS), &pairs->hosts[!pairs->own], why,
			      sizeof(why));
	free(hello);
	if (rc == 0)
		return SXT_EXIT_OK;
	SAY("%s answers, but %s; is that the port that `sextant doctor pairs --listen` printed on "
	    "the other host, of the same version?",
	    link->peer, why[0] != '\0' ? why : sxt_strerror(rc));
	return SXT_EXIT_MISSING;
}

int sxt_pairs_call(const char *address, int timeout_s, struct sxt_pairs *pairs,
		   struct sxt_pairs_link **out)
{
	struct address parsed;
	struct addrinfo *list = NULL;
	struct sxt_pairs_link *link = NULL;
	int status;
	int rc;

	if (!address_parse(address, &parsed) || parsed.host[0] == '\0' || parsed.port[0] == '\0') {
		SAY("'%s' is no address to call; write HOST:PORT or [ADDR]:PORT, as the other host "
		    "printed it",
		    address);
		return SXT_EXIT_USAGE;
	}
	status = resolve(&parsed, false, &list);
	if (status != SXT_EXIT_OK)
		return status;
	rc = dial(list, timeout_s, &link);
	freeaddrinfo(list);
	if (rc != 0) {
		SAY("%s cannot be reached: %s; is `sextant doctor pairs --listen` running there, "
		    "and no firewall in between?",
		    address, sxt_strerror(rc));
		return SXT_EXIT_MISSING;
	}
	status = introduce(pairs, link);
	if (status == SXT_EXIT_OK)
		*out = link;
	else
		sxt_pairs_hang_up(link);
	return status;
}

static const char *over_text(int rc)
{
	if (rc == -ETIMEDOUT)
		return "has said nothing for two minutes; is it stopped, or its network down?";
	if (rc == -ECONNRESET || rc == -EPIPE)
		return "went away before the end; look there what ended it";
	if (rc == -EPROTO || rc == -EMSGSIZE)
		return "says what makes no sense here; is it the same version?";
	return sxt_strerror(rc);
}

int sxt_pairs_swap(struct sxt_pairs_link *link, const char *step, json_t *mine, size_t cnt,
		   json_t **out)
{
	char *line = line_make(mine != NULL ? json_pack("{s:s, s:o}", "step", step, "said", mine)
					    : NULL);
	json_t *theirs = NULL;
	const char *name = NULL;
	json_t *said;
	int rc = line != NULL ? talk(link, line, STEP_NS) : -ENOMEM;

	free(line);
	if (rc == 0) {
		theirs = line_parse(link);
		name = json_string_value(json_object_get(theirs, "step"));
	}
	said = json_object_get(theirs, "said");
	if (rc == 0 && (name == NULL || strcmp(name, step) != 0 || !json_is_array(said) ||
			json_array_size(said) != cnt))
		rc = -EPROTO;
	if (rc == 0)
		*out = json_incref(said);
	else
		SAY("%s %s (at the step '%s')", link->peer, over_text(rc), step);
	json_decref(theirs);
	return rc;
}
