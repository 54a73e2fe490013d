/*
 * fault.c - misbehaviour of the fake net plugin at one moment of a run, to see who notices.
 *
 * SXT_FAKE_FAULT=WHAT[:RANK[:NTH]]: in the NTH isend (default 10) whose tag is RANK: corrupt,
 * error, die, block, stall, short; or at once in every rank: init, nodevice, connect, merge,
 * uncounted.
 */
#include "tests/fake/net/fake.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic int isends_cnt;

bool sxt_fake_fault(const char *what, int rank)
{
	const char *fault = getenv("SXT_FAKE_FAULT");
	size_t len = strlen(what);
	char *end;
	long nth = 10;

	if (fault == NULL || strncmp(fault, what, len) != 0)
		return false;
	if (fault[len] == '\0')
		return true;
	if (strtol(fault + len + 1, &end, 10) != rank)
		return false;
	if (*end == ':')
		nth = strtol(end + 1, NULL, 10);
	return isends_cnt >= nth;
}

ncclResult_t sxt_fake_fault_isend(struct sxt_fake_send *send)
{
	isends_cnt++;
	if (sxt_fake_fault("die", send->tag))
		raise(SIGKILL);
	while (sxt_fake_fault("block", send->tag))
		pause();
	if (sxt_fake_fault("corrupt", send->tag) && send->bytes > 0)
		((char *)send->data)[send->bytes / 2] ^= 1;
	if (sxt_fake_fault("short", send->tag) && send->bytes > 0)
		send->bytes--;
	if (!sxt_fake_fault("error", send->tag))
		return ncclSuccess;
	SXT_FAKE_WARN("fake: isend with tag %d fails as asked", send->tag);
	return ncclSystemError;
}
