/*
 * machine.c - see machine.h.
 */
#include "tests/unit/ib/machine.h"

#include "ib/events.h"
#include "tests/fake/verbs.h"
#include "tests/unit/ib/gid_vector.h"
#include "tests/unit/ib/rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GIDS_MAX   1024
#define GOOD_TABLE "0=fe80::1/v2 1=10.0.0.1/v2"

struct machine_hca machine_hcas[MACHINE_HCAS_MAX];
int machine_cnt;

static struct sxt_gid gids[GIDS_MAX];

static const struct machine_hca *hca_of(struct ibv_device *device)
{
	const char *name = sxt_fake_verbs()->get_device_name(device);

	return &machine_hcas[name[5] - '0'];
}

static const char *get_device_name(struct ibv_device *device)
{
	return hca_of(device)->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	if (hca_of(device)->open_errno != 0) {
		errno = hca_of(device)->open_errno;
		return NULL;
	}
	return sxt_fake_verbs()->open_device(device);
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int rc = sxt_fake_verbs()->query_device(context, attr);
	int cnt = hca_of(context->device)->ports_cnt;

	attr->phys_port_cnt = (uint8_t)(cnt != 0 ? cnt : 1);
	return rc;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	const struct machine_hca *hca = hca_of(context->device);

	(void)port;
	*attr = (struct ibv_port_attr){
		.state = hca->state != 0 ? hca->state : IBV_PORT_ACTIVE,
		.phys_state = hca->state == IBV_PORT_DOWN ? 2 : 5,
		.active_mtu = hca->mtu != 0 ? hca->mtu : IBV_MTU_4096,
		.gid_tbl_len = hca->gid_table_len == 0  ? 16
			       : hca->gid_table_len > 0 ? hca->gid_table_len
							: 0,
		.max_msg_sz = hca->max_message != 0 ? hca->max_message : 1u << 30,
		.lid = hca->has_no_lid ? 0
		       : hca->lid != 0 ? hca->lid
				       : 3,
		.sm_lid = 1,
		.pkey_tbl_len = hca->pkeys_cnt,
		.active_width = 2,
		.active_speed = hca->speed != 0 ? hca->speed : 128,
		.link_layer = hca->link_layer != 0 ? hca->link_layer : MACHINE_ROCE,
	};
	return 0;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			       size_t most, uint32_t flags, size_t entry_bytes)
{
	const struct machine_hca *hca = hca_of(context->device);
	const char *text = hca->gids != NULL ? hca->gids : GOOD_TABLE;
	uint32_t cnt = gid_vector_parse(text, gids, GIDS_MAX);
	size_t put = 0;

	assert_int_equal(flags, 0);
	assert_int_equal(entry_bytes, sizeof(*entries));
	for (uint32_t port = 1; port <= (uint32_t)(hca->ports_cnt + (hca->ports_cnt == 0));
	     port++) {
		for (uint32_t i = 0; i < cnt; i++) {
			if (put == most)
				return -EINVAL;
			memset(&entries[put], 0, sizeof(*entries));
			memcpy(entries[put].gid.raw, gids[i].raw, 16);
			entries[put].gid_index = gids[i].index;
			entries[put].gid_type = gids[i].type;
			entries[put++].port_num = port;
		}
	}
	return (ssize_t)put;
}

/* NULL where the table has a hole. */
static const struct sxt_gid *gid_of(struct ibv_context *context, uint32_t index)
{
	const struct machine_hca *hca = hca_of(context->device);
	uint32_t cnt = gid_vector_parse(hca->gids != NULL ? hca->gids : GOOD_TABLE, gids, GIDS_MAX);

	for (uint32_t i = 0; i < cnt; i++) {
		if (gids[i].index == index)
			return &gids[i];
	}
	return NULL;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *out)
{
	const struct sxt_gid *gid = gid_of(context, (uint32_t)index);

	(void)port;
	if (gid == NULL)
		return EINVAL;
	memcpy(out->raw, gid->raw, sizeof(out->raw));
	return 0;
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	const struct sxt_gid *gid = gid_of(context, index);

	(void)port;
	(void)flags;
	(void)bytes;
	if (gid == NULL)
		return EINVAL;
	entry->gid_type = gid->type;
	return 0;
}

static struct ibv_async_event event;
static bool has_event;

static int get_async_event(struct ibv_context *context, struct ibv_async_event *out)
{
	(void)context;
	if (!has_event) {
		errno = EAGAIN;
		return -1;
	}
	has_event = false;
	*out = event;
	return 0;
}

static void ack_async_event(struct ibv_async_event *done)
{
	(void)done;
}

int machine_setup(void **state)
{
	rig_setup(state);
	memset(machine_hcas, 0, sizeof(machine_hcas));
	machine_cnt = 0;
	rig.verbs.get_device_name = get_device_name;
	rig.verbs.open_device = open_device;
	rig.verbs.query_device = query_device;
	rig.verbs.query_port = query_port;
	rig.verbs.query_gid_table = query_gid_table;
	rig.verbs.query_gid = query_gid;
	rig.verbs.query_gid_ex = query_gid_ex;
	rig.verbs.get_async_event = get_async_event;
	rig.verbs.ack_async_event = ack_async_event;
	return 0;
}

struct machine_hca *machine_add(const char *name)
{
	assert_true(machine_cnt < MACHINE_HCAS_MAX);
	machine_hcas[machine_cnt].name = name;
	return &machine_hcas[machine_cnt++];
}

/* The fake may have been opened with another number of devices before. */
int machine_start(void)
{
	struct sxt_fake_config config = {
		.devices_cnt = machine_cnt,
		.inline_bytes = 64,
		.max_msg_bytes = 1u << 30,
		.max_cqe = 1 << 20,
	};

	assert_int_equal(sxt_fake_reset(&config), 0);
	return rig_start(0, true);
}

void machine_stop(void)
{
	sxt_ib_destroy(rig.ibs[0]);
	rig.ibs[0] = NULL;
}

void machine_logged(const char *text)
{
	if (rig_logged(text) < 1)
		fail_msg("nothing logged with \"%s\"", text);
}

void machine_ports(const char *labels)
{
	char all[1024] = "";
	size_t used = 0;

	for (int i = 0; i < rig.ibs[0]->ports_cnt && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? " " : "",
					 rig.ibs[0]->ports[i]->label);
	assert_string_equal(all, labels);
}

void machine_event(int hca, enum ibv_event_type type, int port_num)
{
	struct sxt_list *node = rig.ibs[0]->devices.next;

	while (hca-- > 0)
		node = node->next;
	event.event_type = type;
	event.element.port_num = port_num;
	has_event = true;
	assert_int_equal(sxt_events_drain(rig.ibs[0]->watcher,
					  SXT_LIST_ENTRY(node, struct sxt_device, node)),
			 0);
	assert_false(has_event);
}
