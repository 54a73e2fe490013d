/*
 * mr.c - protection domains and registrations. Slow but for sxt_soft_mr_find().
 *
 * Registering looks at what the memory is: where it is a shared mapping of a file (memfd, /dev/shm,
 * a DMA-BUF that can be mapped), a descriptor of that file is kept so that peers can map it too;
 * private memory is left as it is and reached with process_vm_*.
 */
#include "ib/soft/objects.h"

#include "core/log.h"
#include "core/status.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define KNOWN_ACCESS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

int sxt_soft_pd_alloc(struct ibv_context *context, struct ibv_pd **out)
{
	struct sxt_soft_engine *engine = sxt_soft_context_of(context)->engine;
	struct sxt_soft_pd *pd = calloc(1, sizeof(*pd));

	if (pd == NULL)
		return -ENOMEM;
	pthread_mutex_lock(&engine->lock);
	pd->id = ++engine->next_pd;
	pthread_mutex_unlock(&engine->lock);
	pd->base.context = context;
	pd->base.handle = pd->id;
	*out = &pd->base;
	return 0;
}

int sxt_soft_pd_dealloc(struct ibv_pd *base)
{
	struct sxt_soft_pd *pd = SXT_CONTAINER_OF(base, struct sxt_soft_pd, base);

	if (atomic_load(&pd->users) != 0)
		return -EBUSY;
	free(pd);
	return 0;
}

const struct sxt_soft_mr_entry *sxt_soft_mr_find(struct sxt_soft_arena *arena, uint32_t pd,
						 uint32_t key, uint64_t addr, uint64_t bytes,
						 uint32_t access)
{
	const struct sxt_soft_mr_entry *mr = &arena->mrs[(key >> 8) % SXT_SOFT_MRS_MAX];

	/* Pairs with the release in publish(): the rest of the entry is there. */
	if (key == 0 || atomic_load_explicit(&mr->key, memory_order_acquire) != key)
		return NULL;
	if (mr->pd != pd || (mr->access & access) != access)
		return NULL;
	if (addr < mr->iova || bytes > mr->bytes || addr - mr->iova > mr->bytes - bytes)
		return NULL;
	return mr;
}

/* One line of /proc/self/maps. */
struct vma {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	uint64_t dev;
	uint64_t ino;
	bool readable;
	bool writable;
	bool shared;
};

static bool vma_parse(const char *line, struct vma *out)
{
	unsigned int major;
	unsigned int minor;
	char perms[5];

	/* Kernel text in a fixed format; every field is bounded by it. */
	/* NOLINTNEXTLINE(cert-err34-c): the kernel wrote it */
	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &out->start, &out->end, perms, &out->offset,
		   &major, &minor, &out->ino) != 7)
		return false;
	out->dev = makedev(major, minor);
	out->readable = perms[0] == 'r';
	out->writable = perms[1] == 'w';
	out->shared = perms[3] == 's';
	return true;
}

/* What [addr, addr + bytes) is made of. */
struct range {
	bool covered;  /* all of it is mapped */
	bool writable; /* all of it */
	bool one_file; /* all of it is one shared mapping of one file, writable */
	uint64_t file_offset;
	uint64_t dev;
	uint64_t ino;
};

static void range_add(struct range *range, const struct vma *vma, uint64_t addr, bool first)
{
	range->writable &= vma->writable;
	if (first) {
		range->one_file = vma->shared && vma->ino != 0 && vma->writable;
		range->dev = vma->dev;
		range->ino = vma->ino;
		range->file_offset = vma->offset + (addr - vma->start);
	} else if (vma->dev != range->dev || vma->ino != range->ino || !vma->shared) {
		range->one_file = false;
	}
}

static int range_inspect(uint64_t addr, uint64_t bytes, struct range *out)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct range range = {.writable = true};
	uint64_t at = addr;
	uint64_t file_at = 0;
	char line[PATH_MAX + 128];
	struct vma vma;

	if (maps == NULL)
		return -errno;
	while (at < addr + bytes && fgets(line, sizeof(line), maps) != NULL) {
		if (!vma_parse(line, &vma) || vma.end <= at)
			continue;
		if (vma.start > at || !vma.readable)
			break;
		range_add(&range, &vma, addr, at == addr);
		if (at != addr && vma.offset != file_at)
			range.one_file = false;
		file_at = vma.offset + (vma.end - vma.start);
		at = vma.end;
	}
	fclose(maps);
	range.covered = at >= addr + bytes;
	*out = range;
	return 0;
}

static bool is_file_of(const struct range *range, const struct stat *st)
{
	return st->st_dev == range->dev && st->st_ino == range->ino && S_ISREG(st->st_mode);
}

/*
 * The file of a range, opened anew through a descriptor of this process that is open on it; or -1.
 * By the descriptor's name, never by its number: other threads close and open descriptors
 * meanwhile, so that what a number means is known only of our own.
 */
