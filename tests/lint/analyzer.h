/*
 * analyzer.h - what clang's analyzer has to know: errno after a failed call is a positive number.
 * Without it every `return -errno;` might be a success, and callers look as if they went on.
 * Included by tidy.py before anything else; no build sees it.
 */
#ifndef SXT_TESTS_LINT_ANALYZER_H
#define SXT_TESTS_LINT_ANALYZER_H

#include <errno.h>

/* A few plain numbers: of a range, the analyzer of clang 14 forgets what its negative is. */
static inline int *sxt_analyzer_errno(void)
{
	int *place = __errno_location();

	if (*place != EINTR && *place != EAGAIN)
		*place = EIO;
	return place;
}

#undef errno
#define errno (*sxt_analyzer_errno())

#endif
