/*
 * session.c - loads a plugin, initialises it, connects and closes, each call on the thread NCCL
 * makes it on (slow path, main thread).
 */
#include "cli/driver/session.h"

#include "core/status.h"
#include "core/sys.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *volatile watchdog_doing = "starting";

static void on_alarm(int signal_number)
{
	static const char before[] = "sextant: the plugin does not return; last act: ";
	const char *doing = watchdog_doing;

	(void)signal_number;
	/* If standard error is gone there is nobody to tell. */
	sxt_ignore(write(STDERR_FILENO, before, sizeof(before) - 1));
	sxt_ignore(write(STDERR_FILENO, doing, strlen(doing)));
	sxt_ignore(write(STDERR_FILENO, "\n", 1));
	_exit(SXT_EXIT_BROKEN);
}

void sxt_drv_session_doing(struct sxt_drv_session *session, const char *what)
{
	session->run.doing = what;
	watchdog_doing = what;
}

void sxt_drv_session_watch(unsigned int seconds)
{
	signal(SIGALRM, on_alarm);
	alarm(seconds);
}

static const char *default_plugin(char *out, size_t out_bytes)
{
	static const char name[] = "libnccl-net-sextant.so";
	static const char *const folders[] = {"", "../lib/", ("../" SXT_LIBDIR "/")};
	char exe[PATH_MAX] = "";
	const char *folder;

	if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		return name;
	folder = dirname(exe);
	for (size_t i = 0; i < SXT_ARRAY_LEN(folders); i++) {
		snprintf(out, out_bytes, "%s/%s%s", folder, folders[i], name);
		if (access(out, R_OK) == 0)
			return out;
	}
	return name;
}

static int load(struct sxt_drv_session *session)
{
	const char *plugin = session->use.plugin;
	char path[PATH_MAX + 64];
	char why[512];
	const char *file = plugin != NULL ? plugin : default_plugin(path, sizeof(path));

	sxt_drv_session_doing(session, "loading the plugin");
	if (sxt_drv_net_open(file, session->use.abi, &session->run.net, why, sizeof(why)) != 0)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_MISSING,
					"cannot use the plugin '%s': %s%s", file, why,
					plugin == NULL ? "; name one with --plugin FILE" : "");
	return 0;
}

static int check_ports(struct sxt_drv_session *session)
{
	const struct sxt_drv_net *net = session->run.net;
	const int most = sxt_drv_net_merge_max(net);
	const int ports = session->use.ports;

	if (ports <= 1 || ports <= most)
		return 0;
	if (net->abi < 9)
		return sxt_drv_run_fail(
			&session->run, SXT_EXIT_USAGE,
			"--ports %d: net v%d cannot merge devices (makeVDevice came "
			"with v9); give --abi 9 or later",
			ports, net->abi);
	if (most == 0)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_USAGE,
					"--ports %d: the plugin %s has no makeVDevice in its net "
					"v%d",
					ports, net->name, net->abi);
	return sxt_drv_run_fail(&session->run, SXT_EXIT_USAGE,
				"--ports %d: net v%d merges %d devices at most; 8 need net v12",
				ports, net->abi, most);
}

/* Init on the user's thread; every rank gives it rank 0's number. */
static int init_comms(struct sxt_drv_session *session)
{
	struct sxt_drv_run *run = &session->run;
	uint64_t ids[SXT_DRV_MAX_RANKS];
	uint64_t id = 0;

	if (sxt_sys_random(&sxt_sys_host, &id, sizeof(id)) != 0)
		return sxt_drv_run_fail(run, SXT_EXIT_BROKEN, "the kernel has no random numbers");
	sxt_drv_session_doing(session, "meeting the other ranks");
	if (sxt_drv_run_gather(run, &id, sizeof(id), ids) != 0)
		return -EIO;
	sxt_drv_session_doing(session, "in the plugin's init()");
	for (int i = 0; i < session->use.comms; i++) {
		session->comms[i].run = run;
		session->comms[i].user.comm = session->use.comms > 1 ? i : -1;
		if (sxt_drv_comm_init(&session->comms[i], ids[0] + (uint64_t)i) != 0)
			return -EIO;
	}
	return 0;
}

