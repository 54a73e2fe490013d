/*
 * hca.h - NCCL_IB_HCA: which ports of which HCAs may be used, with their rail and plane, and every
 * way in which the list may not mean what its writer thinks.
 *
 * The grammar is NCCL's: [^][=]name[:port[:rail[:plane]]],... where `^` excludes, `=` wants whole
 * names, and a name without it is the beginning of one.
 */
#ifndef SXT_IB_HCA_H
#define SXT_IB_HCA_H

#include "core/compiler.h"

#include <stdbool.h>

#define SXT_HCA_NAME_BYTES 64

struct sxt_hca_entry {
	char name[SXT_HCA_NAME_BYTES];
	int32_t port; /* -1: any */
	int16_t rail; /* -1: not said */
	int16_t plane;
};

struct sxt_hca_list {
	struct sxt_hca_entry *entries;
	uint32_t cnt;
	bool excludes;
	bool is_exact;
};

/* A port that the machine has, whatever its state. */
struct sxt_hca_port {
	const char *device;
	unsigned int num; /* 0: which ports the HCA has is not known */
};

/**
 * sxt_hca_parse() - parse a list; what makes no sense is told and not used.
 * @text: the setting, "" picks every port. @out: written on success; free with sxt_hca_fini().
 * @bad_cnt_out: how many things in it are wrong, not only doubtful.
 * Logs a line for each doubt. Path: slow, allocates. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_hca_parse(const char *text, struct sxt_hca_list *out, int *bad_cnt_out);

/**
 * sxt_hca_fini() - free a list; a zeroed one is fine, and picks every port.
 * @list: the list, zeroed afterwards.
 */
void sxt_hca_fini(struct sxt_hca_list *list);

/**
 * sxt_hca_find() - the first entry that a port fits.
 * @list: the list. @device, @num: the port.
 * Thread: any, pure. Return: the entry or NULL.
 */
const struct sxt_hca_entry *sxt_hca_find(const struct sxt_hca_list *list, const char *device,
					 unsigned int num);

/**
 * sxt_hca_picks() - may a port be used?
 * @list: the list. @device, @num: the port.
 * Thread: any, pure. Return: true if so.
 */
bool sxt_hca_picks(const struct sxt_hca_list *list, const char *device, unsigned int num);

/**
 * sxt_hca_names() - does the list ask for this very port, and not for a family of names?
 * @list: the list. @device, @num: the port.
 * Thread: any, pure. Return: true if an entry that does not exclude has the whole name.
 */
bool sxt_hca_names(const struct sxt_hca_list *list, const char *device, unsigned int num);

/**
 * sxt_hca_check() - tell what the list does that its writer may not have meant: entries that match
 * nothing, ports that an HCA does not have, names that are the beginning of others.
 * @list: the list. @ports, @cnt: all ports of the machine.
 * Logs a WARN for each. Path: slow. Return: how many entries match nothing.
 */
int sxt_hca_check(const struct sxt_hca_list *list, const struct sxt_hca_port *ports, uint32_t cnt);

#endif
