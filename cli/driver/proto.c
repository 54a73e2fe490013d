/*
 * proto.c - slots with and without lines (data path, progress thread).
 *
 * Line k of a step is whole once the last word of the line holds the step's flag: a flag of 4 bytes
 * in LL, which shares its 8-byte word with the data, and one of 8 bytes in LL128.
 */
#include "cli/driver/proto.h"

#include <string.h>

const struct sxt_drv_proto sxt_drv_protos[] = {
	{"simple", 512 << 10, 0, 0, false},
	{"ll", 64 << 10, 8, 4, true},
	{"ll128", 600 << 10, 128, 120, true},
};
const size_t sxt_drv_protos_cnt = SXT_ARRAY_LEN(sxt_drv_protos);

const struct sxt_drv_proto *sxt_drv_proto_find(const char *name)
{
	for (size_t i = 0; i < sxt_drv_protos_cnt; i++) {
		if (strcmp(sxt_drv_protos[i].name, name) == 0)
			return &sxt_drv_protos[i];
	}
	return NULL;
}

size_t sxt_drv_proto_capacity(const struct sxt_drv_proto *proto, size_t slot_bytes)
{
	if (proto->line_bytes == 0)
		return slot_bytes;
	return slot_bytes / proto->line_bytes * proto->line_data;
}

static size_t lines_of(const struct sxt_drv_proto *proto, size_t bytes)
{
	return (bytes + proto->line_data - 1) / proto->line_data;
}

size_t sxt_drv_proto_wire(const struct sxt_drv_proto *proto, size_t bytes)
{
	return proto->line_bytes == 0 ? bytes : lines_of(proto, bytes) * proto->line_bytes;
}

/* The flag of LL is the upper half of its word, that of LL128 the whole last word. */
static uint64_t flag_word(const struct sxt_drv_proto *proto, uint64_t word)
{
	return proto->line_bytes == 8 ? word >> 32 : word;
}

void sxt_drv_proto_write(const struct sxt_drv_proto *proto, void *slot, const void *data,
			 size_t bytes, uint32_t flag)
{
	const uint64_t flag64 = flag;
	const unsigned int flag_bytes = proto->line_bytes - proto->line_data;
	char *line = slot;
	const char *from = data;

	while (bytes > 0) {
		size_t part = bytes < proto->line_data ? bytes : proto->line_data;

		memcpy(line, from, part);
		if (part < proto->line_data)
			memset(line + part, 0, proto->line_data - part);
		memcpy(line + proto->line_data, &flag64, flag_bytes);
		line += proto->line_bytes;
		from += part;
		bytes -= part;
	}
}

bool sxt_drv_proto_ready(const struct sxt_drv_proto *proto, const void *slot, size_t bytes,
			 uint32_t flag, size_t *checked)
{
	const size_t lines = lines_of(proto, bytes);
	const char *base = slot;

	while (*checked < lines) {
		/* Written by the device, or by another process that plays it; pairs with nothing
		 * but its promise to write a line in order. */
		const uint64_t *last =
			(const uint64_t *)(const void *)(base + (*checked + 1) * proto->line_bytes -
							 8);

		if (flag_word(proto, __atomic_load_n(last, __ATOMIC_ACQUIRE)) != flag)
			return false;
		(*checked)++;
	}
	return true;
}

void sxt_drv_proto_read(const struct sxt_drv_proto *proto, const void *slot, void *data,
			size_t bytes)
{
	const char *line = slot;
	char *to = data;

	while (bytes > 0) {
		size_t part = bytes < proto->line_data ? bytes : proto->line_data;

		memcpy(to, line, part);
		line += proto->line_bytes;
		to += part;
		bytes -= part;
	}
}