static int count_devices(struct sxt_drv_session *session, int *devices_cnt)
{
	struct sxt_drv_run *run = &session->run;
	ncclResult_t result;

	sxt_drv_session_doing(session, "in the plugin's devices()");
	result = run->net->calls.devices(devices_cnt);
	if (result != ncclSuccess)
		return sxt_drv_run_fail_call(run, "devices", "", result);
	if (*devices_cnt <= 0)
		return sxt_drv_run_fail(run, SXT_EXIT_MISSING,
					"the plugin %s finds no device: devices() gives %d",
					run->net->name, *devices_cnt);
	return 0;
}

static int read_props(struct sxt_drv_session *session, int dev)
{
	char where[32];
	ncclResult_t result;

	sxt_drv_session_doing(session, "in the plugin's getProperties()");
	result = sxt_drv_net_props(session->run.net, dev, &session->props);
	snprintf(where, sizeof(where), "of device %d", dev);
	if (result != ncclSuccess)
		return sxt_drv_run_fail_call(&session->run, "getProperties", where, result);
	if (session->props.name == NULL)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_BROKEN,
					"getProperties() of device %d leaves name NULL", dev);
	session->dev = dev;
	return 0;
}

/* Leaves dev and props at the device called so. */
static int find_name(struct sxt_drv_session *session, const char *name, int devices_cnt)
{
	for (int dev = 0; dev < devices_cnt; dev++) {
		if (read_props(session, dev) != 0)
			return -EIO;
		if (strcmp(session->props.name, name) == 0)
			return 0;
	}
	return sxt_drv_run_fail(&session->run, SXT_EXIT_MISSING,
				"--dev %s: none of the plugin's %d devices is called so; the last "
				"one is %s",
				name, devices_cnt, session->props.name);
}

/* Hosts need not have equally many: each merges what it has, which one rank of it tells. */
static int ports_here(const struct sxt_drv_session *session, int devices_cnt)
{
	const struct sxt_drv_use *use = &session->use;

	if (use->ports <= devices_cnt)
		return use->ports;
	if (use->local_rank == 0)
		fprintf(stderr,
			"sextant bench: rank %d: --ports %d: the plugin finds %d device%s here, "
			"and that is what this host uses\n",
			session->run.rank, use->ports, devices_cnt, devices_cnt == 1 ? "" : "s");
	return devices_cnt;
}

/* As NCCL merges: the properties of all, makeVDevice, and devices() tells one more. */
static int merge_devices(struct sxt_drv_session *session, int devices_cnt)
{
	struct sxt_drv_run *run = &session->run;
	const int ports = ports_here(session, devices_cnt);
	int devs[NCCL_NET_MAX_DEVS_PER_NIC];
	int merged = -1;
	int total = 0;
	ncclResult_t result;

	if (ports == 1)
		return read_props(session, 0);
	for (int i = 0; i < devices_cnt; i++) {
		if (read_props(session, i) != 0)
			return -EIO;
	}
	for (int i = 0; i < ports; i++)
		devs[i] = i;
	sxt_drv_session_doing(session, "in the plugin's makeVDevice()");
	result = sxt_drv_net_make_vdevice(run->net, devs, ports, &merged);
	if (result != ncclSuccess)
		return sxt_drv_run_fail_call(run, "makeVDevice", "", result);
	if (count_devices(session, &total) != 0)
		return -EIO;
	if (merged < devices_cnt || merged >= total)
		return sxt_drv_run_fail(run, SXT_EXIT_BROKEN,
					"makeVDevice() names device %d; expected one behind the "
					"%d there were, below the %d that devices() tells now",
					merged, devices_cnt, total);
	return read_props(session, merged);
}

static int choose_device(struct sxt_drv_session *session, int devices_cnt)
{
	const char *wanted = session->use.dev;
	char *end = NULL;
	long index;

	assert(devices_cnt > 0);
	if (session->use.ports > 1)
		return merge_devices(session, devices_cnt);
	if (wanted == NULL)
		return read_props(session, session->use.local_rank % devices_cnt);
	index = strtol(wanted, &end, 10);
	if (end == wanted || *end != '\0')
		return find_name(session, wanted, devices_cnt);
	if (index < 0 || index >= devices_cnt)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_MISSING,
					"--dev must be 0..%d or a name (got %s)", devices_cnt - 1,
					wanted);
	return read_props(session, (int)index);
}

