/*
 * mr.c - the cache of registrations, one per NIC (slow path, any thread).
 *
 * The array is sorted by first byte. Ranges may overlap: a new one that no single entry covers is
 * registered whole, and what lies inside it stays for those who hold it.
 */
#include "ib/mr.h"

#include "core/log.h"
#include "core/status.h"
#include "ib/conn.h"
#include "ib/device.h"
#include "ib/explain.h"
#include "ib/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MRS_CAP_FIRST 16

/* What the peers and our own HCA do to a buffer of NCCL's. */
#define DATA_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static int reg(struct sxt_device *device, const struct sxt_verbs_region *region,
	       struct ibv_mr **out)
{
	int rc = sxt_verbs_reg_mr(device->verbs, device->pd, region, out);

	if (rc == 0)
		sxt_device_count(device, SXT_DEVICE_MRS, 1);
	return rc;
}

int sxt_mr_register_ring(const struct sxt_port *port, void *addr, size_t bytes, int access,
			 const char *what, struct ibv_mr **out)
{
	const struct sxt_verbs_region region = {
		.addr = addr,
		.bytes = bytes,
		.access = (unsigned int)access,
		.dmabuf_fd = -1,
	};
	char why[SXT_EXPLAIN_BYTES];
	int rc = reg(port->device, &region, out);

	if (rc != 0) {
		sxt_explain_register(port, &region, rc, why);
		SXT_LOG(SXT_LOG_ERROR, "register %s (%zu bytes at %p) on %s: %s%s", what, bytes,
			addr, port->label, sxt_strerror(rc), why);
	}
	return rc;
}

static void deregister(struct sxt_device *device, struct ibv_mr *mr)
{
	int rc = device->verbs->dereg_mr(mr);

	sxt_device_count(device, SXT_DEVICE_MRS, -1);
	if (rc != 0)
		SXT_LOG(SXT_LOG_WARN,
			"a registration on %s was not given back: %s; its memory stays pinned "
			"until "
			"the process ends",
			device->name, sxt_strerror(rc));
}

void sxt_mr_deregister_ring(const struct sxt_port *port, struct ibv_mr *mr)
{
	if (mr != NULL)
		deregister(port->device, mr);
}

