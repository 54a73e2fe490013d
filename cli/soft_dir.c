/*
 * soft_dir.c - state folders of software fabrics: made, shared, left, swept (slow path).
 */
#include "cli/soft_dir.h"

#include "ib/soft/sysfs_tree.h"

#include "core/config.h"
#include "core/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BASE_MAX 64 /* "/dev/shm/sextant-soft-4294967295" and its terminator */

static void base_path(char out[BASE_MAX])
{
	snprintf(out, BASE_MAX, "/dev/shm/sextant-soft-%u", (unsigned int)geteuid());
}

/* Everybody may write to /dev/shm: what bears our name must also be ours. */
static int make_base(const char *base)
{
	struct stat st;

	if (mkdir(base, 0700) != 0 && errno != EEXIST) {
		int rc = -errno;

		fprintf(stderr,
			"sextant soft: cannot make %s: %m; it needs a /dev/shm to write to\n",
			base);
		return rc;
	}
	if (lstat(base, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077) != 0) {
		fprintf(stderr,
			"sextant soft: %s is not a folder that only you (uid %u) can enter; remove "
			"it\n",
			base, (unsigned int)geteuid());
		return -EPERM;
	}
	return 0;
}

/* Returns the descriptor that holds the lock, to be closed, or a negative errno. */
static int lock_base(const char *base)
{
	char path[PATH_MAX];
	int rc;
	int fd;

	snprintf(path, sizeof(path), "%s/lock", base);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = -errno;
		fprintf(stderr, "sextant soft: cannot open %s: %m\n", path);
		return rc;
	}
	while (flock(fd, LOCK_EX) != 0) {
		if (errno == EINTR)
			continue;
		rc = -errno;
		fprintf(stderr, "sextant soft: cannot lock %s: %m\n", path);
		close(fd);
		return rc;
	}
	return fd;
}

static int open_members(const char *dir, int flags)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/members", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
	return fd >= 0 ? fd : -errno;
}

/* Processes of a parent that was killed may still be at work. */
static bool has_live_procs(const struct sxt_soft_state *state)
{
	for (uint32_t i = 0; i < SXT_SOFT_PROCS_MAX; i++) {
		const struct sxt_soft_proc *proc = &state->fabric->procs[i];
		uint64_t word = atomic_load_explicit(&proc->word, memory_order_acquire);
		uint64_t start_ticks;

		if (sxt_soft_proc_word_state(word) == SXT_SOFT_PROC_ALIVE &&
		    sxt_soft_proc_start_ticks(proc->pid, &start_ticks) == 0 &&
		    start_ticks == proc->start_ticks)
			return true;
	}
	return false;
}

/* With the base locked. A folder without a state is what a killed parent had only begun. */
static bool is_leftover(const char *dir)
{
	struct sxt_soft_state *state;
	char path[PATH_MAX];
	int fd = open_members(dir, 0);
	bool unused;

	if (fd == -ENOENT)
		return true;
	if (fd < 0)
		return false;
	unused = flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	snprintf(path, sizeof(path), "%.4000s/fabric", dir);
	if (!unused || access(path, F_OK) != 0)
		return unused;
	if (sxt_soft_state_open(dir, &state) != 0)
		return true;
	unused = !has_live_procs(state);
	sxt_soft_state_close(state);
	return unused;
}

/* Calls a function for every fabric's folder, until it says stop by something else than 0. */
static int each_dir(const char *base, int (*each)(const char *dir, void *into), void *into)
{
	struct dirent *entry;
	char path[PATH_MAX];
	int rc = 0;
	DIR *dir = opendir(base);

	if (dir == NULL)
		return 0;
	while (rc == 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lock") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", base, entry->d_name);
		rc = each(path, into);
	}
	closedir(dir);
	return rc;
}

static int sweep(const char *dir, void *into)
{
	(void)into;
	if (is_leftover(dir))
		sxt_ignore(sxt_soft_tree_remove(dir)); /* what stays is tried again next time */
	return 0;
}

static int lock_members(const char *dir, int flags)
{
	int fd = open_members(dir, flags);
	int rc = fd;

	if (fd >= 0 && flock(fd, LOCK_SH) != 0) {
		rc = -errno;
		close(fd);
	}
	if (rc < 0)
		fprintf(stderr, "sextant soft: cannot become a member of %s: %s\n", dir,
			sxt_strerror(rc));
	return rc;
}

