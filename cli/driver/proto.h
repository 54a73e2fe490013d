/*
 * proto.h - how NCCL lays data into the slots of a connection: its protocols SIMPLE, LL, LL128.
 *
 * SIMPLE is plain data, complete when test says so. LL and LL128 put a flag at the end of every
 * line, and the receiver takes a line when it sees the flag, whatever test says.
 */
#ifndef SXT_CLI_DRIVER_PROTO_H
#define SXT_CLI_DRIVER_PROTO_H

#include "core/compiler.h"

#include <stdbool.h>

#define SXT_DRV_STEPS 8 /* NCCL_STEPS: the buffer of a connection is cut into so many */

struct sxt_drv_proto {
	const char *name;
	size_t step_bytes;
	unsigned int line_bytes; /* 0: no lines */
	unsigned int line_data;  /* bytes of data at the start of a line; the flag fills the rest */
	bool optional;           /* NCCL marks its receives as optional */
};

extern const struct sxt_drv_proto sxt_drv_protos[];
extern const size_t sxt_drv_protos_cnt;

/**
 * sxt_drv_proto_find() - a protocol by name: simple, ll or ll128. Return: static, or NULL.
 */
const struct sxt_drv_proto *sxt_drv_proto_find(const char *name);

/**
 * sxt_drv_proto_capacity() - bytes of data that fit into a slot.
 * @slot_bytes: size of the slot. Return: whole lines of data.
 */
size_t sxt_drv_proto_capacity(const struct sxt_drv_proto *proto, size_t slot_bytes);

/**
 * sxt_drv_proto_wire() - bytes of the slot that @bytes of data take.
 * @bytes: of data; a part of a line takes a line. Return: bytes to send.
 */
size_t sxt_drv_proto_wire(const struct sxt_drv_proto *proto, size_t bytes);

/**
 * sxt_drv_proto_write() - lay data into a slot of a protocol with lines.
 * @flag: of this step; never 0. Path: hot.
 */
void sxt_drv_proto_write(const struct sxt_drv_proto *proto, void *slot, const void *data,
			 size_t bytes, uint32_t flag);

/**
 * sxt_drv_proto_ready() - have all lines of @bytes of data arrived?
 * @checked: in and out: lines seen so far; 0 for a new step.
 * Path: hot, polls memory that the network writes. Return: true once every line is there.
 */
bool sxt_drv_proto_ready(const struct sxt_drv_proto *proto, const void *slot, size_t bytes,
			 uint32_t flag, size_t *checked);

/**
 * sxt_drv_proto_read() - take the data out of a slot whose lines have all arrived. Path: hot.
 */
void sxt_drv_proto_read(const struct sxt_drv_proto *proto, const void *slot, void *data,
			size_t bytes);

#endif
