/*
 * machine.h - a machine of HCAs as a test describes them, over the verbs fake and a rig.
 */
#ifndef SXT_TESTS_UNIT_IB_MACHINE_H
#define SXT_TESTS_UNIT_IB_MACHINE_H

#include "ib/port.h"

#define MACHINE_HCAS_MAX 10
#define MACHINE_ROCE     IBV_LINK_LAYER_ETHERNET
#define MACHINE_IB       IBV_LINK_LAYER_INFINIBAND

/* One HCA, all its ports alike; what is zero is as usual: one active port of RoCE at 400 Gb/s. */
struct machine_hca {
	const char *name;
	const char *gids; /* as gid_vector.h; NULL is an IPv4 address at index 1 */
	uint8_t link_layer;
	uint8_t speed; /* of active_speed, four lanes */
	enum ibv_port_state state;
	int ports_cnt;
	int open_errno;
	int gid_table_len; /* 0 is 16, -1 none */
	bool has_no_lid;   /* no subnet manager gave it one */
	uint16_t lid;
	enum ibv_mtu mtu;
	uint32_t max_message;
	const uint16_t *pkeys;
	uint16_t pkeys_cnt;
};

extern struct machine_hca machine_hcas[MACHINE_HCAS_MAX];
extern int machine_cnt;

/**
 * machine_setup() - cmocka's setup: a rig and a machine without HCAs.
 * @state: unused. Return: 0.
 */
int machine_setup(void **state);

/**
 * machine_add() - one more HCA.
 * @name: of it, kept. Return: the HCA, to be changed at any time.
 */
struct machine_hca *machine_add(const char *name);

/**
 * machine_start() - make the rig's first transport.
 * Return: as rig_start().
 */
int machine_start(void);

/**
 * machine_stop() - end it.
 */
void machine_stop(void);

/**
 * machine_logged() - fails the test if a text was not logged.
 * @text: as rig_logged().
 */
void machine_logged(const char *text);

/**
 * machine_ports() - fails the test unless these ports are used, in this order.
 * @labels: with a space between.
 */
void machine_ports(const char *labels);

/**
 * machine_event() - let an async event of an HCA be handled.
 * @hca: its place in machine_hcas. @type: of the event. @port_num: its port.
 */
void machine_event(int hca, enum ibv_event_type type, int port_num);

#endif
