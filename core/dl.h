/*
 * dl.h - optional libraries, opened at run time into a table of function pointers.
 */
#ifndef SXT_CORE_DL_H
#define SXT_CORE_DL_H

#include "core/compiler.h"

#include <stdbool.h>

/* One function of a table: where its pointer goes and what it is called. */
struct sxt_dl_symbol {
	size_t offset;       /* of the function pointer in the table */
	const char *name;    /* "ibv_reg_mr" */
	const char *version; /* "IBVERBS_1.1", or NULL for the default version */
	bool optional;       /* stays NULL where the library is too old to have it */
};

/**
 * sxt_dl_open() - open a library and fill a table from it.
 * @file: as dlopen() takes it. @symbols: what to look up, closed by a row without a name.
 * @table: pointers are written on success only.
 * @handle_out: give to sxt_dl_close(); set on success only.
 * @why, @why_bytes: on failure, the loader's own words.
 * Path: slow, runs constructors. Return: 0, -ENOENT when the file cannot be opened, -ENOSYS when
 * a symbol that is not optional is missing.
 */
SXT_MUST_CHECK int sxt_dl_open(const char *file, const struct sxt_dl_symbol *symbols, void *table,
			       void **handle_out, char *why, size_t why_bytes);

/**
 * sxt_dl_close() - close a library opened by sxt_dl_open().
 * @handle: NULL is fine.
 */
void sxt_dl_close(void *handle);

#endif
