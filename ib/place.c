/*
 * place.c - where a port is reached right now: its state, its addresses, its limits (slow path).
 */
#include "ib/place.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sys.h"
#include "ib/device.h"
#include "ib/gid_read.h"
#include "ib/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *state_name(enum ibv_port_state state)
{
	static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "DEFER"};

	return (unsigned int)state < SXT_ARRAY_LEN(names) ? names[state] : "unknown";
}

static const char *phys_state_name(uint8_t state)
{
	static const char *const names[] = {"none",     "sleeping", "polling",        "disabled",
					    "training", "link up",  "error recovery", "phy test"};

	return state < SXT_ARRAY_LEN(names) ? names[state] : "unknown";
}

static const char *state_hint(const struct ibv_port_attr *attr)
{
	if (attr->phys_state == 3)
		return "; it is disabled, see `ip link` or `ibportstate`";
	if (attr->phys_state == 2)
		return "; no signal: check cable, module and the switch's port";
	if (attr->state == IBV_PORT_INIT || attr->state == IBV_PORT_ARMED)
		return "; is a subnet manager running?";
	return "";
}

/* May a port in this state carry a connection? Return: 0, or -ENETDOWN with the reason. */
static int check_state(const struct ibv_port_attr *attr, char *why)
{
	if (attr->state != IBV_PORT_ACTIVE) {
		snprintf(why, SXT_PLACE_WHY_BYTES, "it is %s (%s)%s", state_name(attr->state),
			 phys_state_name(attr->phys_state), state_hint(attr));
		return -ENETDOWN;
	}
	if (attr->link_layer == IBV_LINK_LAYER_ETHERNET)
		return 0;
	if (attr->lid == 0 || attr->sm_lid == 0) {
		snprintf(why, SXT_PLACE_WHY_BYTES,
			 "it has %s (LID %u, SM LID %u): is a subnet manager running?",
			 attr->lid == 0 ? "no LID" : "no subnet manager", attr->lid, attr->sm_lid);
		return -ENETDOWN;
	}
	return 0;
}

static bool is_empty(const union ibv_gid *gid)
{
	return gid->global.subnet_prefix == 0 && gid->global.interface_id == 0;
}

/* All entries in one call; one by one where the library or the driver cannot. */
static int read_at_once(const struct sxt_port *port, uint32_t most, struct sxt_port_gids *out)
{
	const struct sxt_device *device = port->device;
	struct ibv_gid_entry *all;
	uint32_t all_cnt = 0;
	int rc;

	/* The call gives the entries of all ports, and fails where they do not fit. */
	most *= device->attr.phys_port_cnt > 0 ? device->attr.phys_port_cnt : 1u;
	all = calloc(most + 1u, sizeof(*all));
	if (all == NULL)
		return -ENOMEM;
	rc = sxt_verbs_query_gid_table(device->verbs, device->context, all, most + 1u, &all_cnt);
	for (uint32_t i = 0; rc == 0 && i < all_cnt && out->table.cnt < out->table.len; i++) {
		if (all[i].port_num != port->num || is_empty(&all[i].gid))
			continue;
		memcpy(out->gids[out->table.cnt].raw, all[i].gid.raw, SXT_GID_BYTES);
		out->gids[out->table.cnt].index = all[i].gid_index;
		out->gids[out->table.cnt++].type = (uint8_t)all[i].gid_type;
	}
	free(all);
	return rc;
}

static void read_one_by_one(const struct sxt_port *port, struct sxt_port_gids *out)
{
	const struct sxt_device *device = port->device;

	out->table.cnt = 0;
	for (uint32_t i = 0; i < out->table.len; i++) {
		struct sxt_gid *gid = &out->gids[out->table.cnt];
		union ibv_gid raw;

		/* Drivers answer an error for a hole as often as zeroes. */
		if (sxt_verbs_query_gid(device->verbs, device->context, port->num, (int)i, &raw) !=
			    0 ||
		    is_empty(&raw))
			continue;
		memcpy(gid->raw, raw.raw, SXT_GID_BYTES);
		gid->index = i;
		if (sxt_verbs_query_gid_type(device->verbs, device->context, port->num, (int)i,
					     &gid->type) != 0)
			gid->type = SXT_GID_TYPE_UNKNOWN;
		out->table.cnt++;
	}
}

