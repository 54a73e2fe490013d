/*
 * faults.c - libc's fallible calls, wrapped by the linker, and the account of faults.h.
 */
#include "tests/torture/faults.h"

#include "core/sys.h"
#include "telemetry/write.h"
#include "tests/fake/verbs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/*
 * What the linker calls a wrapped function and its original is reserved to the compiler, so these
 * are names of our own for them. The list of all is in CMakeLists.txt.
 */
#define WRAP(result, name, args)                                 \
	extern result real_##name args __asm__("__real_" #name); \
	result wrap_##name args __asm__("__wrap_" #name);        \
	result wrap_##name args

/* One that only fails or does what the original does. */
#define WRAP_PLAIN(result, name, error, params, args)                                    \
	WRAP(result, name, params)                                                       \
	{                                                                                \
		return faults_hit(#name, error) ? (result)-1 : (result)real_##name args; \
	}

static _Thread_local struct {
	bool armed;
	int paused;
	uint32_t calls_cnt;
	uint32_t failing_call;
	const char *failed;
	int error;
	uint64_t seen_mask;  /* symbols that were looked up */
	const char *missing; /* the one that the library does not have in this run */
} state;

static _Atomic long live_blocks;
static _Atomic long live_mappings;
static _Atomic long live_threads;
static _Atomic long live_libraries;
static _Atomic uint64_t clock_ns = 1000 * SXT_NS_PER_SEC;
static _Atomic bool clock_is_free;
static _Atomic int processes_cnt;

void faults_arm(uint32_t k)
{
	memset(&state, 0, sizeof(state));
	state.failing_call = k;
	state.armed = true;
}

void faults_disarm(void)
{
	state.armed = false;
	state.missing = NULL;
}

const char *faults_failed(int *error)
{
	if (error != NULL)
		*error = state.error;
	return state.failed;
}

bool faults_hit(const char *name, int error)
{
	if (!state.armed || state.paused > 0)
		return false;
	state.calls_cnt++;
	if (state.calls_cnt != state.failing_call)
		return false;
	state.failed = name;
	state.error = error;
	errno = error;
	return true;
}

void faults_pause(bool on)
{
	state.paused += on ? 1 : -1;
}

void faults_advance(uint64_t ns)
{
	atomic_fetch_add_explicit(&clock_ns, ns, memory_order_relaxed);
}

void faults_free_clock(void)
{
	clock_is_free = true;
}

void faults_new_process(void)
{
	atomic_fetch_add_explicit(&processes_cnt, 1, memory_order_relaxed);
}

static long count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	long cnt = 0;

	while (dir != NULL && readdir(dir) != NULL)
		cnt++;
	if (dir != NULL)
		closedir(dir);
	return cnt;
}

struct faults_live faults_live(void)
{
	return (struct faults_live){
		.blocks = live_blocks,
		.mappings = live_mappings,
		.threads = live_threads,
		.libraries = live_libraries,
		.objects = sxt_fake_alive(),
		.fds = count_fds(),
	};
}

static void *count_block(void *block)
{
	live_blocks += block != NULL;
	return block;
}

WRAP(void *, malloc, (size_t bytes))
{
	return faults_hit("malloc", ENOMEM) ? NULL : count_block(real_malloc(bytes));
}

WRAP(void *, calloc, (size_t cnt, size_t bytes))
{
	return faults_hit("calloc", ENOMEM) ? NULL : count_block(real_calloc(cnt, bytes));
}

WRAP(void *, realloc, (void *block, size_t bytes))
{
	void *grown = faults_hit("realloc", ENOMEM) ? NULL : real_realloc(block, bytes);

	return block == NULL ? count_block(grown) : grown;
}

WRAP(void *, reallocarray, (void *block, size_t cnt, size_t bytes))
{
	void *grown =
		faults_hit("reallocarray", ENOMEM) ? NULL : real_reallocarray(block, cnt, bytes);

	return block == NULL ? count_block(grown) : grown;
}

