/*
 * nic.c - the table of NICs, one per port and the merged ones (slow path, any thread).
 */
#include "ib/nic.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/conn.h"
#include "ib/mr.h"
#include "ib/process.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Connections per NIC that we tell NCCL: as many as its own transports say. */
#define CONNS_MAX 65536

/* ".../0000:3b:00.1": does a path end in a PCI device and function? */
static bool is_pci_place(const char *path, size_t len)
{
	const char *end = path + len;

	return len > 5 && end[-5] == ':' && isxdigit((unsigned char)end[-4]) != 0 &&
	       isxdigit((unsigned char)end[-3]) != 0 && end[-2] == '.' &&
	       isxdigit((unsigned char)end[-1]) != 0;
}

/*
 * Where NCCL shall see a port. It takes equal paths for one card, so the functions of a card are
 * given the path of the first, and the ports of a path are counted on.
 */
static void show_place(const struct sxt_ib *ib, struct sxt_nic *nic)
{
	const struct sxt_port *port = nic->ports[0];
	size_t len = strlen(port->device->pci_path);

	nic->port_num = port->num;
	memcpy(nic->pci_path, port->device->pci_path, len + 1);
	if (len == 0)
		return;
	if (is_pci_place(nic->pci_path, len)) {
		nic->pci_path[len - 1] = '0';
		if (ib->config->ib_merge_vfs != 0)
			memset(nic->pci_path + len - 4, '0', 2);
	}
	for (int i = 0; i < nic->dev; i++) {
		if (strcmp(ib->nics[i]->pci_path, nic->pci_path) == 0)
			nic->port_num++;
	}
}

/* The ports' labels joined by '+'; too long for NCCL's topology, a number instead. */
static void set_name(struct sxt_nic *nic)
{
	size_t used = 0;

	for (uint32_t i = 0; i < nic->ports_cnt && used < sizeof(nic->label); i++) {
		int put = snprintf(nic->label + used, sizeof(nic->label) - used, "%s%s",
				   i > 0 ? "+" : "", nic->ports[i]->label);

		used += put > 0 ? (size_t)put : 0;
	}
	if (used >= sizeof(nic->label))
		snprintf(nic->label, sizeof(nic->label), "nic%d", nic->dev);
	snprintf(nic->name, sizeof(nic->name), "sxt_%s", nic->label);
}

/* @what: the call, for the message when memory runs out. */
static struct sxt_nic *create(int dev, const char *what)
{
	struct sxt_nic *nic = calloc(1, sizeof(*nic));

	if (nic != NULL)
		nic->dev = dev;
	else
		SXT_LOG(SXT_LOG_ERROR, "%s: %s", what, sxt_strerror(-ENOMEM));
	return nic;
}

static void add_port(struct sxt_nic *nic, struct sxt_port *port, int dev)
{
	if (nic->ports_cnt == 0 || port->max_message_log2 < nic->max_message_log2)
		nic->max_message_log2 = port->max_message_log2;
	nic->speed_mbps += port->speed_mbps;
	nic->devs[nic->ports_cnt] = dev;
	nic->ports[nic->ports_cnt++] = port;
}

static void publish(struct sxt_ib *ib, struct sxt_nic *nic)
{
	pthread_mutex_init(&nic->mr_lock, NULL);
	ib->nics[nic->dev] = nic;
	/* Pairs with the acquire in sxt_ib_nics_cnt(). */
	atomic_store_explicit(&ib->nics_cnt, nic->dev + 1, memory_order_release);
}

/* FNV-1a over the ports' names. */
static uint64_t hash_ports(const struct sxt_ib *ib)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (int i = 0; i < ib->ports_cnt; i++) {
		const char *at = ib->ports[i]->name;

		do {
			hash = (hash ^ (uint8_t)*at) * 0x100000001b3ull;
		} while (*at++ != '\0');
	}
	return hash;
}

/* Lists about other ports mean nothing here. */
static void adopt_merges(struct sxt_ib *ib)
{
	uint64_t hash = hash_ports(ib);

	if (ib->merges == NULL || ib->merges->ports_hash == hash)
		return;
	ib->merges->ports_hash = hash;
	ib->merges->cnt = 0;
}