int sxt_drv_session_open(struct sxt_drv_session *session, const struct sxt_drv_use *use)
{
	int devices_cnt = 0;

	session->use = *use;
	if (load(session) != 0 || check_ports(session) != 0 || init_comms(session) != 0 ||
	    count_devices(session, &devices_cnt) != 0 || choose_device(session, devices_cnt) != 0)
		return -EIO;
	if ((session->props.ptr_support & NCCL_PTR_HOST) == 0)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_BROKEN,
					"device %s does not take host memory (ptrSupport 0x%x)",
					session->props.name,
					(unsigned int)session->props.ptr_support);
	return 0;
}

/* One job in every communicator. */
struct jobs {
	struct sxt_drv_job list[2 * SXT_DRV_COMMS_MAX];
	int cnt;
};

static void add_job(struct jobs *jobs, struct sxt_drv_worker *worker, int (*work)(void *),
		    void *arg)
{
	if (worker->started)
		jobs->list[jobs->cnt++] =
			(struct sxt_drv_job){.worker = worker, .work = work, .arg = arg};
}

static int run_jobs(struct sxt_drv_session *session, const char *doing, struct jobs *jobs)
{
	sxt_drv_session_doing(session, doing);
	return sxt_drv_run_jobs(&session->run, jobs->list, jobs->cnt, NULL, NULL);
}

static int serve_conns(struct sxt_drv_session *session, const char *doing, int (*work)(void *))
{
	struct jobs jobs = {.cnt = 0};

	for (int i = 0; i < session->use.comms; i++) {
		if (session->comms[i].bench != NULL)
			add_job(&jobs, &session->comms[i].service, work,
				&session->comms[i].bench->conns);
	}
	return run_jobs(session, doing, &jobs);
}

static int serve_oob(struct sxt_drv_session *session, const char *doing, int (*work)(void *))
{
	struct jobs jobs = {.cnt = 0};

	for (int i = 0; i < session->use.comms; i++) {
		if (session->comms[i].oob != NULL)
			add_job(&jobs, &session->comms[i].guest, work, session->comms[i].oob);
	}
	return run_jobs(session, doing, &jobs);
}

/* The guests talk until every rank's work is over. */
static void add_talks(struct sxt_drv_session *session, struct jobs *jobs)
{
	for (int i = 0; i < session->use.comms; i++) {
		struct sxt_drv_comm *comm = &session->comms[i];

		if (comm->oob == NULL)
			continue;
		/* Before any thread of this job begins. */
		atomic_store_explicit(&comm->oob->working, true, memory_order_relaxed);
		add_job(jobs, &comm->guest, sxt_drv_oob_talk, comm->oob);
	}
}

static int connect_oob(struct sxt_drv_session *session)
{
	const size_t bytes = (size_t)session->use.comms * NCCL_NET_HANDLE_BYTES;
	const int ranks = session->run.ranks;
	char *all = malloc(bytes * (size_t)ranks);
	const char *next = all + bytes * (size_t)((session->run.rank + 1) % ranks);
	char own[SXT_DRV_COMMS_MAX * NCCL_NET_HANDLE_BYTES];
	int rc = -EIO;

	if (all == NULL)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_BROKEN, "out of memory");
	if (serve_oob(session, "listening out of band", sxt_drv_oob_listen) != 0)
		goto out;
	for (int i = 0; i < session->use.comms; i++)
		memcpy(own + i * NCCL_NET_HANDLE_BYTES, session->comms[i].oob->own_handle,
		       NCCL_NET_HANDLE_BYTES);
	if (sxt_drv_run_gather(&session->run, own, bytes, all) != 0)
		goto out;
	for (int i = 0; i < session->use.comms; i++)
		memcpy(session->comms[i].oob->peer_handle, next + i * NCCL_NET_HANDLE_BYTES,
		       NCCL_NET_HANDLE_BYTES);
	rc = serve_oob(session, "connecting out of band", sxt_drv_oob_connect);
out:
	free(all);
	return rc;
}

/* What one communicator of this rank listens on, to all ranks, and back what they listen on. */
static int exchange_handles(struct sxt_drv_session *session, struct sxt_drv_bench *bench)
{
	size_t bytes = (size_t)sxt_drv_bench_handles_cnt(bench) * NCCL_NET_HANDLE_BYTES;
	char *own = calloc(1, bytes);
	char *all = malloc(bytes * (size_t)session->run.ranks);
	int rc;

	if (own == NULL || all == NULL) {
		rc = sxt_drv_run_fail(&session->run, SXT_EXIT_BROKEN, "out of memory");
	} else {
		sxt_drv_bench_copy_handles(bench, own);
		rc = sxt_drv_run_gather(&session->run, own, bytes, all);
	}
	if (rc == 0)
		sxt_drv_bench_take_handles(bench, all);
	free(own);
	free(all);
	return rc;
}

