/*
 * status.h - what functions and commands answer.
 *
 * Functions return 0 or a negative errno; -EAGAIN only ever means "call again". Commands end
 * with one of the exit statuses below, the same for every subcommand.
 */
#ifndef SXT_CORE_STATUS_H
#define SXT_CORE_STATUS_H

enum sxt_exit {
	SXT_EXIT_OK = 0,       /* ran, nothing to report */
	SXT_EXIT_FOUND = 1,    /* ran and found something: a warning, wrong data, a failed check */
	SXT_EXIT_BROKEN = 2,   /* could not finish: target gone, plugin or run failed */
	SXT_EXIT_USAGE = 64,   /* the command line is wrong (sysexits.h EX_USAGE) */
	SXT_EXIT_MISSING = 69, /* a device or library is missing (EX_UNAVAILABLE) */
	SXT_EXIT_BUG = 70,     /* our own bug (EX_SOFTWARE) */
};

/**
 * sxt_strerror() - the text of an error, without touching errno.
 * @rc: 0, or an errno value of either sign.
 * Thread: any. Return: a static string such as "Connection refused", never NULL.
 */
const char *sxt_strerror(int rc);

/**
 * sxt_errname() - the symbol of an error.
 * @rc: 0, or an errno value of either sign.
 * Thread: any. Return: a static string such as "ECONNREFUSED", never NULL.
 */
const char *sxt_errname(int rc);

#endif