int sxt_nics_open(struct sxt_ib *ib)
{
	pthread_mutex_init(&ib->nics_lock, NULL);
	adopt_merges(ib);
	for (int i = 0; i < ib->ports_cnt && i < SXT_NICS_MAX; i++) {
		struct sxt_nic *nic = create(i, "listing the NICs");

		if (nic == NULL)
			return -ENOMEM;
		add_port(nic, ib->ports[i], i);
		set_name(nic);
		show_place(ib, nic);
		publish(ib, nic);
	}
	if (ib->ports_cnt > SXT_NICS_MAX)
		SXT_LOG(SXT_LOG_WARN,
			"%d ports can be used, NCCL numbers %d: the last are left out; choose them "
			"with NCCL_IB_HCA",
			ib->ports_cnt, SXT_NICS_MAX);
	return 0;
}

void sxt_nics_close(struct sxt_ib *ib)
{
	int cnt = sxt_ib_nics_cnt(ib);

	if (ib->merges != NULL && cnt > ib->merges->told_cnt)
		ib->merges->told_cnt = cnt;
	while (cnt > 0) {
		struct sxt_nic *nic = ib->nics[--cnt];

		sxt_mr_cache_close(nic);
		pthread_mutex_destroy(&nic->mr_lock);
		free(nic);
	}
	atomic_store_explicit(&ib->nics_cnt, 0, memory_order_relaxed);
}

int sxt_ib_nics_cnt(const struct sxt_ib *ib)
{
	/* Pairs with the release in publish(). */
	return atomic_load_explicit(&ib->nics_cnt, memory_order_acquire);
}

static void announce(const struct sxt_nic *nic)
{
	char parts[1024] = "";
	bool is_uneven = false;
	size_t used = 0;

	for (uint32_t i = 0; i < nic->ports_cnt && used < sizeof(parts); i++) {
		const struct sxt_port *port = nic->ports[i];

		used += (size_t)snprintf(parts + used, sizeof(parts) - used, "%s%s (%u Gb/s)",
					 i > 0 ? ", " : "", port->label, port->speed_mbps / 1000);
		is_uneven = is_uneven || port->speed_mbps != nic->ports[0]->speed_mbps;
	}
	SXT_LOG(SXT_LOG_INFO, "NIC %d: %s merges %s: %u Gb/s%s", nic->dev, nic->name, parts,
		nic->speed_mbps / 1000, is_uneven ? "; their speeds differ" : "");
}

/* The physical NICs, one per port, come first. */
static int physical_cnt(const struct sxt_ib *ib)
{
	return ib->ports_cnt < SXT_NICS_MAX ? ib->ports_cnt : SXT_NICS_MAX;
}

/* The caller holds nics_lock. @nic: just merged. A list unlike the one kept voids those after it.
 */
static void remember(const struct sxt_ib *ib, const struct sxt_nic *nic)
{
	struct sxt_merges *merges = ib->merges;
	int at = nic->dev - physical_cnt(ib);
	bool is_known;

	if (merges == NULL)
		return;
	is_known = at < merges->cnt && merges->lists[at].devs_cnt == (int)nic->ports_cnt &&
		   memcmp(merges->lists[at].devs, nic->devs, sizeof(nic->devs)) == 0;
	if (is_known)
		return;
	merges->lists[at].devs_cnt = (int)nic->ports_cnt;
	memcpy(merges->lists[at].devs, nic->devs, sizeof(nic->devs));
	merges->cnt = at + 1;
}

/* The caller holds nics_lock. @devs: checked. */
static int merge(struct sxt_ib *ib, const int *devs, int cnt, struct sxt_nic **out)
{
	const struct sxt_nic *first = ib->nics[devs[0]];
	struct sxt_nic *nic;
	int dev = sxt_ib_nics_cnt(ib);

	if (dev == SXT_NICS_MAX) {
		SXT_LOG(SXT_LOG_ERROR, "merging NICs: there are %d, which is all that NCCL numbers",
			dev);
		return -ENOBUFS;
	}
	nic = create(dev, "merging NICs");
	if (nic == NULL)
		return -ENOMEM;
	for (int i = 0; i < cnt; i++)
		add_port(nic, ib->nics[devs[i]]->ports[0], devs[i]);
	set_name(nic);
	memcpy(nic->pci_path, first->pci_path, sizeof(nic->pci_path));
	nic->port_num = first->port_num;
	publish(ib, nic);
	announce(nic);
	remember(ib, nic);
	*out = nic;
	return 0;
}

