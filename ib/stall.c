/*
 * stall.c - see stall.h (slow path).
 */
#include "ib/stall.h"

#include "core/sysfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AGAIN_NS     (300 * SXT_NS_PER_SEC) /* two lines about one stall are further apart */
#define MINUTE_NS    (60 * SXT_NS_PER_SEC)
#define HEAVY_PER_S  100
#define COUNTERS_CNT SXT_ARRAY_LEN(counters)

static const struct {
	const char *name;
	enum sxt_stall_sign sign;
} counters[] = {
#define SXT_COUNTER(name, meaning) {name, SXT_STALL_##meaning},
#include "core/counters.def"
#undef SXT_COUNTER
};
_Static_assert(COUNTERS_CNT <= SXT_STALL_COUNTERS_MAX, "a sample has room for every counter");

static const char *const sign_names[] = {
	[SXT_STALL_SYMBOL] = "SYMBOL",         [SXT_STALL_LINK] = "LINK",
	[SXT_STALL_RETRANSMIT] = "RETRANSMIT", [SXT_STALL_RNR] = "RNR",
	[SXT_STALL_CONGESTION] = "CONGESTION", [SXT_STALL_WAIT] = "WAIT",
};

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t look_at(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void sxt_stall_judge(enum sxt_tele_direction direction, const struct sxt_tele_counters *c,
		     struct sxt_stall *out)
{
	uint64_t started = look_at(&c->started);
	uint64_t waiting = look_at(&c->waiting);
	uint64_t last_done;

	out->done = look_at(&c->done);
	last_done = look_at(&c->last_done);
	out->in_flight = started > out->done ? started - out->done : 0;
	out->since = later(look_at(&c->last_start), last_done);
	out->word = started > 0 ? SXT_STALL_APP_IDLE : SXT_STALL_NONE;
	if (out->in_flight > 0) {
		out->word = direction == SXT_TELE_SENDS ? SXT_STALL_WIRE : SXT_STALL_SENDER_LATE;
	} else if (waiting != 0 && direction == SXT_TELE_SENDS) {
		out->word = SXT_STALL_PEER_LATE;
		out->since = later(waiting, last_done);
	}
}

bool sxt_stall_is_due(struct sxt_stall_memory *memory, uint64_t since, uint64_t waited_ns,
		      uint64_t least_ns)
{
	if (memory->since != since) {
		*memory = (struct sxt_stall_memory){since, least_ns};
		return false;
	}
	if (waited_ns < memory->tell_ns)
		return false;
	memory->tell_ns = waited_ns + later(waited_ns, AGAIN_NS);
	return true;
}

uint32_t sxt_stall_budget_begin(struct sxt_stall_budget *budget, uint64_t now_ns)
{
	uint32_t held_cnt = budget->held_cnt;

	if (now_ns - budget->begin_ns < MINUTE_NS)
		return 0;
	*budget = (struct sxt_stall_budget){.begin_ns = now_ns};
	return held_cnt;
}

bool sxt_stall_budget_take(struct sxt_stall_budget *budget)
{
	bool may = budget->told_cnt < SXT_STALL_LINES;

	budget->told_cnt += may ? 1 : 0;
	budget->held_cnt += may ? 0 : 1;
	return may;
}

static uint64_t counter_read(const char *root, const char *hca, uint32_t port, const char *name)
{
	static const char *const folders[] = {"hw_counters", "counters"};
	char path[256];
	char text[32];

	for (size_t i = 0; i < SXT_ARRAY_LEN(folders); i++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/%s/%s", hca, port,
			 folders[i], name);
		if (sxt_sysfs_read(root, path, text, sizeof(text)) == 0)
			return strtoull(text, NULL, 10);
	}
	return UINT64_MAX;
}

void sxt_stall_sample_read(const char *root, const char *hca, uint32_t port, uint64_t now_ns,
			   struct sxt_stall_sample *out)
{
	memset(out, 0xff, sizeof(*out));
	out->at_ns = now_ns;
	for (size_t i = 0; i < COUNTERS_CNT; i++)
		out->values[i] = counter_read(root, hca, port, counters[i].name);
}

/* More text behind what there is, as far as it fits. */
static SXT_PRINTF(3, 4) void append(char *out, size_t out_bytes, const char *fmt, ...)
{
	size_t len = strlen(out);
	va_list args;

	va_start(args, fmt);
	sxt_ignore(vsnprintf(out + len, out_bytes - len, fmt, args));
	va_end(args);
}

static uint64_t grown(const struct sxt_stall_sample *before, const struct sxt_stall_sample *after,
		      size_t i)
{
	if (before->values[i] == UINT64_MAX || after->values[i] == UINT64_MAX ||
	    after->values[i] < before->values[i])
		return 0;
	return after->values[i] - before->values[i];
}

static bool is_known(const struct sxt_stall_sample *before, const struct sxt_stall_sample *after)
{
	size_t i = 0;

	while (i < COUNTERS_CNT &&
	       (before->values[i] == UINT64_MAX || after->values[i] == UINT64_MAX))
		i++;
	return i < COUNTERS_CNT;
}

