/*
 * port.c - the list of ports that can be used, and why the others cannot (slow path).
 */
#include "ib/port.h"

#include "core/log.h"
#include "core/status.h"
#include "core/sysfs.h"
#include "ib/device.h"
#include "ib/hca.h"
#include "ib/place.h"
#include "ib/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A port that can be used, while the list is made. */
struct entry {
	struct sxt_port *port;
	struct sxt_place_survey found;
};

struct listing {
	struct sxt_ib *ib;
	struct sxt_hca_list hcas;
	struct sxt_hca_port *seen; /* every port there is */
	uint32_t seen_cnt;
	struct entry *entries;
	uint32_t cnt;
	int bad_cnt; /* settings that are wrong */
};

/* For the line that says that none is left. */
static void remember(struct sxt_ib *ib, const char *what, const char *why)
{
	size_t used = strlen(ib->left_out);

	snprintf(ib->left_out + used, sizeof(ib->left_out) - used, "%s%s: %s",
		 used != 0 ? "; " : "", what, why);
}

static void left_out(struct sxt_ib *ib, enum sxt_log_level level, const char *label,
		     unsigned int num, const char *why)
{
	char what[80];

	SXT_LOG(level, "port %s:%u is left out: %s", label, num, why);
	snprintf(what, sizeof(what), "%s:%u", label, num);
	remember(ib, what, why);
}