/* Merged in a transport before this one: make them again up to a number. */
static void merge_again(struct sxt_ib *ib, int dev)
{
	struct sxt_merges *merges = ib->merges;
	struct sxt_nic *nic;
	int rc = 0;
	int at;

	pthread_mutex_lock(&ib->nics_lock);
	at = sxt_ib_nics_cnt(ib) - physical_cnt(ib);
	for (; rc == 0 && at <= dev - physical_cnt(ib) && at < merges->cnt; at++)
		rc = merge(ib, merges->lists[at].devs, merges->lists[at].devs_cnt, &nic);
	pthread_mutex_unlock(&ib->nics_lock);
}

/*
 * A port that NCCL was told of is gone since the transport before this one, and with it the last
 * numbers and those of merged NICs. Better another port than a communicator that cannot be.
 */
static int stand_in(const struct sxt_ib *ib, int dev, const char *what)
{
	int instead = dev % physical_cnt(ib);

	if (atomic_exchange_explicit(&ib->merges->stood_in[dev], true, memory_order_relaxed))
		return instead;
	SXT_LOG(SXT_LOG_WARN,
		"%s: NCCL was told of %d NICs before, and there are %d now (the lines of the ports "
		"left out say why): %s stands in for NIC %d; start the job again to have NCCL "
		"count anew",
		what, ib->merges->told_cnt, sxt_ib_nics_cnt(ib), ib->nics[instead]->label, dev);
	return instead;
}

int sxt_ib_nic(struct sxt_ib *ib, int dev, const char *what, struct sxt_nic **out)
{
	int cnt;

	if (ib->pid != getpid()) {
		SXT_LOG(SXT_LOG_ERROR,
			"%s: this process was forked from %d, whose network it cannot use; "
			"initialise NCCL after fork()",
			what, (int)ib->pid);
		return -EINVAL;
	}
	if (dev >= sxt_ib_nics_cnt(ib) && ib->merges != NULL)
		merge_again(ib, dev);
	cnt = sxt_ib_nics_cnt(ib);
	if (dev >= cnt && ib->merges != NULL && dev < ib->merges->told_cnt)
		dev = stand_in(ib, dev, what);
	if (dev < 0 || dev >= cnt) {
		SXT_LOG(SXT_LOG_ERROR, "%s: there is no NIC %d, they are 0..%d", what, dev,
			cnt - 1);
		return -EINVAL;
	}
	*out = ib->nics[dev];
	return 0;
}

bool sxt_nic_is_alive(const struct sxt_nic *nic)
{
	for (uint32_t i = 0; i < nic->ports_cnt; i++) {
		if (!sxt_port_is_alive(nic->ports[i]))
			return false;
	}
	return true;
}

static int rail_of(const struct sxt_port *port)
{
	return port->rail;
}

static int plane_of(const struct sxt_port *port)
{
	return port->plane;
}

/* What all ports of a NIC have alike, else -1. */
static int common(const struct sxt_nic *nic, int (*get)(const struct sxt_port *port))
{
	int value = get(nic->ports[0]);

	for (uint32_t i = 1; i < nic->ports_cnt; i++) {
		if (get(nic->ports[i]) != value)
			return -1;
	}
	return value;
}

int sxt_ib_nic_props(struct sxt_ib *ib, int dev, struct sxt_nic_props *out)
{
	struct sxt_nic *nic;
	int rc = sxt_ib_nic(ib, dev, "properties", &nic);

	if (rc != 0)
		return rc;
	*out = (struct sxt_nic_props){
		.name = nic->name,
		.pci_path = nic->pci_path[0] != '\0' ? nic->pci_path : NULL,
		.guid = nic->ports[0]->device->guid,
		.speed_mbps = nic->speed_mbps,
		.port = nic->port_num,
		.rail = common(nic, rail_of),
		.plane = common(nic, plane_of),
		.devs_cnt = (int)nic->ports_cnt,
		.max_conns = CONNS_MAX,
		.max_message_bytes = sxt_conn_message_max(nic->max_message_log2),
	};
	memcpy(out->devs, nic->devs, sizeof(out->devs));
	return 0;
}