/* Return: the sum of what has grown of a sign; text is the counters, "" for none. */
static uint64_t sign_growth(const struct sxt_stall_sample *before,
			    const struct sxt_stall_sample *after, enum sxt_stall_sign sign,
			    char *text, size_t text_bytes)
{
	uint64_t sum = 0;

	text[0] = '\0';
	for (size_t i = 0; i < COUNTERS_CNT; i++) {
		uint64_t more = counters[i].sign == sign ? grown(before, after, i) : 0;

		if (more == 0)
			continue;
		append(text, text_bytes, "%s%s +%llu", sum > 0 ? ", " : "", counters[i].name,
		       (unsigned long long)more);
		sum += more;
	}
	return sum;
}

uint32_t sxt_stall_growth(const struct sxt_stall_sample *before,
			  const struct sxt_stall_sample *after, char *out, size_t out_bytes)
{
	uint64_t sec = (after->at_ns - before->at_ns) / SXT_NS_PER_SEC;
	uint32_t signs = is_known(before, after) ? 0 : SXT_STALL_UNREAD;
	char text[400];

	out[0] = '\0';
	for (uint32_t sign = 0; sign < SXT_STALL_SIGNS; sign++) {
		uint64_t sum =
			sign_growth(before, after, (enum sxt_stall_sign)sign, text, sizeof(text));

		if (sum == 0)
			continue;
		append(out, out_bytes, "%s%s%s (%s)", signs != 0 ? ", " : "", sign_names[sign],
		       sum >= HEAVY_PER_S * later(sec, 1) ? " heavy" : "", text);
		signs |= 1u << sign;
	}
	return signs;
}

/* A time of day as "02:12:25 UTC". */
static void clock_put(uint64_t wall_ns, char *out, size_t out_bytes)
{
	time_t sec = (time_t)(wall_ns / SXT_NS_PER_SEC);
	struct tm tm = {0};

	if (gmtime_r(&sec, &tm) == NULL || strftime(out, out_bytes, "%H:%M:%S UTC", &tm) == 0)
		out[0] = '\0';
}

static void name_put(char *out, size_t out_bytes, int64_t rank, const char *process)
{
	if (rank >= 0)
		snprintf(out, out_bytes, "rank %lld (%s)", (long long)rank, process);
	else
		snprintf(out, out_bytes, "%s", process);
}

/* The worst sign decides. */
static const char *advice(uint32_t signs)
{
	if ((signs & (1u << SXT_STALL_SYMBOL | 1u << SXT_STALL_LINK)) != 0)
		return "The link has errors: check or change its cable and transceivers";
	if ((signs & 1u << SXT_STALL_RETRANSMIT) != 0)
		return "Packets are lost: look for drops and bad links at the switch and, on RoCE, "
		       "at PFC and ECN of this traffic class";
	if ((signs & 1u << SXT_STALL_RNR) != 0)
		return "The peer's HCA has no receive for what arrives: look at the peer's process";
	if ((signs & (1u << SXT_STALL_CONGESTION | 1u << SXT_STALL_WAIT)) != 0)
		return "The fabric holds traffic back: look for congestion, and for a port that "
		       "sends PAUSE without end";
	if ((signs & SXT_STALL_UNREAD) != 0)
		return "Its counters cannot be compared: run sextant doctor on both hosts";
	return "No error counter of the port grew: look whether the peer's host lives, and "
	       "whether this process still asks for completions";
}

void sxt_stall_line(const struct sxt_stall_facts *facts, char *out, size_t out_bytes)
{
	unsigned long long in_flight = facts->stall.in_flight;
	unsigned long long done = facts->stall.done;
	const char *ports = facts->ports;
	char since[16];
	char here[128];
	char peer[128];
	char head[448];

	clock_put(facts->since_wall_ns, since, sizeof(since));
	name_put(here, sizeof(here), facts->rank, facts->here);
	name_put(peer, sizeof(peer), facts->peer_rank, facts->peer);
	snprintf(head, sizeof(head), "%s waits for %s for %llu s, since %s, on %.80s%s", here, peer,
		 (unsigned long long)(facts->waited_ns / SXT_NS_PER_SEC), since, ports,
		 strlen(ports) > 80 ? "..." : "");
	if (facts->stall.word == SXT_STALL_PEER_LATE)
		snprintf(out, out_bytes,
			 "PEER-LATE: %s: data are ready, nothing is in flight (%llu messages "
			 "done), and it posts no receive. Look at what %s does, or waits for; if "
			 "it tells SENDER-LATE for this host, at the network between the two",
			 head, done, peer);
	else if (facts->stall.word == SXT_STALL_SENDER_LATE)
		snprintf(out, out_bytes,
			 "SENDER-LATE: %s: %llu receives are posted (%llu done), and no data come. "
			 "Look at what %s does, or waits for",
			 head, in_flight, done, peer);
	else
		snprintf(out, out_bytes,
			 "WIRE: %s: %llu messages are posted and not acknowledged (%llu done). "
			 "%s%s%s",
			 head, in_flight, done, facts->growth, facts->growth[0] != '\0' ? ". " : "",
			 advice(facts->signs));
}