void sxt_place_read_facts(const struct sxt_port *port, struct sxt_gid *gids, uint32_t cnt)
{
	const struct sxt_ib *ib = port->device->ib;
	struct ifaddrs *addrs = NULL;
	struct sxt_gid_source source = {
		.sysroot = ib->config->sysroot,
		.device = port->device->name,
		.port = port->num,
	};

	/* InfiniBand's addresses belong to no interface. */
	if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return;
	if (ib->sys->getifaddrs(&addrs) == 0)
		source.addrs = addrs;
	sxt_gid_read_facts(&source, gids, cnt);
	if (source.addrs != NULL)
		ib->sys->freeifaddrs(addrs);
	for (uint32_t i = 0; i < cnt && ib->config->ib_subnet_prefix_len != 0; i++) {
		if (sxt_gid_is_ipv4(gids[i].raw))
			gids[i].prefix_len = (uint8_t)ib->config->ib_subnet_prefix_len;
	}
}

/* Reads and ranks. A table without candidates is no error. */
static int read_gids(const struct sxt_port *port, int len, struct sxt_port_gids *out)
{
	struct sxt_port_gids gids = {0};
	int rc = -ENOMEM;

	gids.table.is_infiniband = port->link_layer == IBV_LINK_LAYER_INFINIBAND;
	if (len > 0)
		gids.table.len = len < SXT_GIDS_MAX ? (uint32_t)len : SXT_GIDS_MAX;
	gids.gids = calloc(gids.table.len + 1u, sizeof(*gids.gids));
	gids.ranks = calloc(gids.table.len + 1u, sizeof(*gids.ranks));
	if (gids.gids == NULL || gids.ranks == NULL)
		goto fail;
	rc = read_at_once(port, gids.table.len, &gids);
	if (rc == -ENOMEM)
		goto fail;
	if (rc != 0)
		read_one_by_one(port, &gids);
	sxt_place_read_facts(port, gids.gids, gids.table.cnt);
	gids.table.gids = gids.gids;
	gids.candidates_cnt = sxt_gid_rank_table(&gids.table, &port->device->ib->gid_wishes,
						 gids.ranks, &gids.notes);
	*out = gids;
	return 0;
fail:
	sxt_port_gids_fini(&gids);
	return rc;
}

void sxt_port_gids_fini(struct sxt_port_gids *gids)
{
	free(gids->gids);
	free(gids->ranks);
	*gids = (struct sxt_port_gids){0};
}

static uint32_t log2_floor(uint32_t value)
{
	return value == 0 ? 0 : 31u - (uint32_t)__builtin_clz(value);
}

static void fill(const struct sxt_port *port, const struct ibv_port_attr *attr,
		 const struct sxt_gid *gid, struct sxt_port_place *out)
{
	*out = (struct sxt_port_place){
		.path =
			{
				.lid = attr->lid,
				.link_layer = port->link_layer,
				.mtu = (uint8_t)attr->active_mtu,
				.port_num = port->num,
				.rail = (uint8_t)(port->rail < UINT8_MAX ? port->rail + 1 : 0),
				.max_message_log2 = log2_floor(attr->max_msg_sz),
			},
		.gid_index = (uint16_t)gid->index,
		.grh_required = (attr->flags & IBV_QPF_GRH_REQUIRED) != 0,
	};
	memcpy(out->path.gid, gid->raw, sizeof(out->path.gid));
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET)
		out->path.gid_type = gid->type == SXT_GID_TYPE_UNKNOWN ? SXT_GID_TYPE_ROCE_V2
				     : gid->type == SXT_GID_TYPE_IB    ? SXT_GID_TYPE_ROCE_V1
								       : gid->type;
	memcpy(out->path.hca, port->label, strnlen(port->label, sizeof(out->path.hca) - 1));
}

