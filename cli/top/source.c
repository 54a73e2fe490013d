/*
 * source.c - finds segments, keeps them mapped, and takes shots of them with the ports' counters.
 */
#include "cli/top/source.h"

#include "core/status.h"
#include "core/sys.h"
#include "core/sysfs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct segment {
	char path[4096];
	char file[SXT_TOP_FILE_BYTES];
	struct sxt_tele_view *view;
	bool alive;  /* of a snapshot's */
	int missing; /* shots since its file was seen last */
};

struct sxt_top_source {
	const char *dir;
	const char *root;
	const struct sxt_snapshot *snapshot; /* NULL: a folder */
	struct segment **segments;
	size_t cnt;
	struct sxt_top_troubles troubles;
};

int sxt_top_source_open(const char *dir, const char *root, struct sxt_top_source **out)
{
	struct sxt_top_source *source = calloc(1, sizeof(*source));

	if (source == NULL)
		return -ENOMEM;
	source->dir = dir != NULL ? dir : SXT_TELE_DIR;
	source->root = root;
	*out = source;
	return 0;
}

static void close_segment(struct segment *segment)
{
	sxt_tele_close(segment->view);
	free(segment);
}

void sxt_top_source_close(struct sxt_top_source *source)
{
	if (source == NULL)
		return;
	for (size_t i = 0; i < source->cnt; i++)
		close_segment(source->segments[i]);
	free(source->segments);
	free(source->troubles.list);
	free(source);
}

/* Takes the segment on success only. */
static int add_segment(struct sxt_top_source *source, struct segment *segment)
{
	struct segment **list =
		realloc(source->segments, (source->cnt + 1) * sizeof(*source->segments));

	if (list == NULL)
		return -ENOMEM;
	source->segments = list;
	list[source->cnt++] = segment;
	return 0;
}