static int check_cnt(const struct sxt_ib *ib, int cnt, int most)
{
	if (most > SXT_NIC_DEVS_MAX)
		most = SXT_NIC_DEVS_MAX;
	if (cnt < 1 || cnt > most) {
		SXT_LOG(SXT_LOG_ERROR, "merging %d NICs: expected 1 to %d", cnt, most);
		return -EINVAL;
	}
	if (cnt > 1 && ib->config->ib_merge_nics == 0) {
		SXT_LOG(SXT_LOG_INFO, "merging %d NICs: NCCL_IB_MERGE_NICS=0 forbids it", cnt);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int find_members(struct sxt_ib *ib, const int *devs, int cnt,
			struct sxt_nic *members[SXT_NIC_DEVS_MAX])
{
	for (int i = 0; i < cnt; i++) {
		int rc = sxt_ib_nic(ib, devs[i], "merging NICs", &members[i]);

		if (rc != 0)
			return rc;
		for (int k = 0; k < i; k++) {
			if (devs[k] == devs[i]) {
				SXT_LOG(SXT_LOG_ERROR, "merging NICs: %d (%s) is in the list twice",
					devs[i], members[i]->label);
				return -EINVAL;
			}
		}
		if (cnt > 1 && members[i]->ports_cnt > 1) {
			SXT_LOG(SXT_LOG_ERROR,
				"merging NICs: %d (%s) is merged itself; name its parts instead",
				devs[i], members[i]->label);
			return -EINVAL;
		}
	}
	return 0;
}

/* A virtual function and a physical one of the same card share its ports. */
static bool is_vf_beside_pf(const struct sxt_device *vf, const struct sxt_device *pf)
{
	size_t len = strlen(vf->pf_path);

	return len > 0 && pf->pf_path[0] == '\0' && strlen(pf->pci_path) == len &&
	       memcmp(vf->pf_path, pf->pci_path, len - 1) == 0;
}

static int check_pair(const struct sxt_port *a, const struct sxt_port *b)
{
	const char *why = NULL;

	if (a->link_layer != b->link_layer)
		why = "one is InfiniBand, the other RoCE";
	else if (is_vf_beside_pf(a->device, b->device) || is_vf_beside_pf(b->device, a->device))
		why = "a virtual function and a physical function of one card share its ports";
	if (why == NULL)
		return 0;
	SXT_LOG(SXT_LOG_WARN, "%s and %s cannot be merged: %s", a->label, b->label, why);
	return -EOPNOTSUPP;
}

static int check_members(struct sxt_nic *const *members, int cnt)
{
	int rc = 0;

	for (int i = 1; i < cnt; i++) {
		for (int k = 0; k < i && rc == 0; k++)
			rc = check_pair(members[k]->ports[0], members[i]->ports[0]);
	}
	return rc;
}

/* The caller holds nics_lock. */
static struct sxt_nic *find_merged(const struct sxt_ib *ib, const int *devs, int cnt)
{
	for (int i = 0; i < sxt_ib_nics_cnt(ib); i++) {
		struct sxt_nic *nic = ib->nics[i];

		if (nic->ports_cnt == (uint32_t)cnt &&
		    memcmp(nic->devs, devs, (size_t)cnt * sizeof(*devs)) == 0)
			return nic;
	}
	return NULL;
}

int sxt_ib_merge(struct sxt_ib *ib, const int *devs, int cnt, int most, int *dev_out)
{
	struct sxt_nic *members[SXT_NIC_DEVS_MAX];
	struct sxt_nic *nic;
	int rc = check_cnt(ib, cnt, most);

	if (rc == 0)
		rc = find_members(ib, devs, cnt, members);
	if (rc == 0)
		rc = check_members(members, cnt);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&ib->nics_lock);
	nic = cnt == 1 ? members[0] : find_merged(ib, devs, cnt);
	if (nic == NULL)
		rc = merge(ib, devs, cnt, &nic);
	pthread_mutex_unlock(&ib->nics_lock);
	if (rc == 0)
		*dev_out = nic->dev;
	return rc;
}