WRAP(void *, aligned_alloc, (size_t alignment, size_t bytes))
{
	if (faults_hit("aligned_alloc", ENOMEM))
		return NULL;
	return count_block(real_aligned_alloc(alignment, bytes));
}

WRAP(int, posix_memalign, (void **out, size_t alignment, size_t bytes))
{
	int rc = faults_hit("posix_memalign", ENOMEM) ? ENOMEM
						      : real_posix_memalign(out, alignment, bytes);

	live_blocks += rc == 0;
	return rc;
}

WRAP(char *, strdup, (const char *text))
{
	return faults_hit("strdup", ENOMEM) ? NULL : count_block(real_strdup(text));
}

WRAP(void, free, (void *block))
{
	live_blocks -= block != NULL;
	real_free(block);
}

WRAP(void *, mmap, (void *addr, size_t bytes, int prot, int flags, int fd, off_t offset))
{
	void *map = faults_hit("mmap", ENOMEM) ? MAP_FAILED
					       : real_mmap(addr, bytes, prot, flags, fd, offset);

	live_mappings += map != MAP_FAILED;
	return map;
}

WRAP(int, munmap, (void *addr, size_t bytes))
{
	int rc = real_munmap(addr, bytes);

	live_mappings -= rc == 0;
	return rc;
}

WRAP(int, pthread_create,
     (pthread_t * out, const pthread_attr_t *attr, void *(*run)(void *), void *arg))
{
	(void)attr;
	(void)run;
	(void)arg;
	if (faults_hit("pthread_create", EAGAIN))
		return EAGAIN;
	*out = pthread_self();
	live_threads++;
	return 0;
}

WRAP(int, pthread_join, (pthread_t thread, void **out))
{
	(void)thread;
	(void)out;
	live_threads--;
	return 0;
}

WRAP(int, pthread_setname_np, (pthread_t thread, const char *name))
{
	(void)thread;
	(void)name;
	return 0;
}

WRAP(int, clock_gettime, (clockid_t clock, struct timespec *out))
{
	uint64_t now_ns = clock_ns;

	if (clock != CLOCK_MONOTONIC || clock_is_free)
		return real_clock_gettime(clock, out);
	out->tv_sec = (time_t)(now_ns / SXT_NS_PER_SEC);
	out->tv_nsec = (long)(now_ns % SXT_NS_PER_SEC);
	return 0;
}

WRAP(pid_t, getpid, (void))
{
	return real_getpid() + processes_cnt;
}

WRAP(int, open, (const char *path, int flags, ...))
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
	va_end(args);
	return faults_hit("open", EMFILE) ? -1 : real_open(path, flags, mode);
}

WRAP(int, openat, (int at_fd, const char *path, int flags, ...))
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
	va_end(args);
	return faults_hit("openat", EMFILE) ? -1 : real_openat(at_fd, path, flags, mode);
}

WRAP(FILE *, fopen, (const char *path, const char *mode))
{
	return faults_hit("fopen", EMFILE) ? NULL : real_fopen(path, mode);
}

WRAP(DIR *, opendir, (const char *path))
{
	return faults_hit("opendir", EMFILE) ? NULL : real_opendir(path);
}

WRAP(int, posix_fallocate, (int fd, off_t offset, off_t bytes))
{
	return faults_hit("posix_fallocate", ENOSPC) ? ENOSPC
						     : real_posix_fallocate(fd, offset, bytes);
}

WRAP(char *, realpath, (const char *path, char *out))
{
	return faults_hit("realpath", EACCES) ? NULL : real_realpath(path, out);
}