static int add_trouble(struct sxt_top_source *source, const char *file, int rc)
{
	struct sxt_top_troubles *troubles = &source->troubles;
	struct sxt_snapshot_miss *list;

	/* Made just now, gone just now: the next shot tells. */
	if (rc == -EAGAIN || rc == -ENOENT)
		return 0;
	if (rc == -EACCES) {
		troubles->foreign_cnt++;
		return 0;
	}
	list = realloc(troubles->list, (troubles->cnt + 1) * sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	troubles->list = list;
	list += troubles->cnt++;
	list->rc = rc;
	snprintf(list->file, sizeof(list->file), "%s", file);
	return 0;
}

static int load_segment(struct sxt_top_source *source, const struct sxt_snapshot_segment *from)
{
	struct segment *segment = calloc(1, sizeof(*segment));
	int rc;

	if (segment == NULL)
		return -ENOMEM;
	segment->alive = from->alive;
	snprintf(segment->file, sizeof(segment->file), "%s", from->file);
	rc = sxt_tele_map(from->bytes, from->bytes_cnt, from->now, &segment->view);
	if (rc == 0)
		rc = add_segment(source, segment);
	else if (rc != -ENOMEM) {
		int error = rc;

		rc = add_trouble(source, from->file, error == -EAGAIN ? -EPROTO : error);
		close_segment(segment);
		return rc;
	}
	if (rc != 0)
		close_segment(segment);
	return rc;
}

int sxt_top_source_load(const struct sxt_snapshot *snapshot, struct sxt_top_source **out)
{
	struct sxt_top_source *source = calloc(1, sizeof(*source));
	int rc = source != NULL ? 0 : -ENOMEM;

	if (rc == 0)
		source->snapshot = snapshot;
	for (size_t i = 0; rc == 0 && i < snapshot->segments_cnt; i++)
		rc = load_segment(source, &snapshot->segments[i]);
	for (size_t i = 0; rc == 0 && i < snapshot->misses_cnt; i++)
		rc = add_trouble(source, snapshot->misses[i].file, snapshot->misses[i].rc);
	if (rc == 0)
		*out = source;
	else
		sxt_top_source_close(source);
	return rc;
}

static int open_file(struct sxt_top_source *source, const struct sxt_tele_file *file)
{
	struct segment *segment;
	char name[SXT_TOP_FILE_BYTES];
	int rc;

	for (size_t i = 0; i < source->cnt; i++) {
		if (strcmp(source->segments[i]->path, file->path) == 0) {
			source->segments[i]->missing = 0;
			return 0;
		}
	}
	sxt_top_file_name(file, name);
	segment = calloc(1, sizeof(*segment));
	if (segment == NULL)
		return -ENOMEM;
	memcpy(segment->path, file->path, sizeof(segment->path));
	memcpy(segment->file, name, sizeof(name));
	rc = sxt_tele_open(file->path, &segment->view);
	if (rc == 0) {
		rc = add_segment(source, segment);
		if (rc != 0)
			close_segment(segment);
		return rc;
	}
	close_segment(segment);
	return rc == -ENOMEM ? rc : add_trouble(source, name, rc);
}

/* One that was removed ended in order. The shot before this one still needs its view. */
static void forget_missing(struct sxt_top_source *source)
{
	size_t kept = 0;

	for (size_t i = 0; i < source->cnt; i++) {
		if (source->segments[i]->missing > 1)
			close_segment(source->segments[i]);
		else
			source->segments[kept++] = source->segments[i];
	}
	source->cnt = kept;
}

static int scan(struct sxt_top_source *source)
{
	struct sxt_tele_file *files = NULL;
	size_t cnt = 0;
	int rc = 0;

	source->troubles.cnt = 0;
	source->troubles.foreign_cnt = 0;
	for (size_t i = 0; i < source->cnt; i++)
		source->segments[i]->missing++;
	source->troubles.dir_rc = sxt_tele_list(source->dir, &files, &cnt);
	for (size_t i = 0; rc == 0 && source->troubles.dir_rc == 0 && i < cnt; i++)
		rc = open_file(source, &files[i]);
	if (source->troubles.dir_rc == 0)
		free(files);
	forget_missing(source);
	return source->troubles.dir_rc == -ENOMEM ? -ENOMEM : rc;
}

static bool read_counter(const struct sxt_top_source *source, const struct sxt_tele_port *port,
			 const char *name, uint64_t *out)
{
	char path[160];
	char text[64];
	char *end;

	if (source->snapshot != NULL) {
		snprintf(path, sizeof(path), "%s/%" PRIu32 "/counters/%s", port->hca, port->num,
			 name);
		return sxt_snapshot_counter(source->snapshot, path, out);
	}
	/* The name is another process's word: it may not lead elsewhere. */
	if (strchr(port->hca, '/') != NULL || port->hca[0] == '.')
		return false;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%" PRIu32 "/counters/%s",
		 port->hca, port->num, name);
	if (sxt_sysfs_read(source->root, path, text, sizeof(text)) != 0)
		return false;
	*out = strtoull(text, &end, 10);
	return end != text;
}

static bool has_hardware(const struct sxt_top_shot *shot, const struct sxt_tele_port *port)
{
	for (size_t i = 0; i < shot->hardware_cnt; i++) {
		if (shot->hardware[i].num == port->num &&
		    strcmp(shot->hardware[i].hca, port->hca) == 0)
			return true;
	}
	return false;
}

static int add_hardware(const struct sxt_top_source *source, const struct sxt_tele_port *port,
			struct sxt_top_shot *shot)
{
	static const char *const names[2] = {"port_xmit_data", "port_rcv_data"};
	struct sxt_top_hardware *list;

