/*
 * device.h - opening one HCA and closing it, and what its ports' speed is.
 */
#ifndef SXT_IB_DEVICE_H
#define SXT_IB_DEVICE_H

#include "ib/port.h"

/**
 * sxt_device_unusable() - why an HCA cannot be used, by what it is.
 * @from: from the library's list. Return: a static text, NULL where it can.
 */
const char *sxt_device_unusable(const struct ibv_device *from);

/**
 * sxt_device_open() - open an HCA.
 * @ib: its verbs and config are set. @from: from the library's list.
 * @out: written on success, NULL where the HCA cannot be opened, which is no error (logged).
 * Path: slow, system calls. Return: 0 or -ENOMEM.
 */
SXT_MUST_CHECK int sxt_device_open(struct sxt_ib *ib, struct ibv_device *from,
				   struct sxt_device **out);

/**
 * sxt_device_close() - close an HCA and free it.
 * @device: nothing of it is in use; half-opened is fine.
 */
void sxt_device_close(struct sxt_device *device);

/**
 * sxt_device_speed() - a port's speed, by the newest way that library and kernel have.
 * @device: an open HCA. @num: the port. @attr: its attributes.
 * Path: slow. Return: Mb/s, 0 unknown.
 */
uint32_t sxt_device_speed(const struct sxt_device *device, uint8_t num,
			  const struct ibv_port_attr *attr);

/**
 * sxt_device_count() - an object of ours was made on an HCA, or is gone.
 * @device: the HCA. @kind: of what kind. @more: 1 or -1. Thread: any.
 */
void sxt_device_count(struct sxt_device *device, enum sxt_device_object kind, int more);

#endif