WRAP_PLAIN(ssize_t, read, EIO, (int fd, void *buf, size_t bytes), (fd, buf, bytes))
WRAP_PLAIN(ssize_t, write, ENOSPC, (int fd, const void *buf, size_t bytes), (fd, buf, bytes))
WRAP_PLAIN(int, mkdir, EACCES, (const char *path, mode_t mode), (path, mode))
WRAP_PLAIN(int, mkfifo, EACCES, (const char *path, mode_t mode), (path, mode))
WRAP_PLAIN(int, rename, EACCES, (const char *from, const char *to), (from, to))
WRAP_PLAIN(int, renameat, EACCES, (int from_fd, const char *from, int to_fd, const char *to),
	   (from_fd, from, to_fd, to))
WRAP_PLAIN(int, symlink, EACCES, (const char *target, const char *path), (target, path))
WRAP_PLAIN(int, fstat, EIO, (int fd, struct stat *out), (fd, out))
WRAP_PLAIN(int, fstatat, EIO, (int fd, const char *path, struct stat *out, int flags),
	   (fd, path, out, flags))
WRAP_PLAIN(int, flock, ENOLCK, (int fd, int operation), (fd, operation))
WRAP_PLAIN(int, madvise, ENOMEM, (void *addr, size_t bytes, int advice), (addr, bytes, advice))
WRAP_PLAIN(int, timerfd_create, EMFILE, (int clock, int flags), (clock, flags))
WRAP_PLAIN(ssize_t, process_vm_readv, EPERM,
	   (pid_t pid, const struct iovec *to, unsigned long to_cnt, const struct iovec *from,
	    unsigned long from_cnt, unsigned long flags),
	   (pid, to, to_cnt, from, from_cnt, flags))
WRAP_PLAIN(int, memfd_create, EMFILE, (const char *name, unsigned int flags), (name, flags))
WRAP_PLAIN(int, ftruncate, ENOSPC, (int fd, off_t bytes), (fd, bytes))
WRAP_PLAIN(int, gethostname, ENAMETOOLONG, (char *out, size_t bytes), (out, bytes))
WRAP_PLAIN(ssize_t, getrandom, ENOSYS, (void *buf, size_t bytes, unsigned int flags),
	   (buf, bytes, flags))

WRAP_PLAIN(int, socket, EMFILE, (int domain, int type, int protocol), (domain, type, protocol))
WRAP_PLAIN(int, bind, EADDRNOTAVAIL, (int fd, const struct sockaddr *addr, socklen_t len),
	   (fd, addr, len))
WRAP_PLAIN(int, listen, EADDRINUSE, (int fd, int backlog), (fd, backlog))
WRAP_PLAIN(int, accept4, ENFILE, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
	   (fd, addr, len, flags))
WRAP_PLAIN(int, connect, ENETUNREACH, (int fd, const struct sockaddr *addr, socklen_t len),
	   (fd, addr, len))
WRAP_PLAIN(int, getsockname, ENOBUFS, (int fd, struct sockaddr *addr, socklen_t *len),
	   (fd, addr, len))
WRAP_PLAIN(int, getsockopt, ENOBUFS, (int fd, int level, int name, void *value, socklen_t *len),
	   (fd, level, name, value, len))
WRAP_PLAIN(int, setsockopt, ENOPROTOOPT,
	   (int fd, int level, int name, const void *value, socklen_t len),
	   (fd, level, name, value, len))
WRAP_PLAIN(ssize_t, send, EPIPE, (int fd, const void *buf, size_t bytes, int flags),
	   (fd, buf, bytes, flags))
WRAP_PLAIN(ssize_t, recv, ECONNRESET, (int fd, void *buf, size_t bytes, int flags),
	   (fd, buf, bytes, flags))
WRAP_PLAIN(int, getifaddrs, ENOMEM, (struct ifaddrs * *out), (out))
WRAP_PLAIN(int, epoll_create1, EMFILE, (int flags), (flags))
WRAP_PLAIN(int, epoll_ctl, ENOSPC, (int epfd, int op, int fd, struct epoll_event *event),
	   (epfd, op, fd, event))
WRAP_PLAIN(int, epoll_wait, EINTR, (int epfd, struct epoll_event *events, int cnt, int timeout_ms),
	   (epfd, events, cnt, timeout_ms))
