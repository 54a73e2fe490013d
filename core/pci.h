/*
 * pci.h - the PCI tree above a device: where it hangs, how fast it is joined, what bridges do.
 */
#ifndef SXT_CORE_PCI_H
#define SXT_CORE_PCI_H

#include "core/compiler.h"

#include <stdbool.h>

#define SXT_PCI_DEPTH_MAX 16

/* ACS control bits that send traffic between devices up to the root. */
#define SXT_PCI_ACS_REQUEST_REDIRECT    0x04
#define SXT_PCI_ACS_COMPLETION_REDIRECT 0x08

/* From the root port down to the device, each with its address and its folder below the root. */
struct sxt_pci_path {
	size_t cnt;
	struct {
		char address[16]; /* "0000:1b:00.0" */
		char folder[256]; /* "/sys/devices/pci0000:17/..." */
	} steps[SXT_PCI_DEPTH_MAX];
};

/* A link: megatransfers per second and lanes; 0 where the kernel does not know. */
struct sxt_pci_link {
	uint32_t speed_mts;
	uint32_t width;
};

/**
 * sxt_pci_path_read() - the PCI devices above and including one.
 * @root: "/" or a folder that stands for it. @device: a folder or link to one, below the root.
 * @out: written on success. Path: slow.
 * Return: 0, -ENODEV when there is no PCI device in the path, -ENAMETOOLONG, or the negative
 * errno of realpath().
 */
SXT_MUST_CHECK int sxt_pci_path_read(const char *root, const char *device,
				     struct sxt_pci_path *out);

/**
 * sxt_pci_link_read() - current_link_speed and _width, or max_link_speed and _width.
 * @root: "/" or a folder that stands for it. @folder: of a PCI device, below the root.
 * @which: "current" or "max". @out: written on success. Path: slow.
 * Return: 0, -ENODATA when the kernel knows no number, or the negative errno of reading.
 */
SXT_MUST_CHECK int sxt_pci_link_read(const char *root, const char *folder, const char *which,
				     struct sxt_pci_link *out);

/**
 * sxt_pci_link_mbps() - what a link carries one way, after line coding, before packet headers.
 * @link: speed and width. Return: Mb/s, 0 when either is unknown.
 */
uint64_t sxt_pci_link_mbps(const struct sxt_pci_link *link);

/**
 * sxt_pci_acs_read() - the ACS control register from a device's configuration space.
 * @root: "/" or a folder that stands for it. @folder: of a PCI device, below the root.
 * @control_out: the register; set on success only. Path: slow.
 * Return: 0, -ENODATA when the device has no such capability, -EACCES when only the first 64
 * bytes can be read (that takes no privilege, the rest does), or the negative errno of reading.
 */
SXT_MUST_CHECK int sxt_pci_acs_read(const char *root, const char *folder, uint16_t *control_out);

#endif
