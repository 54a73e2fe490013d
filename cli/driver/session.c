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

static int load(struct sxt_drv_session *session, const char *plugin, int abi)
{
	char path[PATH_MAX + 64];
	char why[512];
	const char *file = plugin != NULL ? plugin : default_plugin(path, sizeof(path));

	sxt_drv_session_doing(session, "loading the plugin");
	if (sxt_drv_net_open(file, abi, &session->run.net, why, sizeof(why)) != 0)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_MISSING,
					"cannot use the plugin '%s': %s%s", file, why,
					plugin == NULL ? "; name one with --plugin FILE" : "");
	return 0;
}

/* Init on the user's thread; every rank gives it rank 0's number. */
static int init(struct sxt_drv_session *session, int *devices_cnt)
{
	struct sxt_drv_run *run = &session->run;
	uint64_t ids[SXT_DRV_MAX_RANKS];
	uint64_t id = 0;
	ncclResult_t result;

	if (sxt_sys_random(&sxt_sys_host, &id, sizeof(id)) != 0)
		return sxt_drv_run_fail(run, SXT_EXIT_BROKEN, "the kernel has no random numbers");
	sxt_drv_session_doing(session, "meeting the other ranks");
	if (sxt_drv_run_gather(run, &id, sizeof(id), ids) != 0)
		return -EIO;
	sxt_drv_session_doing(session, "in the plugin's init()");
	result = sxt_drv_net_init(run->net, ids[0], &run->ctx);
	if (result != ncclSuccess)
		return sxt_drv_run_fail_call(run, "init", "", result);
	session->initialised = true;
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

static int choose_device(struct sxt_drv_session *session, const char *wanted, int local_rank,
			 int devices_cnt)
{
	char *end = NULL;
	long index;

	assert(devices_cnt > 0);
	if (wanted == NULL)
		return read_props(session, local_rank % devices_cnt);
	index = strtol(wanted, &end, 10);
	if (end == wanted || *end != '\0')
		return find_name(session, wanted, devices_cnt);
	if (index < 0 || index >= devices_cnt)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_MISSING,
					"--dev must be 0..%d or a name (got %s)", devices_cnt - 1,
					wanted);
	return read_props(session, (int)index);
}

int sxt_drv_session_open(struct sxt_drv_session *session, const char *plugin, int abi,
			 const char *dev, int local_rank)
{
	int devices_cnt = 0;

	if (load(session, plugin, abi) != 0 || init(session, &devices_cnt) != 0 ||
	    choose_device(session, dev, local_rank, devices_cnt) != 0)
		return -EIO;
	if ((session->props.ptr_support & NCCL_PTR_HOST) == 0)
		return sxt_drv_run_fail(&session->run, SXT_EXIT_BROKEN,
					"device %s does not take host memory (ptrSupport 0x%x)",
					session->props.name,
					(unsigned int)session->props.ptr_support);
	return 0;
}

static int exchange_handles(struct sxt_drv_session *session, size_t bytes)
{
	char *own = malloc(bytes);
	char *all = malloc(bytes * (size_t)session->run.ranks);
	int rc;

	if (own == NULL || all == NULL) {
		rc = sxt_drv_run_fail(&session->run, SXT_EXIT_BROKEN, "out of memory");
	} else {
		sxt_drv_bench_copy_handles(session->bench, own);
		rc = sxt_drv_run_gather(&session->run, own, bytes, all);
	}
	if (rc == 0)
		sxt_drv_bench_take_handles(session->bench, all);
	free(own);
	free(all);
	return rc;
}

static int start_threads(struct sxt_drv_session *session)
{
	int rc = sxt_drv_worker_start(&session->service, "service");

	if (rc == 0)
		rc = sxt_drv_worker_start(&session->progress, "progress");
	return rc == 0 ? 0
		       : sxt_drv_run_fail(&session->run, SXT_EXIT_BROKEN,
					  "cannot start a thread: %s", sxt_strerror(rc));
}

static int serve(struct sxt_drv_session *session, const char *doing, int (*job)(void *))
{
	sxt_drv_session_doing(session, doing);
	return sxt_drv_run_on(&session->run, &session->service, job, &session->bench->conns, NULL);
}

int sxt_drv_session_connect(struct sxt_drv_session *session, const struct sxt_drv_bench_spec *spec)
{
	struct sxt_drv_run *run = &session->run;
	struct nccl_net_attr attr;

	if (spec->group > session->props.max_recvs)
		return sxt_drv_run_fail(run, SXT_EXIT_USAGE,
					"--group %d: device %s takes groups of up to %d (maxRecvs)",
					spec->group, session->props.name, session->props.max_recvs);
	if (start_threads(session) != 0)
		return -EIO;
	if (sxt_drv_bench_create(run, spec, session->dev, &session->bench) != 0)
		return sxt_drv_run_fail(run, SXT_EXIT_BROKEN, "no memory for buffers of %zu bytes",
					spec->max_bytes);
	/* "Undefined" in every field; NCCL ignores the answer too. */
	memset(&attr, 0xff, sizeof(attr));
	if (run->net->calls.set_attr != NULL)
		sxt_ignore((long)run->net->calls.set_attr(run->ctx, &attr));
	if (serve(session, "listening", sxt_drv_conns_listen) != 0 ||
	    exchange_handles(session, (size_t)sxt_drv_bench_conns_per_rank(spec) *
					      NCCL_NET_HANDLE_BYTES) != 0 ||
	    serve(session, "connecting", sxt_drv_conns_connect) != 0)
		return -EIO;
	return sxt_drv_run_barrier(run);
}

int sxt_drv_session_close(struct sxt_drv_session *session)
{
	struct sxt_drv_run *run = &session->run;
	ncclResult_t result = ncclSuccess;
	int rc = 0;

	if (session->bench != NULL && session->service.started)
		rc = serve(session, "closing connections", sxt_drv_conns_close);
	sxt_drv_worker_stop(&session->service);
	sxt_drv_worker_stop(&session->progress);
	sxt_drv_session_doing(session, "in the plugin's finalize()");
	if (session->initialised)
		result = sxt_drv_net_finalize(run->net, run->ctx);
	session->initialised = false;
	return result == ncclSuccess ? rc : sxt_drv_run_fail_call(run, "finalize", "", result);
}

void sxt_drv_session_fini(struct sxt_drv_session *session)
{
	sxt_drv_bench_destroy(session->bench);
	session->bench = NULL;
	sxt_drv_net_close(session->run.net);
	session->run.net = NULL;
	sxt_drv_run_fini(&session->run);
}