	if (has_hardware(shot, port))
		return 0;
	list = realloc(shot->hardware, (shot->hardware_cnt + 1) * sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	shot->hardware = list;
	list += shot->hardware_cnt++;
	*list = (struct sxt_top_hardware){.num = port->num};
	memcpy(list->hca, port->hca, sizeof(list->hca));
	for (int way = 0; way < 2; way++) {
		uint64_t words;

		/* They count words of 4 bytes, of whatever link. */
		list->has[way] = read_counter(source, port, names[way], &words);
		list->bytes[way] = list->has[way] ? words * 4 : 0;
	}
	return 0;
}

static int add_all_hardware(const struct sxt_top_source *source, struct sxt_top_shot *shot)
{
	int rc = 0;

	for (size_t i = 0; i < shot->samples_cnt; i++) {
		const struct sxt_top_sample *sample = &shot->samples[i];

		for (uint32_t n = 0; rc == 0 && n < sample->of[SXT_TELE_PORTS].cnt; n++)
			rc = add_hardware(source, sxt_top_nth(sample, SXT_TELE_PORTS, n), shot);
	}
	return rc;
}

int sxt_top_source_shot(struct sxt_top_source *source, struct sxt_top_shot *out)
{
	struct sxt_top_shot shot = {0};
	int rc = source->snapshot == NULL ? scan(source) : 0;

	if (rc != 0)
		return rc;
	shot.samples = calloc(source->cnt + 1, sizeof(*shot.samples));
	if (shot.samples == NULL)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < source->cnt; i++) {
		struct segment *segment = source->segments[i];
		bool alive = sxt_tele_refresh(segment->view);

		if (segment->missing > 0)
			continue;
		if (source->snapshot != NULL)
			alive = segment->alive;
		rc = sxt_top_sample_take(segment->view, segment->file, alive,
					 &shot.samples[shot.samples_cnt]);
		shot.samples_cnt += rc == 0;
	}
	shot.ns = source->snapshot != NULL ? source->snapshot->taken_ns : sxt_sys_host.now_ns();
	shot.wall_ns =
		source->snapshot != NULL ? source->snapshot->taken_ns : sxt_sys_host.wall_ns();
	if (rc == 0)
		rc = add_all_hardware(source, &shot);
	if (rc == 0)
		*out = shot;
	else
		sxt_top_shot_fini(&shot);
	return rc;
}

const struct sxt_top_troubles *sxt_top_source_troubles(const struct sxt_top_source *source)
{
	return &source->troubles;
}

static void print_miss(const struct sxt_snapshot_miss *miss, FILE *out)
{
	if (miss->rc == -EPROTONOSUPPORT)
		fprintf(out,
			"%s: of another version of Sextant than this\n"
			"  command (" SXT_VERSION
			"); use the `sextant` that came with the job's plugin.\n",
			miss->file);
	else if (miss->rc == -EPROTO)
		fprintf(out,
			"%s: no telemetry segment, or damaged; if its\n"
			"  process is no more, remove it.\n",
			miss->file);
	else
		fprintf(out, "%s: cannot be read: %s\n", miss->file, sxt_strerror(miss->rc));
}

static void print_nothing(const struct sxt_top_source *source, FILE *out)
{
	if (source->snapshot != NULL) {
		fputs("The snapshot holds no segment that can be read.\n", out);
		return;
	}
	fprintf(out, "No process of user %u has a telemetry segment in %s.\n",
		(unsigned int)getuid(), source->dir);
	fputs("If a job runs on this host, one of these holds:\n"
	      "  - It does not use the plugin: NCCL_DEBUG=INFO shows which network NCCL took;\n"
	      "    NCCL_NET_PLUGIN=sextant and NCCL_NET=Sextant make it this one.\n"
	      "  - Its telemetry is off: the job has SEXTANT_TELEMETRY=0, or it could not be had\n"
	      "    and its log has a warning that says why (a full /dev/shm).\n"
	      "  - It runs in a container with a /dev/shm of its own: run this command inside it,\n"
	      "    or share the host's (docker --ipc=host, Kubernetes hostIPC: true).\n"
	      "  - It runs as another user: run this command as that user, or as root.\n",
	      out);
}

void sxt_top_print_troubles(const struct sxt_top_source *source, size_t shown_cnt, FILE *out)
{
	const struct sxt_top_troubles *troubles = &source->troubles;

	if (troubles->foreign_cnt > 0)
		fprintf(out,
			"%zu segment%s of other users cannot be read: run as that user, or as "
			"root.\n",
			troubles->foreign_cnt, troubles->foreign_cnt == 1 ? "" : "s");
	if (troubles->dir_rc != 0)
		fprintf(out, "%s cannot be looked at: %s\n", source->dir,
			sxt_strerror(troubles->dir_rc));
	else if (shown_cnt == 0)
		print_nothing(source, out);
	for (size_t i = 0; i < troubles->cnt; i++)
		print_miss(&troubles->list[i], out);
}
