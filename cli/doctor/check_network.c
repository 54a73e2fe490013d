/*
 * check_network.c - several RoCE interfaces in one IPv4 subnet: who answers, who drops.
 */
#include "cli/doctor/doctor.h"
#include "cli/doctor/routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUTES_MAX 4096

/* A subnet that an interface is in; addresses as /proc/net/route has them. */
struct route {
	char netdev[32];
	uint32_t subnet;
	uint32_t mask;
};

static bool is_roce(const struct sxt_doctor *d, const char *netdev)
{
	for (size_t i = 0; i < d->ports_cnt; i++) {
		if (d->ports[i].ethernet && strcmp(d->ports[i].netdev, netdev) == 0)
			return true;
	}
	return false;
}

/* Routes with a gateway are no subnet of the interface's own. */
static bool parse_route(const char *line, struct route *out)
{
	size_t len = strcspn(line, " \t");
	uint32_t gateway;

	if (len == 0 || len >= sizeof(out->netdev) ||
	    sxt_route_column(line, SXT_ROUTE_SUBNET, &out->subnet) == NULL ||
	    sxt_route_column(line, SXT_ROUTE_GATEWAY, &gateway) == NULL ||
	    sxt_route_column(line, SXT_ROUTE_MASK, &out->mask) == NULL)
		return false;
	memcpy(out->netdev, line, len);
	out->netdev[len] = '\0';
	return gateway == 0 && out->subnet != 0;
}

static size_t read_routes(const struct sxt_doctor *d, char *text, struct route *routes)
{
	char *save = NULL;
	size_t cnt = 0;

	for (char *line = strtok_r(text, "\n", &save); line != NULL && cnt < ROUTES_MAX;
	     line = strtok_r(NULL, "\n", &save)) {
		if (parse_route(line, &routes[cnt]) && is_roce(d, routes[cnt].netdev))
			cnt++;
	}
	return cnt;
}

/* The larger of the value for all interfaces and for this one counts. Return: -1 unknown. */
static int effective(const struct sxt_doctor *d, const char *netdev, const char *name)
{
	uint64_t all = 0;
	uint64_t own = 0;

	if (sxt_doctor_read_u64(d, &all, "/proc/sys/net/ipv4/conf/all/%s", name) != 0 &&
	    sxt_doctor_read_u64(d, &own, "/proc/sys/net/ipv4/conf/%s/%s", netdev, name) != 0)
		return -1;
	sxt_ignore(sxt_doctor_read_u64(d, &own, "/proc/sys/net/ipv4/conf/%s/%s", netdev, name));
	return (int)((own > all ? own : all) & 0xff);
}

static void subnet_text(const struct route *route, char *out, size_t out_bytes)
{
	const unsigned char *byte = (const unsigned char *)&route->subnet;

	snprintf(out, out_bytes, "%u.%u.%u.%u/%d", byte[0], byte[1], byte[2], byte[3],
		 __builtin_popcount(route->mask));
}

/* A subnet with at least two interfaces, told at its first. */
static void check_subnet(struct sxt_doctor *d, const struct route *route, const char *netdevs)
{
	int arp_ignore = effective(d, route->netdev, "arp_ignore");
	int arp_announce = effective(d, route->netdev, "arp_announce");
	int rp_filter = effective(d, route->netdev, "rp_filter");
	char subnet[64];

	subnet_text(route, subnet, sizeof(subnet));
	if (arp_ignore == 0 || (arp_announce >= 0 && arp_announce < 2))
		sxt_doctor_add(d, SXT_FINDING_NET_SAME_SUBNET, subnet,
			       "arp_ignore 1 or 2, arp_announce 2",
			       "%s; arp_ignore %d, arp_announce %d", netdevs, arp_ignore,
			       arp_announce);
	if (rp_filter == 1)
		sxt_doctor_add(d, SXT_FINDING_NET_RP_FILTER, subnet, "rp_filter 2 or 0",
			       "%s; rp_filter %d", netdevs, rp_filter);
}

static bool same_subnet(const struct route *a, const struct route *b)
{
	return a->subnet == b->subnet && a->mask == b->mask;
}

/* Names of the interfaces in the subnet of routes[first], which is the first of its kind. */
static size_t list_subnet(const struct route *routes, size_t cnt, size_t first, char *out,
			  size_t out_bytes)
{
	size_t alike = 0;
	size_t len = 0;

	for (size_t i = first; i < cnt; i++) {
		if (!same_subnet(&routes[i], &routes[first]))
			continue;
		if (len + sizeof(routes[i].netdev) + 2 < out_bytes)
			len += (size_t)snprintf(out + len, out_bytes - len, "%s%s",
						alike > 0 ? " " : "", routes[i].netdev);
		alike++;
	}
	return alike;
}

static void check_routes(struct sxt_doctor *d, const struct route *routes, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		char netdevs[256];
		size_t before = 0;

		while (before < i && !same_subnet(&routes[before], &routes[i]))
			before++;
		if (before == i && list_subnet(routes, cnt, i, netdevs, sizeof(netdevs)) > 1)
			check_subnet(d, &routes[i], netdevs);
	}
}

void sxt_check_network(struct sxt_doctor *d)
{
	struct route *routes;
	char *text;

	if (d->ports_cnt < 2)
		return;
	text = sxt_doctor_slurp(d, "/proc/net/route", NULL);
	if (text == NULL) {
		sxt_doctor_not_read(d, "/proc/net/route", -errno);
		return;
	}
	routes = calloc(ROUTES_MAX, sizeof(*routes));
	if (routes != NULL)
		check_routes(d, routes, read_routes(d, text, routes));
	else
		d->out_of_memory = true;
	free(routes);
	free(text);
}
