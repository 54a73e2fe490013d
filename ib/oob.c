/*
 * oob.c - the local address of the side channels (slow path).
 */
#include "ib/oob.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* NCCL's order where nothing is set; each is a list as NCCL_SOCKET_IFNAME takes them. */
static const char *const default_order[] = {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"};

static int wanted_family(const struct sxt_config *config, int *out)
{
	if (config->socket_family[0] == '\0') {
		*out = AF_UNSPEC;
	} else if (strcmp(config->socket_family, "AF_INET") == 0) {
		*out = AF_INET;
	} else if (strcmp(config->socket_family, "AF_INET6") == 0) {
		*out = AF_INET6;
	} else {
		SXT_LOG(SXT_LOG_ERROR,
			"NCCL_SOCKET_FAMILY=%s is no family: use AF_INET or AF_INET6, or leave it "
			"unset for either",
			config->socket_family);
		return -EINVAL;
	}
	return 0;
}

/* Of no use to the peer, whose interface numbers are its own. */
static bool is_link_local(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

static bool is_usable(const struct ifaddrs *entry, int family)
{
	if (entry->ifa_addr == NULL || (entry->ifa_flags & IFF_UP) == 0)
		return false;
	if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)
		return false;
	if (is_link_local(entry->ifa_addr))
		return false;
	return family == AF_UNSPEC || entry->ifa_addr->sa_family == family;
}

static const struct ifaddrs *find(const struct ifaddrs *list, int family, const char *names)
{
	for (; list != NULL; list = list->ifa_next) {
		if (is_usable(list, family) && sxt_names_match(names, list->ifa_name))
			return list;
	}
	return NULL;
}

static void take(const struct ifaddrs *entry, struct sxt_oob *out)
{
	struct sxt_oob oob = {0};

	oob.addr_len = entry->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							     : sizeof(struct sockaddr_in6);
	memcpy(&oob.addr, entry->ifa_addr, oob.addr_len);
	snprintf(oob.ifname, sizeof(oob.ifname), "%s", entry->ifa_name);
	*out = oob;
}

static void list_seen(const struct ifaddrs *list, char *out, size_t out_bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (; list != NULL && used < out_bytes; list = list->ifa_next) {
		struct sockaddr_storage addr = {0};
		char text[64];

		if (list->ifa_addr == NULL ||
		    (list->ifa_addr->sa_family != AF_INET && list->ifa_addr->sa_family != AF_INET6))
			continue;
		memcpy(&addr, list->ifa_addr,
		       list->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							    : sizeof(struct sockaddr_in6));
		sxt_oob_text(&addr, text, sizeof(text));
		used += (size_t)snprintf(out + used, out_bytes - used, "%s%s %s%s",
					 used > 0 ? ", " : "", list->ifa_name, text,
					 (list->ifa_flags & IFF_UP) == 0 ? " (down)" : "");
	}
}

static int choose(const struct ifaddrs *list, const struct sxt_config *config, struct sxt_oob *out)
{
	const struct ifaddrs *found = NULL;
	char seen[1024];
	int family;
	int rc = wanted_family(config, &family);

	if (rc != 0)
		return rc;
	if (config->socket_ifname[0] != '\0')
		found = find(list, family, config->socket_ifname);
	for (size_t i = 0;
	     i < SXT_ARRAY_LEN(default_order) && config->socket_ifname[0] == '\0' && found == NULL;
	     i++)
		found = find(list, family, default_order[i]);
	if (found != NULL) {
		take(found, out);
		return 0;
	}
	list_seen(list, seen, sizeof(seen));
	SXT_LOG(SXT_LOG_ERROR,
		"no interface for the side channel: NCCL_SOCKET_IFNAME=%s NCCL_SOCKET_FAMILY=%s "
		"leaves none of these: %s",
		config->socket_ifname[0] != '\0' ? config->socket_ifname : "(unset)",
		config->socket_family[0] != '\0' ? config->socket_family : "(unset)",
		seen[0] != '\0' ? seen : "(no interface has an address)");
	return -ENODEV;
}

int sxt_oob_choose(const struct sxt_sys *sys, const struct sxt_config *config, struct sxt_oob *out)
{
	struct ifaddrs *list = NULL;
	int rc;

	if (sys->getifaddrs(&list) != 0) {
		rc = -errno;
		SXT_LOG(SXT_LOG_ERROR, "listing network interfaces: %s", sxt_strerror(rc));
		return rc;
	}
	rc = choose(list, config, out);
	sys->freeifaddrs(list);
	return rc;
}

void sxt_oob_to_wire(const struct sockaddr_storage *addr, struct sxt_wire_addr *out)
{
	struct sxt_wire_addr wire = {0};

	if (addr->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)addr;

		wire.family = 4;
		wire.port = ntohs(in->sin_port);
		memcpy(wire.ip, &in->sin_addr, sizeof(in->sin_addr));
	} else {
		const struct sockaddr_in6 *in6 = (const void *)addr;

		wire.family = 6;
		wire.port = ntohs(in6->sin6_port);
		wire.scope_id = in6->sin6_scope_id;
		memcpy(wire.ip, &in6->sin6_addr, sizeof(in6->sin6_addr));
	}
	*out = wire;
}

int sxt_oob_from_wire(const struct sxt_wire_addr *addr, struct sockaddr_storage *out,
		      socklen_t *len_out)
{
	struct sockaddr_storage made = {0};

	if (addr->family == 4) {
		struct sockaddr_in *in = (void *)&made;

		in->sin_family = AF_INET;
		in->sin_port = htons(addr->port);
		memcpy(&in->sin_addr, addr->ip, sizeof(in->sin_addr));
		*len_out = sizeof(*in);
	} else if (addr->family == 6) {
		struct sockaddr_in6 *in6 = (void *)&made;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(addr->port);
		in6->sin6_scope_id = addr->scope_id;
		memcpy(&in6->sin6_addr, addr->ip, sizeof(in6->sin6_addr));
		*len_out = sizeof(*in6);
	} else {
		return -EBADMSG;
	}
	*out = made;
	return 0;
}

void sxt_oob_text(const struct sockaddr_storage *addr, char *out, size_t out_bytes)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (addr->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)addr;

		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(out, out_bytes, "%s:%u", ip, ntohs(in->sin_port));
	} else if (addr->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)addr;

		inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
		snprintf(out, out_bytes, "[%s]:%u", ip, ntohs(in6->sin6_port));
	} else {
		snprintf(out, out_bytes, "?");
	}
}
