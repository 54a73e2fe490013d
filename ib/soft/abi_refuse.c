/*
 * abi_refuse.c - the exported functions that the software HCA does not offer.
 *
 * Their names come from symbols.list. Callers see a plain refusal, never a crash: the functions
 * take their arguments as any ABI passes them and look at none. The private ones, which only
 * providers call, and those of libibverbs 1.0's ABI, which took other structures, are here too.
 */
#include "core/compiler.h"

#include "core/log.h"

#include <errno.h>

static SXT_COLD void tell_old(const char *name, const char *node)
{
	SXT_LOG(SXT_LOG_WARN,
		"%s@%s: the program was linked against libibverbs 1.0, whose structures the "
		"software HCA does not have; build it anew against a libibverbs of 1.1 or later",
		name, node);
}

#define SXT_REFUSE(name)           \
	SXT_EXPORT int name(void); \
	SXT_EXPORT int name(void)  \
	{                          \
		return EOPNOTSUPP; \
	}
#define SXT_NULL(name)               \
	SXT_EXPORT void *name(void); \
	SXT_EXPORT void *name(void)  \
	{                            \
		errno = EOPNOTSUPP;  \
		return NULL;         \
	}
#define SXT_IGNORE(name)           \
	SXT_EXPORT int name(void); \
	SXT_EXPORT int name(void)  \
	{                          \
		return 0;          \
	}
#define SXT_DATA(name)
#define SXT_ALIAS(name, number)                                       \
	extern __typeof__(name) sxt_soft_##name##_##number            \
		__attribute__((alias(#name), visibility("default"))); \
	__asm__(".symver sxt_soft_" #name "_" #number ", " #name "@IBVERBS_PRIVATE_" #number);
#define SXT_OLD(name, node)                                         \
	SXT_EXPORT int sxt_soft_old_##name(void);                   \
	__asm__(".symver sxt_soft_old_" #name ", " #name "@" node); \
	SXT_EXPORT int sxt_soft_old_##name(void)                    \
	{                                                           \
		tell_old(#name, node);                              \
		return ENOSYS;                                      \
	}
#define SXT_OLD_NULL(name, node)                                    \
	SXT_EXPORT void *sxt_soft_old_##name(void);                 \
	__asm__(".symver sxt_soft_old_" #name ", " #name "@" node); \
	SXT_EXPORT void *sxt_soft_old_##name(void)                  \
	{                                                           \
		tell_old(#name, node);                              \
		errno = ENOSYS;                                     \
		return NULL;                                        \
	}

#include "ib/soft/refuse.inc"

#ifdef SXT_SOFT_FULL
/* Providers read and set it; nothing here acts on it. */
SXT_EXPORT extern _Bool verbs_allow_disassociate_destroy;
_Bool verbs_allow_disassociate_destroy;

#include "ib/soft/private.inc"
#endif
