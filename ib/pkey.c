/*
 * pkey.c - which partition key a port's queue pairs use (slow path).
 */
#include "ib/place.h"

#include "core/log.h"
#include "ib/process.h"

#define TABLE_MAX   512
#define FULL_MEMBER 0x8000u

static uint16_t read_key(const struct sxt_port *port, int index)
{
	const struct sxt_device *device = port->device;
	uint16_t key = 0;

	if (sxt_verbs_query_pkey(device->verbs, device->context, port->num, index, &key) != 0)
		return 0;
	return key;
}

/* The first full member of a partition, else a limited one, which reaches full ones only. */
static int find_key(const struct sxt_port *port, int len, uint16_t *key_out)
{
	int best = -1;

	for (int i = 0; i < len; i++) {
		uint16_t key = read_key(port, i);
		bool is_full = (key & FULL_MEMBER) != 0;

		if ((key & ~FULL_MEMBER) == 0 || (best >= 0 && !is_full))
			continue;
		best = i;
		*key_out = key;
		if (is_full)
			break;
	}
	return best;
}

uint16_t sxt_place_pkey(const struct sxt_port *port)
{
	const struct sxt_device *device = port->device;
	uint32_t wanted = device->ib->config->ib_pkey;
	struct ibv_port_attr attr;
	uint16_t key = 0;
	int found;

	/* What cannot be read is left to the kernel's judgement. */
	if (device->verbs->query_pkey == NULL ||
	    sxt_verbs_query_port(device->verbs, device->context, port->num, &attr) != 0)
		return (uint16_t)wanted;
	if (wanted < attr.pkey_tbl_len && (read_key(port, (int)wanted) & ~FULL_MEMBER) != 0)
		return (uint16_t)wanted;
	found = find_key(port, attr.pkey_tbl_len < TABLE_MAX ? attr.pkey_tbl_len : TABLE_MAX, &key);
	if (found < 0)
		return (uint16_t)wanted;
	SXT_LOG(SXT_LOG_WARN,
		"port %s: NCCL_IB_PKEY=%u is an empty place in its P_Key table of %u; using index "
		"%d, key 0x%04x",
		port->label, wanted, attr.pkey_tbl_len, found, key);
	return (uint16_t)found;
}