static int descriptor_of(const struct range *range)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	struct stat st;
	int found = -1;

	if (dir == NULL)
		return -1;
	while (found < 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0) != 0 ||
		    !is_file_of(range, &st))
			continue;
		found = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC);
		if (found >= 0 && (fstat(found, &st) != 0 || !is_file_of(range, &st))) {
			close(found);
			found = -1;
		}
	}
	closedir(dir);
	return found;
}

/* The file itself, by the name the kernel keeps for the mapping (needs rights for a memfd). */
static int reopen(uint64_t addr, const struct range *range)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];
	char path[64];
	struct vma vma;
	struct stat st;
	int fd = -1;

	if (maps == NULL)
		return -1;
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (!vma_parse(line, &vma) || addr < vma.start || addr >= vma.end)
			continue;
		snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", vma.start, vma.end);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 && strchr(line, '/') != NULL) {
			line[strcspn(line, "\n")] = '\0';
			fd = open(strchr(line, '/'), O_RDWR | O_CLOEXEC);
		}
		break;
	}
	fclose(maps);
	if (fd >= 0 && (fstat(fd, &st) != 0 || !is_file_of(range, &st))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int describe_memory(struct sxt_soft_mr *mr, struct sxt_soft_mr_entry *entry,
			   struct sxt_soft_engine *engine)
{
	struct range range;
	int rc;

	if (entry->bytes == 0)
		return 0;
	rc = range_inspect(entry->addr, entry->bytes, &range);
	if (rc != 0)
		return rc;
	if (!range.covered || ((entry->access & IBV_ACCESS_LOCAL_WRITE) != 0 && !range.writable))
		return -EFAULT;
	if (range.one_file) {
		mr->fd = descriptor_of(&range);
		if (mr->fd < 0)
			mr->fd = reopen(entry->addr, &range);
	}
	if (mr->fd >= 0) {
		entry->kind = SXT_SOFT_MR_FILE;
		entry->fd = mr->fd;
		entry->file_offset = range.file_offset;
		entry->dev = range.dev;
		entry->ino = range.ino;
		return 0;
	}
	if (engine->private_access != 0) {
		SXT_LOG(SXT_LOG_ERROR,
			"register %p, %lu bytes: other processes cannot reach this private "
			"memory: %s",
			(void *)(uintptr_t)entry->addr, entry->bytes, engine->private_why);
		return engine->private_access;
	}
	return 0;
}

static int map_dmabuf(struct sxt_soft_mr *mr, const struct sxt_soft_mr_request *request,
		      struct sxt_soft_mr_entry *entry)
{
	uint64_t start = request->dmabuf_offset & ~4095ull;
	size_t bytes = (size_t)(request->dmabuf_offset - start + request->length);
	int prot = PROT_READ | PROT_WRITE;
	struct stat st;

	if (request->length == 0)
		return -EINVAL;
	mr->fd = fcntl(request->dmabuf_fd, F_DUPFD_CLOEXEC, 3);
	if (mr->fd < 0 || fstat(mr->fd, &st) != 0)
		return -errno;
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < request->dmabuf_offset + request->length)
		return -EINVAL;
	mr->map = mmap(NULL, bytes, prot, MAP_SHARED, mr->fd, (off_t)start);
	if (mr->map == MAP_FAILED) {
		mr->map = NULL;
		return errno == ENODEV ? -EOPNOTSUPP : -errno;
	}
	mr->map_bytes = bytes;
	entry->addr = (uintptr_t)mr->map + (request->dmabuf_offset - start);
	entry->kind = SXT_SOFT_MR_FILE;
	entry->fd = mr->fd;
	entry->file_offset = request->dmabuf_offset;
	entry->dev = st.st_dev;
	entry->ino = st.st_ino;
	return 0;
}

/* Everything but the key, then the key: from here on peers may use it. */
static void publish(struct sxt_soft_mr_entry *slot, const struct sxt_soft_mr_entry *entry,
		    uint32_t key)
{
	slot->access = entry->access;
	slot->pd = entry->pd;
	slot->kind = entry->kind;
	slot->iova = entry->iova;
	slot->addr = entry->addr;
	slot->bytes = entry->bytes;
	slot->file_offset = entry->file_offset;
	slot->dev = entry->dev;
	slot->ino = entry->ino;
	slot->fd = entry->fd;
	slot->generation = key & 0xff;
	atomic_store_explicit(&slot->key, key, memory_order_release);
}

