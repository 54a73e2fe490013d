/*
 * nic.c - the table of NICs (slow path, any thread).
 */
#include "ib/nic.h"

#include "core/log.h"
#include "ib/conn.h"
#include "ib/mr.h"
#include "ib/process.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Connections per NIC that we tell NCCL: as many as its own transports say. */
#define CONNS_MAX 65536

int sxt_nics_open(struct sxt_ib *ib)
{
	for (int i = 0; i < ib->ports_cnt && ib->nics_cnt < SXT_NICS_MAX; i++) {
		struct sxt_nic *nic = calloc(1, sizeof(*nic));

		if (nic == NULL)
			return -ENOMEM;
		pthread_mutex_init(&nic->mr_lock, NULL);
		nic->ports[0] = ib->ports[i];
		nic->ports_cnt = 1;
		nic->dev = ib->nics_cnt;
		ib->nics[ib->nics_cnt++] = nic;
	}
	return 0;
}

void sxt_nics_close(struct sxt_ib *ib)
{
	while (ib->nics_cnt > 0) {
		struct sxt_nic *nic = ib->nics[--ib->nics_cnt];

		sxt_mr_cache_close(nic);
		pthread_mutex_destroy(&nic->mr_lock);
		free(nic);
	}
}

int sxt_ib_nics_cnt(const struct sxt_ib *ib)
{
	return ib->nics_cnt;
}

int sxt_ib_nic(const struct sxt_ib *ib, int dev, const char *what, struct sxt_nic **out)
{
	if (ib->pid != getpid()) {
		SXT_LOG(SXT_LOG_ERROR,
			"%s: this process was forked from %d, whose network it cannot use; "
			"initialise NCCL after fork()",
			what, (int)ib->pid);
		return -EINVAL;
	}
	if (dev < 0 || dev >= ib->nics_cnt) {
		SXT_LOG(SXT_LOG_ERROR, "%s: there is no NIC %d, they are 0..%d", what, dev,
			ib->nics_cnt - 1);
		return -EINVAL;
	}
	*out = ib->nics[dev];
	return 0;
}

int sxt_ib_nic_props(struct sxt_ib *ib, int dev, struct sxt_nic_props *out)
{
	struct sxt_nic *nic;
	struct sxt_port *port;
	int rc = sxt_ib_nic(ib, dev, "properties", &nic);

	if (rc != 0)
		return rc;
	port = nic->ports[0];
	*out = (struct sxt_nic_props){
		.name = port->name,
		.pci_path = port->device->pci_path[0] != '\0' ? port->device->pci_path : NULL,
		.guid = port->device->guid,
		.speed_mbps = port->speed_mbps,
		.port = port->num,
		.max_conns = CONNS_MAX,
		.max_message_bytes = sxt_conn_message_max(port->max_message_log2),
	};
	return 0;
}