static int open_member(const char *dir, int flags, struct sxt_soft_member *out)
{
	struct sxt_soft_member member = {.members_fd = lock_members(dir, flags)};
	int rc;

	if (member.members_fd < 0)
		return member.members_fd;
	rc = sxt_soft_state_open(dir, &member.state);
	if (rc != 0) {
		close(member.members_fd);
		return rc;
	}
	*out = member;
	return 0;
}

static int create_state(const char *dir, const struct sxt_soft_plan *plan,
			struct sxt_soft_member *out)
{
	struct sxt_soft_member member;
	int rc = sxt_soft_state_create(dir, plan->fabric);

	if (rc != 0)
		return rc;
	rc = open_member(dir, O_CREAT | O_EXCL, &member);
	if (rc != 0)
		goto remove;
	rc = sxt_soft_tree_create(member.state);
	if (rc == 0) {
		*out = member;
		return 0;
	}
	sxt_soft_state_close(member.state);
	close(member.members_fd);
remove:
	sxt_ignore(sxt_soft_tree_remove(dir)); /* a leftover that the next run sweeps */
	return rc;
}

int sxt_soft_dir_join(const struct sxt_soft_plan *plan, const char *name,
		      struct sxt_soft_member *out)
{
	char base[BASE_MAX];
	char dir[PATH_MAX];
	int lock_fd;
	int rc;

	base_path(base);
	rc = make_base(base);
	if (rc != 0)
		return rc;
	lock_fd = lock_base(base);
	if (lock_fd < 0)
		return lock_fd;
	sxt_ignore(each_dir(base, sweep, NULL)); /* what is left over harms nobody */
	snprintf(dir, sizeof(dir), "%s/%016" PRIx64 "%s%s", base, plan->hash,
		 name[0] != '\0' ? "-" : "", name);
	if (access(dir, F_OK) == 0)
		rc = open_member(dir, 0, out);
	else
		rc = create_state(dir, plan, out);
	close(lock_fd);
	return rc;
}

int sxt_soft_dir_join_at(const char *dir, struct sxt_soft_member *out)
{
	return open_member(dir, 0, out);
}

void sxt_soft_dir_leave(struct sxt_soft_member *member)
{
	char base[BASE_MAX];
	int lock_fd;

	base_path(base);
	lock_fd = lock_base(base);
	/* Turning shared into exclusive works for the last member only. */
	if (lock_fd >= 0 && flock(member->members_fd, LOCK_EX | LOCK_NB) == 0 &&
	    !has_live_procs(member->state))
		sxt_ignore(sxt_soft_tree_remove(member->state->dir)); /* the next run sweeps */
	sxt_soft_state_close(member->state);
	close(member->members_fd);
	if (lock_fd >= 0)
		close(lock_fd);
}

struct candidates {
	char first[PATH_MAX];
	int cnt;
};

static int count_dir(const char *dir, void *into)
{
	struct candidates *found = into;
	int fd = open_members(dir, 0);
	bool in_use = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;

	if (fd >= 0)
		close(fd);
	if (in_use && found->cnt++ == 0)
		snprintf(found->first, sizeof(found->first), "%s", dir);
	return 0;
}

static int print_dir(const char *dir, void *into)
{
	struct candidates one = {.cnt = 0};

	(void)into;
	sxt_ignore(count_dir(dir, &one));
	if (one.cnt > 0)
		fprintf(stderr, "  --state %s\n", dir);
	return 0;
}

int sxt_soft_dir_open(const char *dir, struct sxt_soft_state **out)
{
	struct candidates found = {.cnt = 0};
	char base[BASE_MAX];
	int lock_fd = -1;

	if (dir == NULL)
		dir = sxt_env_get("SEXTANT_SOFT_STATE");
	if (dir == NULL || dir[0] == '\0') {
		base_path(base);
		if (access(base, F_OK) == 0)
			lock_fd = lock_base(base); /* so that nobody leaves while we try locks */
		sxt_ignore(each_dir(base, count_dir, &found));
		if (lock_fd >= 0)
			close(lock_fd);
		dir = found.first;
		if (found.cnt == 0) {
			fputs("sextant soft: no fabric is running; start one with `sextant soft "
			      "run "
			      "-- COMMAND`\n",
			      stderr);
			return SXT_EXIT_BROKEN;
		}
	}
	if (found.cnt > 1) {
		fprintf(stderr, "sextant soft: %d fabrics are running; choose one of\n", found.cnt);
		sxt_ignore(each_dir(base, print_dir, NULL));
		return SXT_EXIT_USAGE;
	}
	return sxt_soft_state_open(dir, out) == 0 ? SXT_EXIT_OK : SXT_EXIT_BROKEN;
}