static int start_comms(struct sxt_drv_session *session, const struct sxt_drv_bench_spec *spec)
{
	/* NCCL's bootstrap takes device 0 unless it is told another one. */
	const int oob_dev = session->use.dev != NULL ? session->dev : 0;

	for (int i = 0; i < session->use.comms; i++) {
		struct sxt_drv_comm *comm = &session->comms[i];

		comm->user.dev = session->dev;
		if (sxt_drv_comm_start(comm, spec, session->use.oob ? oob_dev : -1) != 0)
			return -EIO;
	}
	return 0;
}

static int connect_comms(struct sxt_drv_session *session)
{
	struct jobs jobs = {.cnt = 0};

	for (int i = 0; i < session->use.comms; i++) {
		if (exchange_handles(session, session->comms[i].bench) != 0)
			return -EIO;
	}
	for (int i = 0; i < session->use.comms; i++)
		add_job(&jobs, &session->comms[i].service, sxt_drv_comm_connect,
			&session->comms[i]);
	add_talks(session, &jobs);
	return run_jobs(session, "connecting", &jobs);
}

int sxt_drv_session_reconnect(struct sxt_drv_session *session)
{
	if (serve_conns(session, "listening", sxt_drv_conns_listen) != 0 ||
	    connect_comms(session) != 0)
		return -EIO;
	return sxt_drv_run_barrier(&session->run);
}

int sxt_drv_session_connect(struct sxt_drv_session *session, const struct sxt_drv_bench_spec *spec)
{
	struct sxt_drv_run *run = &session->run;

	if (spec->group > session->props.max_recvs)
		return sxt_drv_run_fail(run, SXT_EXIT_USAGE,
					"--group %d: device %s takes groups of up to %d (maxRecvs)",
					spec->group, session->props.name, session->props.max_recvs);
	if (start_comms(session, spec) != 0 || (session->use.oob && connect_oob(session) != 0) ||
	    sxt_drv_session_reconnect(session) != 0)
		return -EIO;
	return 0;
}

int sxt_drv_session_disconnect(struct sxt_drv_session *session)
{
	return serve_conns(session, "closing connections", sxt_drv_conns_close);
}

int sxt_drv_session_work(struct sxt_drv_session *session, size_t bytes, int iterations,
			 void (*tick)(void *), void *tick_arg)
{
	struct jobs jobs = {.cnt = 0};

	for (int i = 0; i < session->use.comms; i++) {
		struct sxt_drv_comm *comm = &session->comms[i];

		comm->bench->bytes = bytes;
		comm->bench->iterations = iterations;
		add_job(&jobs, &comm->progress, sxt_drv_comm_work, comm);
	}
	if (iterations == 0)
		return 0;
	add_talks(session, &jobs);
	return sxt_drv_run_jobs(&session->run, jobs.list, jobs.cnt, tick, tick_arg);
}

uint64_t sxt_drv_session_oob_rounds(const struct sxt_drv_session *session)
{
	uint64_t rounds = 0;

	for (int i = 0; i < session->use.comms; i++)
		rounds += session->comms[i].oob != NULL ? session->comms[i].oob->rounds : 0;
	return rounds;
}

int sxt_drv_session_close(struct sxt_drv_session *session)
{
	int rc = serve_conns(session, "closing connections", sxt_drv_conns_close);

	if (serve_oob(session, "closing connections out of band", sxt_drv_oob_close) != 0)
		rc = -EIO;
	sxt_drv_session_doing(session, "in the plugin's finalize()");
	for (int i = 0; i < session->use.comms; i++) {
		if (session->comms[i].run != NULL && sxt_drv_comm_finalize(&session->comms[i]) != 0)
			rc = -EIO;
	}
	return rc;
}

void sxt_drv_session_fini(struct sxt_drv_session *session)
{
	for (int i = 0; i < SXT_DRV_COMMS_MAX; i++) {
		sxt_drv_bench_destroy(session->comms[i].bench);
		sxt_drv_oob_destroy(session->comms[i].oob);
		session->comms[i].bench = NULL;
		session->comms[i].oob = NULL;
	}
	sxt_drv_net_close(session->run.net);
	session->run.net = NULL;
	sxt_drv_run_fini(&session->run);
}