static void explain_none(const struct sxt_port_gids *gids, const struct sxt_gid_wishes *wishes,
			 char *why)
{
	const uint32_t telling = SXT_GID_NOTE_NO_RANGE | SXT_GID_NOTE_ALL_FOREIGN;

	if ((gids->notes & telling) != 0)
		sxt_gid_note_text(gids->notes & telling, &gids->table, wishes, why,
				  SXT_PLACE_WHY_BYTES);
	else
		snprintf(why, SXT_PLACE_WHY_BYTES,
			 "no entry of its GID table (%u entries) can be used: give its interface "
			 "an address",
			 gids->table.len);
}

/* @attr_out: written before the addresses are looked at. */
static int survey(const struct sxt_port *port, struct ibv_port_attr *attr_out,
		  struct sxt_port_gids *out, char *why)
{
	const struct sxt_device *device = port->device;
	int rc = sxt_verbs_query_port(device->verbs, device->context, port->num, attr_out);

	if (rc != 0) {
		snprintf(why, SXT_PLACE_WHY_BYTES, "it cannot be queried: %s", sxt_strerror(rc));
		return rc;
	}
	rc = check_state(attr_out, why);
	if (rc != 0)
		return rc;
	rc = read_gids(port, attr_out->gid_tbl_len, out);
	if (rc != 0) {
		snprintf(why, SXT_PLACE_WHY_BYTES, "reading its GID table: %s", sxt_strerror(rc));
		return rc;
	}
	if (out->candidates_cnt == 0) {
		explain_none(out, &device->ib->gid_wishes, why);
		rc = (out->notes & SXT_GID_NOTE_ALL_FOREIGN) != 0 ? -ENETDOWN : -EADDRNOTAVAIL;
		sxt_port_gids_fini(out);
		return rc;
	}
	return 0;
}

int sxt_place_survey(const struct sxt_port *port, struct sxt_place_survey *out, char *why)
{
	struct sxt_place_survey found = {0};
	int rc = survey(port, &found.attr, &found.gids, why);

	if (rc != 0)
		return rc;
	fill(port, &found.attr, &found.gids.gids[found.gids.ranks[0].at], &found.place);
	*out = found;
	return 0;
}

static void fill_seen(const struct sxt_port *port, const struct sxt_place_survey *found,
		      struct sxt_port_seen *out)
{
	*out = (struct sxt_port_seen){
		.place = found->place,
		.speed_mbps = sxt_device_speed(port->device, port->num, &found->attr),
		.sm_lid = found->attr.sm_lid,
		.prefix_len = found->gids.gids[found->gids.ranks[0].at].prefix_len,
		.is_usable = true,
	};
}

static void tell_address(const struct sxt_port *port, const struct sxt_port_place *was,
			 const struct sxt_port_place *now)
{
	bool is_other = memcmp(was->path.gid, now->path.gid, sizeof(was->path.gid)) != 0 ||
			was->path.gid_type != now->path.gid_type;
	char before[64];
	char after[64];

	/* Nearly always: every connect comes by, and texts take time. */
	if (!is_other && was->gid_index == now->gid_index)
		return;
	sxt_gid_text(was->path.gid, before, sizeof(before));
	sxt_gid_text(now->path.gid, after, sizeof(after));
	if (is_other)
		SXT_LOG(SXT_LOG_WARN,
			"port %s: its address was %s (%s), new connections use GID index %u %s "
			"(%s)",
			port->label, before, sxt_gid_type_text(was->path.gid_type), now->gid_index,
			after, sxt_gid_type_text(now->path.gid_type));
	else
		SXT_LOG(SXT_LOG_INFO, "port %s: GID moved from index %u to %u (same address %s)",
			port->label, was->gid_index, now->gid_index, after);
}