/* The first entry that starts after an address. */
static size_t upper_bound(const struct sxt_nic *nic, uint64_t addr)
{
	size_t low = 0;
	size_t high = nic->mrs_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (nic->mrs[mid]->first <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct sxt_mr *find(const struct sxt_nic *nic, const struct sxt_verbs_region *want)
{
	uint64_t first = (uintptr_t)want->addr;
	bool is_dmabuf = want->dmabuf_fd >= 0;

	for (size_t i = upper_bound(nic, first); i-- > 0;) {
		struct sxt_mr *mr = nic->mrs[i];

		if (mr->is_dmabuf == is_dmabuf && first - mr->first <= mr->bytes &&
		    mr->bytes - (first - mr->first) >= want->bytes)
			return mr;
	}
	return NULL;
}

static int make_room(struct sxt_nic *nic)
{
	size_t cap = nic->mrs_cap != 0 ? nic->mrs_cap * 2 : MRS_CAP_FIRST;
	struct sxt_mr **grown;

	if (nic->mrs_cnt < nic->mrs_cap)
		return 0;
	grown = realloc(nic->mrs, cap * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	nic->mrs = grown;
	nic->mrs_cap = cap;
	return 0;
}

static void deregister_all(const struct sxt_nic *nic, struct sxt_mr *mr)
{
	for (uint32_t i = 0; i < nic->ports_cnt; i++) {
		if (mr->verbs_mrs[i] != NULL)
			deregister(nic->ports[i]->device, mr->verbs_mrs[i]);
	}
}

/* The first port of the same HCA. */
static uint32_t port_before(const struct sxt_nic *nic, uint32_t at)
{
	uint32_t i = 0;

	while (nic->ports[i]->device != nic->ports[at]->device)
		i++;
	return i;
}

/* @refused: on failure the port that did. */
static int register_all(const struct sxt_nic *nic, const struct sxt_verbs_region *region,
			struct sxt_mr *mr, const struct sxt_port **refused)
{
	for (uint32_t i = 0; i < nic->ports_cnt; i++) {
		uint32_t owner = port_before(nic, i);
		int rc = 0;

		if (owner == i)
			rc = reg(nic->ports[i]->device, region, &mr->verbs_mrs[i]);
		if (rc != 0) {
			*refused = nic->ports[i];
			deregister_all(nic, mr);
			return rc;
		}
		mr->lkeys[i] = mr->verbs_mrs[owner]->lkey;
		mr->rkeys[i] = mr->verbs_mrs[owner]->rkey;
	}
	return 0;
}

static int add(struct sxt_nic *nic, const struct sxt_verbs_region *region,
	       const struct sxt_port **refused, struct sxt_mr **out)
{
	struct sxt_mr *mr = NULL;
	size_t at;
	int rc = make_room(nic);

	if (rc == 0 && posix_memalign((void **)&mr, SXT_CACHELINE, sizeof(*mr)) != 0)
		rc = -ENOMEM;
	if (rc != 0)
		return rc;
	memset(mr, 0, sizeof(*mr));
	rc = register_all(nic, region, mr, refused);
	if (rc != 0) {
		free(mr);
		return rc;
	}
	mr->first = (uintptr_t)region->addr;
	mr->bytes = region->bytes;
	mr->is_dmabuf = region->dmabuf_fd >= 0;
	at = upper_bound(nic, mr->first);
	memmove(&nic->mrs[at + 1], &nic->mrs[at], (nic->mrs_cnt - at) * sizeof(*nic->mrs));
	nic->mrs[at] = mr;
	nic->mrs_cnt++;
	*out = mr;
	return 0;
}

/* The range to register: whole pages, but a DMA-BUF exactly as given. */
static int region_of(const struct sxt_device *device, const struct sxt_mr_spec *spec,
		     struct sxt_verbs_region *out)
{
	uint64_t page_mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	uint64_t first = (uintptr_t)spec->addr;
	uint64_t end;

	if (spec->bytes == 0 || __builtin_add_overflow(first, spec->bytes, &end) ||
	    end > UINT64_MAX - page_mask)
		return -EINVAL;
	if (spec->dmabuf_fd < 0) {
		first &= ~page_mask;
		end = (end + page_mask) & ~page_mask;
	}
	*out = (struct sxt_verbs_region){
		.addr = (void *)(uintptr_t)first,
		.bytes = end - first,
		.access = DATA_ACCESS,
		.dmabuf_fd = spec->dmabuf_fd,
		.dmabuf_offset = spec->dmabuf_offset,
	};
	if (device->ib->config->ib_relaxed != 0 && device->verbs->reg_mr_iova2 != NULL)
		out->access |= IBV_ACCESS_RELAXED_ORDERING;
	return 0;
}

/* @refused: NULL when no HCA was asked. */
static void explain_get(const struct sxt_mr_spec *spec, const struct sxt_nic *nic,
			const struct sxt_port *refused, int rc)
{
	const struct sxt_verbs_region region = {.bytes = spec->bytes, .dmabuf_fd = spec->dmabuf_fd};
	char why[SXT_EXPLAIN_BYTES] = "";

	if (refused != NULL)
		sxt_explain_register(refused, &region, rc, why);
	SXT_LOG(SXT_LOG_ERROR, "register %llu bytes at %p%s on %s: %s%s",
		(unsigned long long)spec->bytes, spec->addr,
		spec->dmabuf_fd >= 0 ? " (DMA-BUF)" : "",
		refused != NULL ? refused->label : nic->ports[0]->label, sxt_strerror(rc),
		spec->bytes == 0 ? "; the size must be at least 1" : why);
}

int sxt_mr_cache_get(struct sxt_nic *nic, const struct sxt_mr_spec *spec, struct sxt_mr **out)
{
	const struct sxt_port *refused = NULL;
	struct sxt_verbs_region region;
	struct sxt_mr *mr;
	int rc = region_of(nic->ports[0]->device, spec, &region);

	if (rc == 0) {
		pthread_mutex_lock(&nic->mr_lock);
		mr = find(nic, &region);
		if (mr == NULL)
			rc = add(nic, &region, &refused, &mr);
		if (rc == 0) {
			mr->refs++;
			*out = mr;
		}
		pthread_mutex_unlock(&nic->mr_lock);
	}
	if (rc != 0)
		explain_get(spec, nic, refused, rc);
	return rc;
}

void sxt_mr_cache_put(struct sxt_nic *nic, struct sxt_mr *mr)
{
	size_t at;

	if (mr == NULL)
		return;
	pthread_mutex_lock(&nic->mr_lock);
	if (--mr->refs > 0) {
		pthread_mutex_unlock(&nic->mr_lock);
		return;
	}
	at = upper_bound(nic, mr->first);
	while (nic->mrs[at - 1] != mr)
		at--;
	nic->mrs_cnt--;
	memmove(&nic->mrs[at - 1], &nic->mrs[at], (nic->mrs_cnt - (at - 1)) * sizeof(*nic->mrs));
	/*
	 * Under the lock: once NCCL hears that the range is gone it may free it, and a get()
	 * that registers the same pages again must not meet the old pinning half undone.
	 */
	deregister_all(nic, mr);
	pthread_mutex_unlock(&nic->mr_lock);
	free(mr);
}

void sxt_mr_cache_close(struct sxt_nic *nic)
{
	if (nic->mrs_cnt > 0)
		SXT_LOG(SXT_LOG_WARN, "%s: %zu registrations were never given back",
			nic->ports[0]->label, nic->mrs_cnt);
	while (nic->mrs_cnt > 0) {
		nic->mrs[nic->mrs_cnt - 1]->refs = 1;
		sxt_mr_cache_put(nic, nic->mrs[nic->mrs_cnt - 1]);
	}
	free(nic->mrs);
	nic->mrs = NULL;
	nic->mrs_cap = 0;
}

int sxt_mr_get(struct sxt_conn *conn, const struct sxt_mr_spec *spec, struct sxt_mr **out)
{
	return sxt_mr_cache_get(conn->nic, spec, out);
}

void sxt_mr_put(struct sxt_conn *conn, struct sxt_mr *mr)
{
	sxt_mr_cache_put(conn->nic, mr);
}