static const char *kind_text(const struct sxt_port_place *place)
{
	if (place->path.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return "InfiniBand";
	return sxt_gid_type_text(place->path.gid_type);
}

/* One line for the port, one for each thing about its addresses that the user should know. */
static void announce(const struct sxt_port *port, const struct sxt_place_survey *found)
{
	const struct sxt_gid_wishes *wishes = &port->device->ib->gid_wishes;
	const struct sxt_port_place *place = &found->place;
	char text[SXT_PLACE_WHY_BYTES];

	sxt_gid_choice_text(&found->gids.table, found->gids.ranks, found->gids.candidates_cnt, text,
			    sizeof(text));
	SXT_LOG(SXT_LOG_INFO, "port %s: %s, %u Gb/s, MTU %u, %s%s, LID %u, PCI %s", port->name,
		kind_text(place), port->speed_mbps / 1000, 128u << place->path.mtu, text,
		place->grh_required ? " (GRH required)" : "", place->path.lid,
		port->device->pci_path[0] != '\0' ? port->device->pci_path : "unknown");
	for (uint32_t left = found->gids.notes; left != 0; left &= left - 1) {
		uint32_t note = left & -left;

		sxt_gid_note_text(note, &found->gids.table, wishes, text, sizeof(text));
		SXT_LOG((note & SXT_GID_NOTES_INFO) != 0 ? SXT_LOG_INFO : SXT_LOG_WARN,
			"port %s: %s", port->label, text);
	}
}

/* @num: 0 where the HCA could not be asked for its ports. */
static int add_seen(struct listing *listing, const char *device, unsigned int num)
{
	struct sxt_hca_port *grown =
		realloc(listing->seen, (listing->seen_cnt + 1u) * sizeof(*grown));

	if (grown == NULL)
		return -ENOMEM;
	listing->seen = grown;
	listing->seen[listing->seen_cnt++] = (struct sxt_hca_port){.device = device, .num = num};
	return 0;
}

static int append(struct listing *listing, const struct entry *entry)
{
	struct entry *grown = realloc(listing->entries, (listing->cnt + 1u) * sizeof(*grown));

	if (grown == NULL)
		return -ENOMEM;
	listing->entries = grown;
	listing->entries[listing->cnt++] = *entry;
	return 0;
}

static void free_port(struct sxt_port *port)
{
	if (port == NULL)
		return;
	pthread_mutex_destroy(&port->seen_lock);
	free(port);
}

static uint32_t log2_floor(uint32_t value)
{
	return value == 0 ? 0 : 31u - (uint32_t)__builtin_clz(value);
}

/* Libraries older than RoCE leave it at 0. */
static uint8_t link_layer_of(const struct ibv_port_attr *attr)
{
	return attr->link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_LINK_LAYER_ETHERNET
							   : IBV_LINK_LAYER_INFINIBAND;
}

static struct sxt_port *create_port(const struct listing *listing, struct sxt_device *device,
				    uint8_t num, const struct ibv_port_attr *attr)
{
	const struct sxt_hca_entry *named = sxt_hca_find(&listing->hcas, device->name, num);
	struct sxt_port *port = calloc(1, sizeof(*port));

	if (port == NULL)
		return NULL;
	pthread_mutex_init(&port->seen_lock, NULL);
	port->device = device;
	port->num = num;
	port->link_layer = link_layer_of(attr);
	port->max_message_bytes = attr->max_msg_sz;
	port->max_message_log2 = log2_floor(attr->max_msg_sz);
	port->rail = -1;
	port->plane = -1;
	if (named != NULL) {
		port->rail = named->rail;
		port->plane = named->plane;
	}
	if (num == 1)
		snprintf(port->label, sizeof(port->label), "%s", device->name);
	else
		snprintf(port->label, sizeof(port->label), "%s:%u", device->name, num);
	snprintf(port->name, sizeof(port->name), "sxt_%s", port->label);
	port->speed_mbps = sxt_device_speed(device, num, attr);
	return port;
}

/* How loud to be about a port that cannot be used: who asked for it, or could have it, hears. */
static enum sxt_log_level level_of(const struct listing *listing, const char *device,
				   unsigned int num, int rc)
{
	if (rc == -EADDRNOTAVAIL || sxt_hca_names(&listing->hcas, device, num))
		return SXT_LOG_WARN;
	return SXT_LOG_INFO;
}

/* Into the list where it can be used, else it is left out, which is no error. */
static int add_usable(struct listing *listing, struct sxt_device *device, uint8_t num,
		      const struct ibv_port_attr *attr)
{
	char why[SXT_PLACE_WHY_BYTES] = "";
	struct entry entry = {.port = create_port(listing, device, num, attr)};
	int rc = entry.port != NULL ? sxt_place_survey(entry.port, &entry.found, why) : -ENOMEM;

	if (rc == 0) {
		listing->bad_cnt += (entry.found.gids.notes & SXT_GID_NOTES_STRICT) != 0;
		rc = append(listing, &entry);
	} else if (rc != -ENOMEM) {
		device->late[num / 8] |= (uint8_t)(1u << num % 8);
		left_out(listing->ib, level_of(listing, device->name, num, rc), device->name, num,
			 why);
	}
	if (rc == 0)
		return 0;
	sxt_port_gids_fini(&entry.found.gids);
	free_port(entry.port);
	return rc == -ENOMEM ? rc : 0;
}

static int add_port(struct listing *listing, struct sxt_device *device, uint8_t num)
{
	const char *text = listing->ib->config->ib_hca;
	struct ibv_port_attr attr;
	char why[SXT_PLACE_WHY_BYTES];
	int rc = add_seen(listing, device->name, num);

	if (rc != 0)
		return rc;
	if (!sxt_hca_picks(&listing->hcas, device->name, num)) {
		snprintf(why, sizeof(why), "NCCL_IB_HCA=%.200s excludes it", text);
		left_out(listing->ib, SXT_LOG_INFO, device->name, num, why);
		return 0;
	}
	rc = sxt_verbs_query_port(device->verbs, device->context, num, &attr);
	if (rc != 0) {
		snprintf(why, sizeof(why), "it cannot be queried: %s", sxt_strerror(rc));
		left_out(listing->ib, level_of(listing, device->name, num, rc), device->name, num,
			 why);
		return 0;
	}
	return add_usable(listing, device, num, &attr);
}

static int add_device(struct listing *listing, struct ibv_device *from)
{
	struct sxt_ib *ib = listing->ib;
	const char *name = ib->verbs->get_device_name(from);
	const char *why = sxt_device_unusable(from);
	struct sxt_device *device = NULL;
	int rc = 0;

	if (why != NULL) {
		SXT_LOG(SXT_LOG_INFO, "HCA %s is left out: %s", name, why);
		remember(ib, name, why);
	} else {
		rc = sxt_device_open(ib, from, &device);
	}
	if (rc == 0 && device == NULL)
		return add_seen(listing, name, 0);
	if (rc != 0)
		return rc;
	sxt_list_append(&ib->devices, &device->node);
	for (unsigned int num = 1; num <= device->attr.phys_port_cnt && rc == 0; num++)
		rc = add_port(listing, device, (uint8_t)num);
	return rc;
}

static void drop(struct listing *listing, uint32_t at, enum sxt_log_level level, const char *why)
{
	struct entry *entry = &listing->entries[at];

	left_out(listing->ib, level, entry->port->device->name, entry->port->num, why);
	sxt_port_gids_fini(&entry->found.gids);
	free_port(entry->port);
	listing->cnt--;
	memmove(entry, entry + 1, (listing->cnt - at) * sizeof(*entry));
}

/* The ports of one link layer. */
struct share {
	uint32_t cnt;
	uint64_t mbps;
};

static struct share share_of(const struct listing *listing, uint8_t link_layer)
{
	struct share share = {0};

	for (uint32_t i = 0; i < listing->cnt; i++) {
		const struct sxt_port *port = listing->entries[i].port;

		if (port->link_layer != link_layer)
			continue;
		share.cnt++;
		share.mbps += port->speed_mbps;
	}
	return share;
}

/* InfiniBand and RoCE cannot talk, and NCCL joins whatever it is given. Who names ports knows. */
static void drop_minority(struct listing *listing)
{
	struct share ib = share_of(listing, IBV_LINK_LAYER_INFINIBAND);
	struct share roce = share_of(listing, IBV_LINK_LAYER_ETHERNET);
	bool keeps_ib = ib.cnt != roce.cnt ? ib.cnt > roce.cnt : ib.mbps >= roce.mbps;
	char why[256];

	if (ib.cnt == 0 || roce.cnt == 0 || (listing->hcas.cnt > 0 && !listing->hcas.excludes))
		return;
	snprintf(why, sizeof(why),
		 "it is %s, and most ports here (%u of %u, %llu Gb/s) are %s, which it cannot talk "
		 "to; name ports in NCCL_IB_HCA to choose them yourself",
		 keeps_ib ? "RoCE" : "InfiniBand", keeps_ib ? ib.cnt : roce.cnt, listing->cnt,
		 (unsigned long long)(keeps_ib ? ib.mbps : roce.mbps) / 1000,
		 keeps_ib ? "InfiniBand" : "RoCE");
	for (uint32_t i = listing->cnt; i-- > 0;) {
		if ((listing->entries[i].port->link_layer == IBV_LINK_LAYER_INFINIBAND) != keeps_ib)
			drop(listing, i, SXT_LOG_WARN, why);
	}
}

/* Storage and management ports slow a ring down to their speed. */
static void drop_slow(struct listing *listing)
{
	bool is_asked = listing->ib->config->skip_slow_ports != 0;
	uint32_t fastest = 0;
	char why[160];

	for (uint32_t i = 0; i < listing->cnt; i++) {
		if (listing->entries[i].port->speed_mbps > fastest)
			fastest = listing->entries[i].port->speed_mbps;
	}
	for (uint32_t i = listing->cnt; i-- > 0;) {
		const struct sxt_port *port = listing->entries[i].port;
		uint32_t mbps = port->speed_mbps;

		if (mbps == 0 || mbps >= fastest / 2)
			continue;
		snprintf(why, sizeof(why), "its %u Gb/s are less than half of the fastest's %u",
			 mbps / 1000, fastest / 1000);
		if (is_asked)
			drop(listing, i, SXT_LOG_INFO, why);
		else
			SXT_LOG(SXT_LOG_INFO,
				"port %s:%u: %s; SEXTANT_SKIP_SLOW_PORTS=1 would leave it out",
				port->device->name, port->num, why);
	}
}

static int compare_entries(const void *left, const void *right)
{
	const struct sxt_port *a = ((const struct entry *)left)->port;
	const struct sxt_port *b = ((const struct entry *)right)->port;
	int order = strcmp(a->device->pci_path, b->device->pci_path);

	if (order == 0)
		order = strcmp(a->device->name, b->device->name);
	return order != 0 ? order : (int)a->num - (int)b->num;
}

/* The ports become the transport's. */
static int hand_over(struct listing *listing)
{
	struct sxt_ib *ib = listing->ib;

	ib->ports = calloc(listing->cnt, sizeof(*ib->ports));
	if (ib->ports == NULL)
		return -ENOMEM;
	if (ib->config->ib_device_pci_order != 0)
		qsort(listing->entries, listing->cnt, sizeof(*listing->entries), compare_entries);
	for (uint32_t i = 0; i < listing->cnt; i++) {
		struct entry *entry = &listing->entries[i];

		announce(entry->port, &entry->found);
		sxt_place_remember(entry->port, &entry->found);
		entry->port->index = i;
		ib->ports[ib->ports_cnt++] = entry->port;
		entry->port = NULL;
	}
	return 0;
}

static int choose(struct listing *listing, int devices_cnt)
{
	struct sxt_ib *ib = listing->ib;

	listing->bad_cnt += sxt_hca_check(&listing->hcas, listing->seen, listing->seen_cnt);
	if (listing->bad_cnt > 0 && ib->config->strict != 0) {
		SXT_LOG(SXT_LOG_ERROR,
			"%d bad setting(s) and SEXTANT_STRICT=1: not starting. Correct what the "
			"lines above name, or unset SEXTANT_STRICT.",
			listing->bad_cnt);
		return -EINVAL;
	}
	drop_minority(listing);
	drop_slow(listing);
	if (listing->cnt > 0)
		return hand_over(listing);
	SXT_LOG(SXT_LOG_ERROR, "none of %d HCAs has a port that can be used%s%s", devices_cnt,
		ib->left_out[0] != '\0' ? ": " : "; the warnings before this one say why",
		ib->left_out);
	return -ENODEV;
}

static void finish(struct listing *listing)
{
	for (uint32_t i = 0; i < listing->cnt; i++) {
		sxt_port_gids_fini(&listing->entries[i].found.gids);
		free_port(listing->entries[i].port);
	}
	free(listing->entries);
	free(listing->seen);
	sxt_hca_fini(&listing->hcas);
}

static int list_all(struct listing *listing, struct ibv_device **list, int cnt)
{
	int hca_bad_cnt = 0;
	int rc = sxt_hca_parse(listing->ib->config->ib_hca, &listing->hcas, &hca_bad_cnt);

	listing->bad_cnt = hca_bad_cnt;
	listing->bad_cnt += sxt_gid_wishes_parse(listing->ib->config, &listing->ib->gid_wishes);
	for (int i = 0; i < cnt && rc == 0; i++)
		rc = add_device(listing, list[i]);
	if (rc == 0)
		rc = choose(listing, cnt);
	if (rc == -ENOMEM)
		SXT_LOG(SXT_LOG_ERROR, "listing the ports of the HCAs: %s", sxt_strerror(rc));
	return rc;
}

/* The library lists none: what the kernel has tells why. */
static void tell_no_hca(const char *root)
{
	struct sxt_names hcas = {0};
	struct sxt_names verbs = {0};

	sxt_ignore(sxt_sysfs_list(root, "/sys/class/infiniband", &hcas));
	sxt_ignore(sxt_sysfs_list(root, "/sys/class/infiniband_verbs", &verbs));
	if (hcas.cnt == 0)
		SXT_LOG(SXT_LOG_ERROR,
			"there is no HCA: /sys/class/infiniband has none; load the driver of the "
			"card (such as mlx5_ib, bnxt_re, irdma), or give this container the host's "
			"/sys and an HCA (`rdma system`)");
	else if (verbs.cnt == 0)
		SXT_LOG(SXT_LOG_ERROR,
			"there is no HCA that programs can use: the kernel has %s%s, and "
			"/sys/class/infiniband_verbs none: modprobe ib_uverbs",
			hcas.list[0], hcas.cnt > 1 ? " and more" : "");
	else
		SXT_LOG(SXT_LOG_ERROR,
			"there is no HCA that libibverbs knows: the kernel has %s%s; install the "
			"provider of its driver in this image (Debian and Ubuntu: "
			"ibverbs-providers, RHEL: libibverbs, SUSE: libibverbs and libmlx5)",
			hcas.list[0], hcas.cnt > 1 ? " and more" : "");
	sxt_names_fini(&hcas);
	sxt_names_fini(&verbs);
}

int sxt_ports_open(struct sxt_ib *ib)
{
	struct listing listing = {.ib = ib};
	struct ibv_device **list;
	int cnt = 0;
	int rc = sxt_verbs_device_list(ib->verbs, &list, &cnt);

	if (rc != 0) {
		SXT_LOG(SXT_LOG_ERROR,
			"listing HCAs: %s; is the kernel module ib_uverbs loaded (modprobe "
			"ib_uverbs)?",
			sxt_strerror(rc));
		return -ENODEV;
	}
	if (cnt == 0) {
		tell_no_hca(ib->config->sysroot);
		rc = -ENODEV;
	} else {
		rc = list_all(&listing, list, cnt);
	}
	finish(&listing);
	ib->verbs->free_device_list(list);
	return rc;
}

void sxt_port_look_late(struct sxt_device *device, unsigned int num)
{
	struct sxt_port port = {.device = device, .num = (uint8_t)num};
	struct sxt_place_survey found = {0};
	char why[SXT_PLACE_WHY_BYTES];

	if (num / 8 >= sizeof(device->late) || (device->late[num / 8] & 1u << num % 8) == 0 ||
	    sxt_verbs_query_port(device->verbs, device->context, port.num, &found.attr) != 0)
		return;
	port.link_layer = link_layer_of(&found.attr);
	if (sxt_place_survey(&port, &found, why) != 0)
		return;
	sxt_port_gids_fini(&found.gids);
	device->late[num / 8] &= (uint8_t) ~(1u << num % 8);
	SXT_LOG(SXT_LOG_WARN,
		"port %s:%u can be used now, but not by this job: it could not when the job began, "
		"and NCCL asks for devices once; start the job again to use it",
		device->name, num);
}

void sxt_ports_close(struct sxt_ib *ib)
{
	struct sxt_list *node;
	struct sxt_list *after;

	for (int i = 0; i < ib->ports_cnt; i++)
		free_port(ib->ports[i]);
	free(ib->ports);
	ib->ports = NULL;
	ib->ports_cnt = 0;
	sxt_list_for_each (node, after, &ib->devices) {
		sxt_list_remove(node);
		sxt_device_close(SXT_LIST_ENTRY(node, struct sxt_device, node));
	}
}