WRAP_PLAIN(int, eventfd, EMFILE, (unsigned int value, int flags), (value, flags))

static char segment_dir[] = "/dev/shm/sxt-torture-XXXXXX";

static void remove_segment_dir(void)
{
	rmdir(segment_dir);
}

/*
 * The segment lies in a folder of its own: looking through other processes' would make as many
 * calls as there are just then, and a run's k-th call would not be the last run's.
 */
WRAP(int, sxt_tele_create, (const struct sxt_tele_options *options, struct sxt_tele **out))
{
	static bool is_made;
	struct sxt_tele_options here = *options;

	if (!is_made) {
		if (mkdtemp(segment_dir) == NULL)
			abort();
		is_made = true;
		atexit(remove_segment_dir);
	}
	here.dir = segment_dir;
	return real_sxt_tele_create(&here, out);
}

/* Any library is the fake's. */
static char library;

WRAP(void *, dlopen, (const char *file, int flags))
{
	(void)file;
	(void)flags;
	if (faults_hit("dlopen", ENOENT))
		return NULL;
	live_libraries++;
	return &library;
}

WRAP(int, dlclose, (void *handle))
{
	(void)handle;
	live_libraries--;
	return 0;
}

#define ROW(member, symbol)                                \
	{                                                  \
		symbol, offsetof(struct sxt_verbs, member) \
	}

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	ROW(fork_init, "ibv_fork_init"),
	ROW(get_device_list, "ibv_get_device_list"),
	ROW(free_device_list, "ibv_free_device_list"),
	ROW(get_device_name, "ibv_get_device_name"),
	ROW(get_device_guid, "ibv_get_device_guid"),
	ROW(open_device, "ibv_open_device"),
	ROW(close_device, "ibv_close_device"),
	ROW(query_device, "ibv_query_device"),
	ROW(query_port, "ibv_query_port"),
	ROW(query_gid, "ibv_query_gid"),
	ROW(query_gid_ex, "_ibv_query_gid_ex"),
	ROW(alloc_pd, "ibv_alloc_pd"),
	ROW(dealloc_pd, "ibv_dealloc_pd"),
	ROW(reg_mr, "ibv_reg_mr"),
	ROW(reg_mr_iova2, "ibv_reg_mr_iova2"),
	ROW(dereg_mr, "ibv_dereg_mr"),
	ROW(create_cq, "ibv_create_cq"),
	ROW(destroy_cq, "ibv_destroy_cq"),
	ROW(create_qp, "ibv_create_qp"),
	ROW(modify_qp, "ibv_modify_qp"),
	ROW(destroy_qp, "ibv_destroy_qp"),
	ROW(get_async_event, "ibv_get_async_event"),
	ROW(ack_async_event, "ibv_ack_async_event"),
	ROW(wc_status_str, "ibv_wc_status_str"),
	ROW(event_type_str, "ibv_event_type_str"),
};

static void *find_symbol(const char *name, size_t *place_out)
{
	void *address = NULL;

	for (size_t i = 0; i < SXT_ARRAY_LEN(symbols); i++) {
		if (strcmp(symbols[i].name, name) != 0)
			continue;
		memcpy(&address, (const char *)faults_verbs() + symbols[i].offset, sizeof(address));
		*place_out = i;
	}
	return address;
}

/* What a library has or lacks it still has or lacks when asked again. */
WRAP(void *, dlvsym, (void *handle, const char *name, const char *version))
{
	size_t place = 0;
	void *address = find_symbol(name, &place);
	bool is_new = address != NULL && (state.seen_mask & 1ull << place) == 0;

	(void)handle;
	(void)version;
	state.seen_mask |= address != NULL ? 1ull << place : 0;
	if (is_new && faults_hit("dlvsym", ENOSYS))
		state.missing = name;
	if (state.missing != NULL && strcmp(state.missing, name) == 0)
		return NULL;
	return address;
}
