/*
 * broken.c - which rule of its contract the fake net plugin breaks, and the deeds at load, init,
 * finalize and unloading.
 */
#include "tests/fake/net/broken.h"

#include "tests/fake/net/fake.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
	"",
#define SXT_BROKEN(id, name, abi, deed) name,
#include "tests/fake/net/broken.def"
#undef SXT_BROKEN
};

static enum sxt_broken chosen;

enum sxt_broken sxt_broken_chosen(void)
{
	return chosen;
}

static enum sxt_broken find(const char *name)
{
	for (size_t i = 1; i < SXT_ARRAY_LEN(names); i++) {
		if (strcmp(name, names[i]) == 0)
			return (enum sxt_broken)i;
	}
	return SXT_BROKEN_unknown;
}

/* The tables are const to the world; this object is linked without relocation protection. */
static void break_tables(void)
{
	struct nccl_net_v12 *newest = &ncclNetPlugin_v12;
	struct nccl_net_v6 *oldest = &ncclNetPlugin_v6;

	if (SXT_FAKE_BREAKS(table_members))
		newest->iflush = NULL;
	if (SXT_FAKE_BREAKS(table_name))
		oldest->name = "Fake6";
}

__attribute__((constructor)) static void load(void)
{
	const char *name = getenv("SXT_FAKE_BREAK");

	if (name == NULL)
		return;
	chosen = find(name);
	break_tables();
}

ncclResult_t sxt_broken_refuse(void)
{
	SXT_FAKE_WARN("fake: fails, broken as asked");
	return ncclSystemError;
}

static int open_something(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Descriptors that no finalize closes. */
static int leftovers[64];
static size_t leftovers_cnt;

static void leave_descriptor(void)
{
	if (leftovers_cnt < SXT_ARRAY_LEN(leftovers))
		leftovers[leftovers_cnt++] = open_something();
}

ncclResult_t sxt_broken_init(void)
{
	if (SXT_FAKE_BREAKS(unknown)) {
		SXT_FAKE_WARN("fake: SXT_FAKE_BREAK=%s is no variant", getenv("SXT_FAKE_BREAK"));
		return ncclInvalidUsage;
	}
	if (SXT_FAKE_BREAKS(process_untouched))
		setenv("SXT_FAKE_WAS_HERE", "1", 1);
	if (SXT_FAKE_BREAKS(output_silent))
		sxt_ignore(write(STDOUT_FILENO, "fake: hello\n", 12));
	return ncclSuccess;
}

/* Contexts that live, and what was seen of them. */
static struct {
	pthread_mutex_t lock;
	struct sxt_list list; /* struct sxt_fake_ctx */
	int gone_cnt;         /* times that the last one was finalized */
} contexts = {PTHREAD_MUTEX_INITIALIZER, {&contexts.list, &contexts.list}, 0};

static bool is_id_taken(uint64_t comm_id)
{
	struct sxt_list *node;
	struct sxt_list *after;

	sxt_list_for_each (node, after, &contexts.list) {
		if (SXT_LIST_ENTRY(node, struct sxt_fake_ctx, node)->comm_id == comm_id)
			return true;
	}
	return false;
}

ncclResult_t sxt_broken_init_ctx(struct sxt_fake_ctx *ctx, uint64_t comm_id)
{
	bool refused;

	pthread_mutex_lock(&contexts.lock);
	refused = (SXT_FAKE_BREAKS(init_again) && is_id_taken(comm_id)) ||
		  (SXT_FAKE_BREAKS(init_after_finalize) && contexts.gone_cnt > 1);
	if (!refused) {
		ctx->comm_id = comm_id;
		sxt_list_append(&contexts.list, &ctx->node);
	}
	pthread_mutex_unlock(&contexts.lock);
	if (SXT_FAKE_BREAKS(ctx_traffic_class))
		ctx->traffic_class = 0x5a5a;
	return refused ? sxt_broken_refuse() : ncclSuccess;
}

void sxt_broken_finalize(struct sxt_fake_ctx *ctx)
{
	if (SXT_FAKE_BREAKS(finalize_one_of_two))
		sxt_broken_end_others(ctx);
	if (SXT_FAKE_BREAKS(finalize_leftovers))
		leave_descriptor();
	pthread_mutex_lock(&contexts.lock);
	sxt_list_remove(&ctx->node);
	contexts.gone_cnt += sxt_list_empty(&contexts.list);
	pthread_mutex_unlock(&contexts.lock);
}

/* The library's own memory goes with it; the process's environment stays. */
static bool is_first_unload(void)
{
	static const char mark[] = "SXT_FAKE_WAS_UNLOADED";
	bool first = getenv(mark) == NULL;

	setenv(mark, "1", 1);
	return first;
}

static void leave_thread(void)
{
	pthread_t thread;

	/* The C library's code, which stays: only the thread itself is left behind. */
	if (pthread_create(&thread, NULL, (void *(*)(void *))(void (*)(void))pause, NULL) == 0)
		pthread_detach(thread);
}

void sxt_broken_unload(bool left_open)
{
	while (leftovers_cnt > 0)
		close(leftovers[--leftovers_cnt]);
	if (SXT_FAKE_BREAKS(reload) && !is_first_unload())
		sxt_ignore(open_something());
	if (SXT_FAKE_BREAKS(unload_clean) && is_first_unload())
		leave_thread();
	if (SXT_FAKE_BREAKS(unload_open_comms) && (left_open || !sxt_list_empty(&contexts.list)))
		raise(SIGSEGV);
}
