/*
 * routes.h - columns of /proc/net/route.
 */
#ifndef SXT_CLI_DOCTOR_ROUTES_H
#define SXT_CLI_DOCTOR_ROUTES_H

#include "core/compiler.h"

/* Columns that are addresses, as the kernel writes them: hexadecimal, bytes as on the wire. */
#define SXT_ROUTE_SUBNET  1
#define SXT_ROUTE_GATEWAY 2
#define SXT_ROUTE_MASK    7

/**
 * sxt_route_column() - an address of a line.
 * @line: of the file. @column: from 0. @out: the number; written on success only.
 * Return: where it stands in the line, or NULL when it is no number of 8 digits.
 */
const char *sxt_route_column(const char *line, unsigned int column, uint32_t *out);

#endif
