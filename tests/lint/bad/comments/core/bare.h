/*
 * bare.h - prototypes without their contracts.
 */
#ifndef SXT_CORE_BARE_H
#define SXT_CORE_BARE_H

int sxt_no_comment(void);

/**
 * sxt_gap() - a blank line parts the comment from the prototype.
 * Return: nothing of interest.
 */

int sxt_gap(void);

/**
 * sxt_mute() - does not say what comes back.
 */
__attribute__((warn_unused_result)) int sxt_mute(const char *text,
						 int (*step)(void *arg));

/**
 * sxt_someone_else() - a comment that was copied.
 * Return: 0.
 */
extern int sxt_copied(void);

/* sxt_plain() - no contract. Return: 0. */
int sxt_plain(void);

/**
 * sxt_fine() - has everything.
 * Return: 0.
 */
int sxt_fine(void);

/**
 * sxt_void() - has nothing to return.
 */
void sxt_void(void);

static inline int small(void)
{
	return 0;
}

struct sxt_bare {
	int (*run)(void);
};

typedef int (*sxt_bare_fn)(int value);
extern int (*sxt_bare_hook)(void);

#endif
