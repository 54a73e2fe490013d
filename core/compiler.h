/*
 * compiler.h - the few compiler attributes and layout assertions used everywhere.
 */
#ifndef SXT_CORE_COMPILER_H
#define SXT_CORE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

/* x86-64 and Neoverse line size; a wrong guess costs speed, never correctness. */
#define SXT_CACHELINE 64

#define SXT_MUST_CHECK   __attribute__((warn_unused_result))
#define SXT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SXT_COLD         __attribute__((cold, noinline))
#define SXT_NOINLINE     __attribute__((noinline))
#define SXT_INLINE       inline __attribute__((always_inline))
#define SXT_FLATTEN      __attribute__((flatten)) /* with what it calls, across files too */
#define SXT_EXPORT       __attribute__((visibility("default")))
#define SXT_LIKELY(x)    __builtin_expect(!!(x), 1)
#define SXT_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define SXT_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define SXT_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define SXT_ASSERT_SIZE(type, bytes) \
	_Static_assert(sizeof(type) == (bytes), #type " changed its size")
#define SXT_ASSERT_OFFSET(type, member, bytes) \
	_Static_assert(offsetof(type, member) == (bytes), #type "." #member " moved")
#define SXT_ASSERT_LINE(type, member)                               \
	_Static_assert(offsetof(type, member) % SXT_CACHELINE == 0, \
		       #type "." #member " must start a line")

/**
 * sxt_ignore() - drop a result on purpose, where the reason is written beside the call.
 * @rc: what the call returned.
 */
static inline void sxt_ignore(long rc)
{
	(void)rc;
}

#endif