static void tell_number(const struct sxt_port *port, const char *what, uint32_t was, uint32_t now)
{
	if (was != now)
		SXT_LOG(SXT_LOG_INFO, "port %s: its %s was %u and is %u now", port->label, what,
			was, now);
}

static void tell_changes(const struct sxt_port *port, const struct sxt_port_seen *was,
			 const struct sxt_port_seen *now)
{
	tell_address(port, &was->place, &now->place);
	tell_number(port, "LID", was->place.path.lid, now->place.path.lid);
	tell_number(port, "subnet manager's LID", was->sm_lid, now->sm_lid);
	tell_number(port, "MTU", 128u << was->place.path.mtu, 128u << now->place.path.mtu);
	if (now->speed_mbps < was->speed_mbps)
		SXT_LOG(SXT_LOG_WARN,
			"port %s: it runs at %u Gb/s now, after %u: look at cable and switch",
			port->label, now->speed_mbps / 1000, was->speed_mbps / 1000);
	else
		tell_number(port, "speed in Mb/s", was->speed_mbps, now->speed_mbps);
}

void sxt_place_remember(struct sxt_port *port, const struct sxt_place_survey *found)
{
	struct sxt_port_seen was;
	struct sxt_port_seen now = {0};

	if (found != NULL)
		fill_seen(port, found, &now);
	pthread_mutex_lock(&port->seen_lock);
	was = port->seen;
	/* What it was when it last worked is what its return is compared with. */
	if (found != NULL)
		port->seen = now;
	else
		port->seen.is_usable = false;
	pthread_mutex_unlock(&port->seen_lock);
	if (found != NULL && was.place.path.port_num != 0)
		tell_changes(port, &was, &now);
}

void sxt_port_seen_get(struct sxt_port *port, struct sxt_port_seen *out)
{
	pthread_mutex_lock(&port->seen_lock);
	*out = port->seen;
	pthread_mutex_unlock(&port->seen_lock);
}

/* Read anew and remember; a failure is logged. */
static int look(struct sxt_port *port, struct sxt_place_survey *out)
{
	char why[SXT_PLACE_WHY_BYTES] = "its HCA failed for good (device fatal event)";
	int rc = -ENODEV;

	if (sxt_port_is_alive(port))
		rc = sxt_place_survey(port, out, why);
	sxt_place_remember(port, rc == 0 ? out : NULL);
	if (rc != 0)
		SXT_LOG(SXT_LOG_WARN, "port %s (port %u) cannot be used: %s", port->label,
			port->num, why);
	return rc;
}

void sxt_port_reread(struct sxt_port *port)
{
	struct sxt_place_survey found = {0};
	char why[SXT_PLACE_WHY_BYTES] = "";
	int rc = sxt_place_survey(port, &found, why);

	sxt_place_remember(port, rc == 0 ? &found : NULL);
	if (rc != 0)
		SXT_LOG(SXT_LOG_INFO, "port %s cannot be used now: %s", port->label, why);
	sxt_port_gids_fini(&found.gids);
}

int sxt_port_candidates(struct sxt_port *port, struct sxt_port_address *out, uint32_t most,
			uint32_t *cnt_out)
{
	struct sxt_place_survey found = {0};
	int rc = look(port, &found);
	uint32_t cnt;

	if (rc != 0)
		return rc;
	cnt = found.gids.candidates_cnt < most ? found.gids.candidates_cnt : most;
	for (uint32_t i = 0; i < cnt; i++) {
		out[i].gid = found.gids.gids[found.gids.ranks[i].at];
		fill(port, &found.attr, &out[i].gid, &out[i].place);
	}
	*cnt_out = cnt;
	sxt_port_gids_fini(&found.gids);
	return 0;
}