static int check_request(const struct sxt_soft_mr_request *request, const struct sxt_soft_hca *hca)
{
	uint64_t access = request->access;
	uint64_t start =
		request->dmabuf_fd >= 0 ? request->dmabuf_offset : (uintptr_t)request->addr;

	if ((access & ~(uint64_t)KNOWN_ACCESS) != 0 || request->length > hca->max_mr_size)
		return -EINVAL;
	/* Whoever may write it from outside must be allowed to inside (C10-50). */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
	    (access & IBV_ACCESS_LOCAL_WRITE) == 0)
		return -EINVAL;
	if ((uintptr_t)request->addr + request->length < (uintptr_t)request->addr ||
	    request->iova + request->length < request->iova)
		return -EINVAL;
	/* As the kernel wants it: what is aligned in the one is so in the other. */
	if (((start ^ request->iova) & 4095) != 0)
		return -EINVAL;
	return 0;
}

static void mr_free(struct sxt_soft_mr *mr)
{
	if (mr->map != NULL)
		munmap(mr->map, mr->map_bytes);
	if (mr->fd >= 0)
		close(mr->fd);
	free(mr);
}

static int mr_enter(struct sxt_soft_engine *engine, struct sxt_soft_mr *mr,
		    const struct sxt_soft_mr_entry *entry)
{
	struct sxt_soft_mr_entry *slot;
	uint32_t key;

	pthread_mutex_lock(&engine->lock);
	mr->slot = sxt_soft_table_take(&engine->mrs, mr);
	slot = mr->slot == SXT_SOFT_NONE ? NULL : &engine->self->arena->mrs[mr->slot];
	if (slot != NULL && sxt_soft_back(slot, sizeof(*slot)) != 0) {
		engine->mrs.items[mr->slot] = NULL;
		slot = NULL;
	}
	pthread_mutex_unlock(&engine->lock);
	if (slot == NULL)
		return -ENOMEM;
	key = mr->slot << 8 | ((slot->generation + 1) & 0xff);
	publish(slot, entry, key);
	mr->base.lkey = key;
	mr->base.rkey = key;
	mr->base.handle = mr->slot;
	return 0;
}

int sxt_soft_mr_register(struct ibv_pd *pd, const struct sxt_soft_mr_request *request,
			 struct ibv_mr **out)
{
	struct sxt_soft_context *ctx = sxt_soft_context_of(pd->context);
	struct sxt_soft_pd *owner = SXT_CONTAINER_OF(pd, struct sxt_soft_pd, base);
	struct sxt_soft_hca *hca = &ctx->engine->state->fabric->hcas[ctx->device->hca];
	struct sxt_soft_mr_entry entry = {.kind = SXT_SOFT_MR_PRIVATE, .fd = -1};
	struct sxt_soft_mr *mr;
	uint32_t fault;
	int rc = check_request(request, ctx->hca);

	if (rc != 0)
		return rc;
	if (sxt_soft_fault_take(&hca->fault_reg, &fault))
		return -(int)fault;
	mr = calloc(1, sizeof(*mr));
	if (mr == NULL)
		return -ENOMEM;
	mr->fd = -1;
	entry.access = (uint32_t)(request->access & 0xffffffffu);
	entry.pd = owner->id;
	entry.iova = request->iova;
	entry.addr = (uintptr_t)request->addr;
	entry.bytes = request->length;
	rc = request->dmabuf_fd >= 0 ? map_dmabuf(mr, request, &entry)
				     : describe_memory(mr, &entry, ctx->engine);
	if (rc != 0)
		goto fail;
	rc = mr_enter(ctx->engine, mr, &entry);
	if (rc != 0)
		goto fail;
	mr->base.context = pd->context;
	mr->base.pd = pd;
	mr->base.addr = request->dmabuf_fd >= 0 ? NULL : request->addr;
	mr->base.length = request->length;
	atomic_fetch_add(&owner->users, 1);
	*out = &mr->base;
	return 0;
fail:
	mr_free(mr);
	return rc;
}

int sxt_soft_mr_deregister(struct ibv_mr *base)
{
	struct sxt_soft_mr *mr = SXT_CONTAINER_OF(base, struct sxt_soft_mr, base);
	struct sxt_soft_pd *pd = SXT_CONTAINER_OF(base->pd, struct sxt_soft_pd, base);
	struct sxt_soft_engine *engine = sxt_soft_context_of(base->context)->engine;
	struct sxt_soft_arena *arena = engine->self->arena;

	atomic_store(&arena->mrs[mr->slot].key, 0);
	/*
	 * Whoever found the key valid did so holding the lock of one of our QPs, and holds it
	 * until its transfer is over.
	 */
	pthread_mutex_lock(&engine->lock);
	for (uint32_t i = 0; i < engine->qps.high; i++) {
		if (engine->qps.items[i] == NULL)
			continue;
		sxt_soft_shared_lock(&arena->qps[i].lock);
		sxt_soft_shared_unlock(&arena->qps[i].lock);
	}
	engine->mrs.items[mr->slot] = NULL;
	pthread_mutex_unlock(&engine->lock);
	atomic_fetch_sub(&pd->users, 1);
	mr_free(mr);
	return 0;
}
