/*
 * serve.c - the exporter's HTTP side: three pages, GET and HEAD, nothing else.
 *
 * libmicrohttpd's one thread answers all requests, the main thread waits for signals and cuts
 * clients that take too long. A connection serves one request.
 */
#include "cli/export/export.h"

#include "core/status.h"
#include "core/sys.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX   32
#define REQUEST_BYTES 16384 /* request line and headers */
#define IDLE_SEC      5
#define REQUEST_SEC   15 /* from accepting to the last byte */
#define PAGE_PLAIN    "text/plain; version=0.0.4; charset=utf-8"
#define PAGE_OPEN     "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define HOST_BYTES    64

struct client {
	int fd; /* -1 free */
	uint64_t since_ns;
};

struct server {
	struct sxt_export *e;
	struct MHD_Daemon *daemon;
	pthread_mutex_t lock; /* of clients */
	struct client clients[CLIENTS_MAX];
};

static const char index_page[] =
	"<!DOCTYPE html><title>sextant export</title>\n"
	"<p>sextant export " SXT_VERSION ": <a href=\"/metrics\">/metrics</a>, "
	"<a href=\"/healthz\">/healthz</a></p>\n";

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned int status,
			      const char *type, struct MHD_Response *response)
{
	enum MHD_Result rc;

	if (response == NULL)
		return MHD_NO;
	if (MHD_add_response_header(response, "Content-Type", type) != MHD_YES ||
	    MHD_add_response_header(response, "Connection", "close") != MHD_YES ||
	    (status == MHD_HTTP_METHOD_NOT_ALLOWED &&
	     MHD_add_response_header(response, "Allow", "GET, HEAD") != MHD_YES))
		rc = MHD_NO;
	else
		rc = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return rc;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned int status,
				   const char *text)
{
	return answer(connection, status, "text/plain; charset=utf-8",
		      MHD_create_response_from_buffer(strlen(text), (void *)text,
						      MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result answer_metrics(struct server *server, struct MHD_Connection *connection)
{
	bool open_metrics = sxt_export_wants_open_metrics(
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept"));
	size_t len;
	char *page = sxt_export_page(server->e, open_metrics, &len);
	struct MHD_Response *response;

	if (page == NULL)
		return answer_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	response = MHD_create_response_from_buffer(len, page, MHD_RESPMEM_MUST_FREE);
	if (response == NULL)
		free(page);
	return answer(connection, MHD_HTTP_OK, open_metrics ? PAGE_OPEN : PAGE_PLAIN, response);
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **state)
{
	(void)version;
	(void)upload;
	(void)upload_bytes;
	(void)state;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	if (strcmp(url, "/metrics") == 0)
		return answer_metrics(cls, connection);
	if (strcmp(url, "/healthz") == 0)
		return answer_text(connection, MHD_HTTP_OK, "ok\n");
	if (strcmp(url, "/") == 0)
		return answer(connection, MHD_HTTP_OK, "text/html; charset=utf-8",
			      MHD_create_response_from_buffer(sizeof(index_page) - 1,
							      (void *)index_page,
							      MHD_RESPMEM_PERSISTENT));
	return answer_text(connection, MHD_HTTP_NOT_FOUND, "only /metrics, /healthz and /\n");
}

/* Idle clients are libmicrohttpd's to cut; one that sends a byte now and then is never idle. */
static void note_client(void *cls, struct MHD_Connection *connection, void **state,
			enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	bool started = code == MHD_CONNECTION_NOTIFY_STARTED;
	struct server *server = cls;
	int wanted = started ? -1 : info->connect_fd;

	(void)state;
	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		if (client->fd != wanted)
			continue;
		client->fd = started ? info->connect_fd : -1;
		client->since_ns = sxt_sys_host.now_ns();
		break;
	}
	pthread_mutex_unlock(&server->lock);
}

static void cut_slow(struct server *server)
{
	uint64_t now_ns = sxt_sys_host.now_ns();

	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		const struct client *client = &server->clients[i];

		if (client->fd >= 0 && now_ns - client->since_ns > REQUEST_SEC * SXT_NS_PER_SEC)
			shutdown(client->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&server->lock);
}

/* "127.0.0.1:9847", "[::1]:9847"; numbers only, so that nothing is looked up. */
static int parse_address(const char *text, struct addrinfo **out)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(text, ':');
	char host[HOST_BYTES];
	size_t len;

	if (colon == NULL || colon == text || colon[1] == '\0')
		return -EINVAL;
	len = (size_t)(colon - text);
	if (text[0] == '[' && colon[-1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len) != NULL) {
		return -EINVAL;
	}
	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	return getaddrinfo(host, colon + 1, &hints, out) == 0 ? 0 : -EINVAL;
}

static int open_socket(const struct addrinfo *address)
{
	int on = 1;
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, CLIENTS_MAX) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static void tell_address(int fd)
{
	struct sockaddr_storage address = {0};
	socklen_t len = sizeof(address);
	char host[HOST_BYTES];
	char port[8];
	bool v6;

	if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
	    getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	v6 = address.ss_family == AF_INET6;
	printf("sextant export: http://%s%s%s:%s/metrics\n", v6 ? "[" : "", host, v6 ? "]" : "",
	       port);
	fflush(stdout);
}

static int start(struct server *server, int fd)
{
	/* Given as a list, so that the numbers have the width that the library reads. */
	const struct MHD_OptionItem options[] = {
		{MHD_OPTION_LISTEN_SOCKET, fd, NULL},
		{MHD_OPTION_CONNECTION_LIMIT, CLIENTS_MAX, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SEC, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_BYTES, NULL},
		{MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)note_client, server},
		{MHD_OPTION_END, 0, NULL},
	};

	server->daemon =
		MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL,
				 handle, server, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	return server->daemon != NULL ? 0 : -EIO;
}

static void wait_for_end(struct server *server, const sigset_t *signals)
{
	const struct timespec second = {.tv_sec = 1};

	while (sigtimedwait(signals, NULL, &second) < 0)
		cut_slow(server);
}

int sxt_export_serve(struct sxt_export *e, const char *listen)
{
	struct server server = {.e = e, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct addrinfo *address;
	sigset_t signals;
	int fd;

	if (parse_address(listen, &address) != 0) {
		fprintf(stderr,
			"sextant export: --listen must be ADDR:PORT in numbers, such as "
			"127.0.0.1:9847 or [::]:9847 (got '%s')\n",
			listen);
		return SXT_EXIT_USAGE;
	}
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		server.clients[i].fd = -1;
	fd = open_socket(address);
	freeaddrinfo(address);
	if (fd < 0) {
		fprintf(stderr, "sextant export: cannot listen on %s: %s\n", listen,
			sxt_strerror(fd));
		return SXT_EXIT_BROKEN;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in the server's thread too */
	signal(SIGPIPE, SIG_IGN);
	if (start(&server, fd) != 0) {
		fputs("sextant export: the HTTP server did not start\n", stderr);
		close(fd);
		return SXT_EXIT_BROKEN;
	}
	tell_address(fd);
	wait_for_end(&server, &signals);
	MHD_stop_daemon(server.daemon); /* closes the socket */
	return SXT_EXIT_OK;
}
