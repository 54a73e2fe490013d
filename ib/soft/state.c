/*
 * state.c - making, mapping and joining the shared state of a software fabric (slow path).
 */
#include "ib/soft/state.h"

#include "core/config.h"
#include "core/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_HINT "Start the program under `sextant soft run -- COMMAND`."

static int join_path(char out[PATH_MAX], const char *dir, const char *name)
{
	int len = snprintf(out, PATH_MAX, "%s/%s", dir, name);

	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int write_all(int fd, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t put = write(fd, at, bytes);

		if (put < 0 && errno != EINTR)
			return -errno;
		if (put > 0) {
			at += put;
			bytes -= (size_t)put;
		}
	}
	return 0;
}

/* The file is made under another name and renamed, so that nobody ever maps half of it. */
static int write_fabric(const char *dir, const struct sxt_soft_fabric *fabric)
{
	char half[PATH_MAX];
	char whole[PATH_MAX];
	int fd;
	int rc = join_path(half, dir, "fabric.new");

	if (rc == 0)
		rc = join_path(whole, dir, "fabric");
	if (rc != 0)
		return rc;
	fd = open(half, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, fabric, offsetof(struct sxt_soft_fabric, procs));
	if (rc == 0 && ftruncate(fd, sizeof(*fabric)) != 0)
		rc = -errno;
	close(fd);
	if (rc == 0 && rename(half, whole) != 0)
		rc = -errno;
	if (rc != 0)
		unlink(half);
	return rc;
}

static int make_entries(const char *dir)
{
	char path[PATH_MAX];
	int fd;
	int rc = join_path(path, dir, "proc");

	if (rc == 0 && mkdir(path, 0700) != 0)
		rc = -errno;
	if (rc == 0)
		rc = join_path(path, dir, "wake");
	if (rc == 0 && mkfifo(path, 0600) != 0)
		rc = -errno;
	if (rc == 0)
		rc = join_path(path, dir, "lock");
	if (rc != 0)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void remove_entries(const char *dir)
{
	static const char *const names[] = {"fabric", "lock", "wake"};
	char path[PATH_MAX];

	for (size_t i = 0; i < SXT_ARRAY_LEN(names); i++) {
		if (join_path(path, dir, names[i]) == 0)
			unlink(path);
	}
	if (join_path(path, dir, "proc") == 0)
		rmdir(path);
	rmdir(dir);
}

int sxt_soft_state_create(const char *dir, const struct sxt_soft_fabric *fabric)
{
	struct sxt_soft_fabric *copy = malloc(sizeof(*copy));
	int rc;

	if (copy == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: out of memory", dir);
		return -ENOMEM;
	}
	*copy = *fabric;
	copy->magic = SXT_SOFT_MAGIC;
	copy->version = SXT_SOFT_VERSION;
	copy->bytes = sizeof(*copy);
	if (mkdir(dir, 0700) != 0) {
		rc = -errno;
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: cannot make the folder: %m", dir);
		goto out;
	}
	rc = make_entries(dir);
	if (rc == 0)
		rc = write_fabric(dir, copy);
	if (rc != 0) {
		errno = -rc;
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: cannot write it: %m", dir);
		remove_entries(dir);
	}
out:
	free(copy);
	return rc;
}

/* @head: the first bytes of the file. @bytes: its length. */
static int check_head(const char *dir, const struct sxt_soft_fabric *fabric, size_t bytes)
{
	if (bytes != sizeof(*fabric) || fabric->magic != SXT_SOFT_MAGIC ||
	    fabric->version != SXT_SOFT_VERSION || fabric->bytes != bytes) {
		SXT_LOG(SXT_LOG_ERROR,
			"soft state %s: layout %" PRIu32 " of %zu bytes, expected layout %u of %zu "
			"bytes. The program and `sextant soft run` must be of one Sextant build.",
			dir, bytes >= sizeof(*fabric) ? fabric->version : 0, bytes,
			SXT_SOFT_VERSION, sizeof(*fabric));
		return -EPROTO;
	}
	if (fabric->host_cnt == 0 || fabric->host_cnt > SXT_SOFT_HOSTS_MAX ||
	    fabric->hca_cnt > SXT_SOFT_HCAS_MAX || fabric->port_cnt > SXT_SOFT_PORTS_MAX) {
		SXT_LOG(SXT_LOG_ERROR,
			"soft state %s: damaged (%" PRIu32 " hosts, %" PRIu32 " HCAs, %" PRIu32
			" ports). Stop every `sextant soft run` and start again.",
			dir, fabric->host_cnt, fabric->hca_cnt, fabric->port_cnt);
		return -EPROTO;
	}
	return 0;
}

static int map_fd(int fd, size_t bytes, void **out)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	*out = map;
	return 0;
}

