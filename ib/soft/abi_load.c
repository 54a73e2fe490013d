/*
 * abi_load.c - what happens when the library is loaded: its warnings go to standard error.
 *
 * The library stands in for libibverbs, which prints its own there too; a program that links it
 * has no other way to hear us.
 */
#include "ib/soft/abi.h"

#include "core/log.h"

#include <stdio.h>
#include <unistd.h>

static void print_line(enum sxt_log_level level, const char *file, int line, const char *text)
{
	if (level > SXT_LOG_WARN)
		return;
	sxt_ignore(file == NULL || line == 0);
	dprintf(STDERR_FILENO, "sextant soft: %s: %s\n",
		level == SXT_LOG_WARN ? "warning" : "error", text);
}

__attribute__((constructor)) static void listen_to_log(void)
{
	sxt_log_set_sink(print_line);
}