static int map_fabric(struct sxt_soft_state *state)
{
	char path[PATH_MAX];
	struct stat st;
	void *map = NULL;
	int fd;
	int rc = join_path(path, state->dir, "fabric");

	if (rc != 0)
		return rc;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		rc = -errno;
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: %m. " START_HINT, path);
		return rc;
	}
	rc = fstat(fd, &st) != 0 ? -errno : 0;
	if (rc == 0 && st.st_size < (off_t)offsetof(struct sxt_soft_fabric, hosts))
		rc = -EPROTO;
	if (rc == 0)
		rc = map_fd(fd, (size_t)st.st_size, &map);
	close(fd);
	if (rc != 0) {
		errno = -rc;
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: cannot map it: %m", path);
		return rc;
	}
	state->fabric = map;
	state->map_bytes = (size_t)st.st_size;
	return check_head(state->dir, state->fabric, state->map_bytes);
}

int sxt_soft_state_open(const char *dir, struct sxt_soft_state **out)
{
	struct sxt_soft_state *state = calloc(1, sizeof(*state));
	char path[PATH_MAX];
	int rc;

	if (state == NULL) {
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: out of memory", dir);
		return -ENOMEM;
	}
	state->lock_fd = -1;
	state->proc = SXT_SOFT_NO_PROC;
	state->pid = (int32_t)getpid();
	if (realpath(dir, state->dir) == NULL) {
		rc = -errno;
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: %m. " START_HINT, dir);
		goto fail;
	}
	rc = map_fabric(state);
	if (rc == 0)
		rc = join_path(path, state->dir, "lock");
	if (rc != 0)
		goto fail;
	state->lock_fd = open(path, O_RDWR | O_CLOEXEC);
	if (state->lock_fd < 0) {
		rc = -errno;
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: %m", path);
		goto fail;
	}
	*out = state;
	return 0;
fail:
	sxt_soft_state_close(state);
	return rc;
}

static uint32_t find_slot(const struct sxt_soft_fabric *fabric)
{
	uint32_t dead = SXT_SOFT_NO_PROC;

	for (uint32_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		uint64_t word = atomic_load_explicit(&fabric->procs[i].word, memory_order_relaxed);

		if (sxt_soft_proc_word_state(word) == SXT_SOFT_PROC_FREE)
			return i;
		if (sxt_soft_proc_word_state(word) == SXT_SOFT_PROC_DEAD &&
		    dead == SXT_SOFT_NO_PROC)
			dead = i;
	}
	return dead;
}

static void proc_dir(const struct sxt_soft_state *state, uint32_t slot, char out[PATH_MAX])
{
	/* The folder's own path was checked to be a real path, so this is always short enough. */
	sxt_ignore(snprintf(out, PATH_MAX, "%.4000s/proc/%" PRIu32, state->dir, slot));
}

/* The folder of a process holds plain files and FIFOs only. */
static void remove_proc_dir(const struct sxt_soft_state *state, uint32_t slot)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	proc_dir(state, slot, path);
	dir = opendir(path);
	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
	rmdir(path);
}

static void read_comm(char out[16])
{
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, out, 15);

	if (fd >= 0)
		close(fd);
	out[got > 0 ? got : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

static int fill_slot(struct sxt_soft_state *state, uint32_t slot)
{
	struct sxt_soft_proc *proc = &state->fabric->procs[slot];
	uint64_t word = atomic_load_explicit(&proc->word, memory_order_relaxed);
	char path[PATH_MAX];
	int rc = sxt_soft_proc_start_ticks(state->pid, &proc->start_ticks);

	if (rc != 0)
		return rc;
	remove_proc_dir(state, slot);
	proc_dir(state, slot, path);
	if (mkdir(path, 0700) != 0)
		return -errno;
	proc->pid = state->pid;
	proc->host = state->host;
	read_comm(proc->comm);
	word = ((word >> 2) + 1) << 2 | SXT_SOFT_PROC_ALIVE;
	/* Release: pairs with sxt_soft_proc_is_alive() and every reader of the members. */
	atomic_store_explicit(&proc->word, word, memory_order_release);
	state->proc = slot;
	state->proc_word = word;
	return 0;
}

static int take_slot(struct sxt_soft_state *state)
{
	uint32_t slot;
	int rc = sxt_soft_state_lock(state);

	if (rc == 0) {
		slot = find_slot(state->fabric);
		rc = slot == SXT_SOFT_NO_PROC ? -EUSERS : fill_slot(state, slot);
		sxt_soft_state_unlock(state);
	}
	if (rc == -EUSERS)
		SXT_LOG(SXT_LOG_ERROR,
			"soft state %s: %d processes are attached, no room for one more",
			state->dir, SXT_SOFT_PROCS_MAX);
	else if (rc != 0)
		SXT_LOG(SXT_LOG_ERROR, "soft state %s: cannot attach: errno %d", state->dir, -rc);
	return rc;
}

/* Nobody listening is fine: `soft run` also looks by itself once a second. */
static void wake_parent(const struct sxt_soft_state *state)
{
	char path[PATH_MAX];
	int fd;

	if (join_path(path, state->dir, "wake") != 0)
		return;
	/* With a reader of our own there is no SIGPIPE if the last `soft run` ends now. */
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	sxt_ignore(write(fd, "", 1));
	close(fd);
}

static int find_own_host(struct sxt_soft_state *state, const char *host)
{
	int index = sxt_soft_host_find(state->fabric, host);

	if (index < 0) {
		const char *names[SXT_SOFT_HOSTS_MAX];
		const char *nearest;

		for (uint32_t i = 0; i < state->fabric->host_cnt; i++)
			names[i] = state->fabric->hosts[i].name;
		nearest = sxt_nearest(host, names, state->fabric->host_cnt);
		SXT_LOG(SXT_LOG_ERROR,
			"soft host '%s' is not in the fabric %s%s%s; expected a name or a number "
			"0..%" PRIu32 ". Correct SEXTANT_SOFT_HOST or `soft run --host`.",
			host, state->fabric->source, nearest != NULL ? "; did you mean " : "",
			nearest != NULL ? nearest : "", state->fabric->host_cnt - 1);
		return -ENODEV;
	}
	state->host = (uint32_t)index;
	return 0;
}

int sxt_soft_state_attach(const char *dir, const char *host, struct sxt_soft_state **out)
{
	struct sxt_soft_state *state;
	int rc;

	if (dir == NULL)
		dir = sxt_env_get("SEXTANT_SOFT_STATE");
	if (host == NULL)
		host = sxt_env_get("SEXTANT_SOFT_HOST");
	if (dir == NULL || dir[0] == '\0') {
		SXT_LOG(SXT_LOG_ERROR, "software HCA: no state folder, SEXTANT_SOFT_STATE is not "
				       "set. " START_HINT);
		return -ENODEV;
	}
	rc = sxt_soft_state_open(dir, &state);
	if (rc != 0)
		return rc;
	rc = find_own_host(state, host != NULL ? host : "");
	if (rc == 0)
		rc = take_slot(state);
	if (rc != 0) {
		sxt_soft_state_close(state);
		return rc;
	}
	wake_parent(state);
	*out = state;
	return 0;
}

static void free_slot(struct sxt_soft_state *state)
{
	uint64_t word = state->proc_word;
	uint64_t idle = (word & ~3ull) | SXT_SOFT_PROC_FREE;

	if (state->pid != (int32_t)getpid())
		return;
	if (sxt_soft_state_lock(state) != 0)
		return; /* `soft run` finds the slot when the process ends */
	if (atomic_compare_exchange_strong(&state->fabric->procs[state->proc].word, &word, idle))
		remove_proc_dir(state, state->proc);
	sxt_soft_state_unlock(state);
}

void sxt_soft_state_close(struct sxt_soft_state *state)
{
	if (state == NULL)
		return;
	if (state->proc != SXT_SOFT_NO_PROC)
		free_slot(state);
	if (state->lock_fd >= 0)
		close(state->lock_fd);
	if (state->fabric != NULL)
		munmap(state->fabric, state->map_bytes);
	free(state);
}

int sxt_soft_state_lock(struct sxt_soft_state *state)
{
	while (flock(state->lock_fd, LOCK_EX) != 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

void sxt_soft_state_unlock(struct sxt_soft_state *state)
{
	sxt_ignore(flock(state->lock_fd, LOCK_UN)); /* of a lock we hold: cannot fail */
}

int sxt_soft_state_map(struct sxt_soft_state *state, const char *name, size_t bytes, void **out)
{
	char path[PATH_MAX];
	int fd;
	int rc = join_path(path, state->dir, name);

	if (rc != 0)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* Grows and never shrinks, whoever else does the same meanwhile; the rest stays a hole. */
	rc = -posix_fallocate(fd, (off_t)bytes - 1, 1);
	if (rc == 0)
		rc = map_fd(fd, bytes, out);
	close(fd);
	return rc;
}

int sxt_soft_host_find(const struct sxt_soft_fabric *fabric, const char *text)
{
	unsigned long number;
	char *end;

	if (text[0] == '\0')
		return 0;
	for (uint32_t i = 0; i < fabric->host_cnt; i++) {
		if (strcmp(fabric->hosts[i].name, text) == 0)
			return (int)i;
	}
	if (!isdigit((unsigned char)text[0]))
		return -ENOENT;
	number = strtoul(text, &end, 10);
	return *end == '\0' && number < fabric->host_cnt ? (int)number : -ENOENT;
}

/*
 * Readers take no lock. What they copy is the spare table of the next change at the earliest, so
 * it stays whole until the change after that, and then they see another version.
 */
void sxt_soft_gids_read(const struct sxt_soft_port *port,
			struct sxt_soft_gid out[SXT_SOFT_GIDS_MAX])
{
	uint32_t version;

	do {
		/* Pairs with the release in sxt_soft_gids_write(). */
		version = atomic_load_explicit(&port->gids_version, memory_order_acquire);
		memcpy(out, (version & 1) != 0 ? port->gids_odd : port->gids,
		       port->gid_cnt * sizeof(*out));
		/* The copy before the second look. */
		atomic_thread_fence(memory_order_acquire);
	} while (atomic_load_explicit(&port->gids_version, memory_order_relaxed) != version);
}

void sxt_soft_gids_write(struct sxt_soft_port *port, const struct sxt_soft_gid *gids)
{
	uint32_t version = atomic_load_explicit(&port->gids_version, memory_order_relaxed);

	memcpy((version & 1) != 0 ? port->gids : port->gids_odd, gids,
	       port->gid_cnt * sizeof(*gids));
	/* Pairs with the acquire in sxt_soft_gids_read(). */
	atomic_store_explicit(&port->gids_version, version + 1, memory_order_release);
}

bool sxt_soft_gid_is_empty(const struct sxt_soft_gid *gid)
{
	static const uint8_t none[sizeof(gid->raw)];

	return memcmp(gid->raw, none, sizeof(none)) == 0;
}

int sxt_soft_port_by_gid(const struct sxt_soft_fabric *fabric, const uint8_t raw[16])
{
	struct sxt_soft_gid gids[SXT_SOFT_GIDS_MAX];

	for (uint32_t i = 0; i < fabric->port_cnt; i++) {
		sxt_soft_gids_read(&fabric->ports[i], gids);
		for (uint32_t k = 0; k < fabric->ports[i].gid_cnt; k++) {
			if (memcmp(gids[k].raw, raw, 16) == 0)
				return (int)i;
		}
	}
	return -ENOENT;
}

int sxt_soft_port_by_lid(const struct sxt_soft_fabric *fabric, uint16_t lid)
{
	for (uint32_t i = 0; i < fabric->port_cnt && lid != 0; i++) {
		const struct sxt_soft_port *port = &fabric->ports[i];

		if (port->lid != 0 && lid >= port->lid && lid - port->lid < 1 << port->lmc)
			return (int)i;
	}
	return -ENOENT;
}

int sxt_soft_proc_start_ticks(int32_t pid, uint64_t *out)
{
	char path[64];
	char text[1024];
	const char *at;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -ESRCH;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return -ESRCH;
	text[got] = '\0';
	/* "pid (comm) state ...": comm may hold anything, so count from the last ")". */
	at = strrchr(text, ')');
	if (at == NULL || strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0)
		return -ESRCH;
	for (int field = 2; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at == NULL)
		return -ESRCH;
	*out = strtoull(at + 1, NULL, 10);
	return 0;
}

void sxt_soft_proc_bury(struct sxt_soft_state *state, uint32_t slot, uint64_t word)
{
	uint64_t dead = (word & ~3ull) | SXT_SOFT_PROC_DEAD;

	if (sxt_soft_proc_word_state(word) != SXT_SOFT_PROC_ALIVE ||
	    sxt_soft_state_lock(state) != 0)
		return;
	if (atomic_compare_exchange_strong(&state->fabric->procs[slot].word, &word, dead))
		remove_proc_dir(state, slot);
	sxt_soft_state_unlock(state);
}
