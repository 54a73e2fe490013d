/*
 * load.c - checks of what NCCL does first: the table, init, devices, properties.
 */
#include "cli/driver/conform/pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEVICES_END     128 /* NCCL's arrays have so many */
#define TRAFFIC_CLASS   3
#define DEVICE_UNPACK_V 7 /* the version NCCL takes of it */

int sxt_check_table_members(struct sxt_trial *trial)
{
	const char *missing;

	if (sxt_trial_load(trial) != 0)
		return -EIO;
	missing = sxt_drv_net_missing(trial->net);
	if (missing != NULL)
		return sxt_trial_fail(trial, "ncclNetPlugin_v%d.%s is NULL", trial->net->abi,
				      missing);
	return 0;
}

static int compare_name(struct sxt_trial *trial, int abi)
{
	struct sxt_drv_net *other = NULL;
	char why[512];
	int rc = 0;

	if (sxt_drv_net_load(trial->target->plugin, abi, &other, why, sizeof(why)) != 0)
		return sxt_trial_fail(trial, "cannot load v%d again: %s", abi, why);
	if (other->name == NULL || strcmp(other->name, trial->net->name) != 0)
		rc = sxt_trial_fail(trial, "v%d is called '%s', but v%d '%s'", trial->net->abi,
				    trial->net->name, abi,
				    other->name != NULL ? other->name : "(NULL)");
	sxt_drv_net_close(other);
	return rc;
}

int sxt_check_table_name(struct sxt_trial *trial)
{
	if (sxt_trial_load(trial) != 0)
		return -EIO;
	if (trial->net->name == NULL || trial->net->name[0] == '\0')
		return sxt_trial_fail(trial, "ncclNetPlugin_v%d.name is %s", trial->net->abi,
				      trial->net->name == NULL ? "NULL" : "empty");
	for (int abi = SXT_DRV_ABI_MIN; abi <= SXT_DRV_ABI_MAX; abi++) {
		if ((trial->net->abis & (1u << abi)) != 0 && compare_name(trial, abi) != 0)
			return -EIO;
	}
	return 0;
}

static int exchange_on(struct sxt_trial *trial, void *ctx)
{
	static struct sxt_pair pair;

	return sxt_pair_live(&pair, trial, ctx);
}

int sxt_check_init_again(struct sxt_trial *trial)
{
	void *second = NULL;

	if (sxt_trial_open(trial) != 0 ||
	    SXT_CALL(trial, "init", sxt_drv_net_init(trial->net, 1, &second)) != 0 ||
	    exchange_on(trial, second) != 0 ||
	    SXT_CALL(trial, "finalize", sxt_drv_net_finalize(trial->net, second)) != 0)
		return -EIO;
	return sxt_trial_finalize(trial);
}

int sxt_check_init_after_finalize(struct sxt_trial *trial)
{
	if (sxt_trial_open(trial) != 0 || sxt_trial_finalize(trial) != 0)
		return -EIO;
	for (int i = 0; i < 3; i++) {
		if (sxt_trial_init(trial) != 0 || exchange_on(trial, trial->ctx) != 0 ||
		    sxt_trial_finalize(trial) != 0)
			return -EIO;
	}
	return 0;
}

int sxt_check_ctx_traffic_class(struct sxt_trial *trial)
{
	volatile int *first;

	if (sxt_trial_load(trial) != 0)
		return -EIO;
	trial->net->config.trafficClass = TRAFFIC_CLASS;
	if (sxt_trial_init(trial) != 0)
		return -EIO;
	if (trial->ctx == NULL)
		return sxt_trial_fail(trial, "init() gives the context NULL");
	sxt_trial_step(trial, "reading the context");
	first = trial->ctx;
	if (*first != TRAFFIC_CLASS)
		return sxt_trial_fail(trial,
				      "init() was given traffic class %d; the context "
				      "begins with %d",
				      TRAFFIC_CLASS, *first);
	sxt_trial_step(trial, "writing the context");
	*first = NCCL_NET_UNDEFINED;
	if (exchange_on(trial, trial->ctx) != 0)
		return -EIO;
	return sxt_trial_finalize(trial);
}

int sxt_check_devices_count(struct sxt_trial *trial)
{
	int again = 0;

	if (sxt_trial_load(trial) != 0 ||
	    SXT_CALL(trial, "init", sxt_drv_net_init(trial->net, 1, &trial->ctx)) != 0 ||
	    SXT_CALL(trial, "devices", trial->net->calls.devices(&trial->devices_cnt)) != 0 ||
	    SXT_CALL(trial, "devices", trial->net->calls.devices(&again)) != 0)
		return -EIO;
	if (trial->devices_cnt < 1 || trial->devices_cnt >= DEVICES_END)
		return sxt_trial_fail(trial, "devices() gives %d", trial->devices_cnt);
	if (again != trial->devices_cnt)
		return sxt_trial_fail(trial, "devices() gives %d, then %d", trial->devices_cnt,
				      again);
	return 0;
}

/* What the driver fills properties with before the call. */
static bool is_unset(const void *field, size_t bytes)
{
	const uint8_t *byte = field;

	for (size_t i = 0; i < bytes; i++) {
		if (byte[i] != 0x5a)
			return false;
	}
	return true;
}

/* Return: name of a field the plugin did not write, or NULL. */
static const char *unset_field(const struct sxt_drv_props *p, int abi)
{
	const struct {
		const char *name;
		int since;
		const void *at;
		size_t bytes;
	} fields[] = {
		{"name", 6, &p->name, sizeof(p->name)},
		{"pciPath", 6, &p->pci_path, sizeof(p->pci_path)},
		{"guid", 6, &p->guid, sizeof(p->guid)},
		{"ptrSupport", 6, &p->ptr_support, sizeof(int)},
		{"speed", 6, &p->speed_mbps, sizeof(int)},
		{"port", 6, &p->port, sizeof(int)},
		{"latency", 6, &p->latency_us, sizeof(float)},
		{"maxComms", 6, &p->max_comms, sizeof(int)},
		{"maxRecvs", 6, &p->max_recvs, sizeof(int)},
		{"netDeviceType", 7, &p->device_type, sizeof(int)},
		{"netDeviceVersion", 7, &p->device_version, sizeof(int)},
		{"regIsGlobal", 8, &p->reg_is_global, sizeof(int)},
		{"forceFlush", 9, &p->force_flush, sizeof(int)},
		{"vProps.ndevs", 9, &p->members.ndevs, sizeof(int)},
		{"vProps.devs[0]", 9, &p->members.devs[0], sizeof(int)},
		{"maxP2pBytes", 9, &p->max_p2p_bytes, sizeof(size_t)},
		{"maxCollBytes", 9, &p->max_coll_bytes, sizeof(size_t)},
		{"maxMultiRequestSize", 11, &p->max_multi_request, sizeof(int)},
		/* 16 bits in NCCL's struct. */
		{"railId", 12, &p->rail_id, sizeof(int16_t)},
		{"planeId", 12, &p->plane_id, sizeof(int16_t)},
	};

	for (size_t i = 0; i < SXT_ARRAY_LEN(fields); i++) {
		if (fields[i].since <= abi && is_unset(fields[i].at, fields[i].bytes))
			return fields[i].name;
	}
	return NULL;
}

int sxt_check_props_complete(struct sxt_trial *trial)
{
	struct sxt_drv_props props;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	for (int dev = 0; dev < trial->devices_cnt; dev++) {
		const char *field;

		if (SXT_CALL(trial, "getProperties", sxt_drv_net_props(trial->net, dev, &props)) !=
		    0)
			return -EIO;
		field = unset_field(&props, trial->net->abi);
		if (field != NULL)
			return sxt_trial_fail(trial, "device %d: %s is as it was before the call",
					      dev, field);
	}
	return 0;
}

/* A device's name as it was first told. */
struct seen_name {
	const char *at;
	char text[256];
};

static int note_names(struct sxt_trial *trial, struct seen_name *names)
{
	for (int dev = 0; dev < trial->devices_cnt; dev++) {
		struct sxt_drv_props props;

		if (SXT_CALL(trial, "getProperties", sxt_drv_net_props(trial->net, dev, &props)) !=
		    0)
			return -EIO;
		if (props.name == NULL || props.name[0] == '\0')
			return sxt_trial_fail(trial, "device %d has no name", dev);
		names[dev].at = props.name;
		snprintf(names[dev].text, sizeof(names[dev].text), "%s", props.name);
		for (int k = 0; k < dev; k++) {
			if (strcmp(names[k].text, names[dev].text) == 0)
				return sxt_trial_fail(trial, "devices %d and %d are both '%s'", k,
						      dev, names[dev].text);
		}
	}
	return 0;
}

int sxt_check_props_names(struct sxt_trial *trial)
{
	static struct seen_name first[DEVICES_END];
	static struct seen_name again[DEVICES_END];

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	if (trial->devices_cnt > DEVICES_END)
		return sxt_trial_skip(trial, "devices() gives %d; see devices.count",
				      trial->devices_cnt);
	if (note_names(trial, first) != 0 || note_names(trial, again) != 0)
		return -EIO;
	for (int dev = 0; dev < trial->devices_cnt; dev++) {
		if (strncmp(first[dev].at, first[dev].text, sizeof(first[dev].text) - 1) != 0)
			return sxt_trial_fail(trial,
					      "the name told for device %d was '%s'; the "
					      "pointer now leads to '%.64s'",
					      dev, first[dev].text, first[dev].at);
		if (strcmp(first[dev].text, again[dev].text) != 0)
			return sxt_trial_fail(trial, "device %d is called '%s', then '%s'", dev,
					      first[dev].text, again[dev].text);
	}
	return sxt_trial_finalize(trial);
}

/* Return: 0, or -EIO with the value that is out of range noted. */
static int in_range(struct sxt_trial *trial, int dev, const char *field, long long value,
		    const long long range[2])
{
	if (value >= range[0] && value <= range[1])
		return 0;
	return sxt_trial_fail(trial, "device %d: %s is %lld; %lld to %lld is allowed", dev, field,
			      value, range[0], range[1]);
}

static int check_device_type(struct sxt_trial *trial, int dev, const struct sxt_drv_props *p)
{
	if (p->device_type == NCCL_NET_DEVICE_HOST ||
	    (p->device_type == NCCL_NET_DEVICE_UNPACK && p->device_version == DEVICE_UNPACK_V))
		return 0;
	return sxt_trial_fail(trial,
			      "device %d: netDeviceType is %d, version %d; NCCL takes 0 (host), or "
			      "1 (unpack) with version %d",
			      dev, p->device_type, p->device_version, DEVICE_UNPACK_V);
}

static int check_limits(struct sxt_trial *trial, int dev, const struct sxt_drv_props *p)
{
	const long long sizes[2] = {1, (long long)NCCL_NET_MAX_BYTES};
	const long long groups[2] = {1, SXT_PAIR_GROUP_MAX};
	const long long comms[2] = {1, INT32_MAX};
	const long long kinds[2] = {NCCL_PTR_HOST, NCCL_PTR_HOST | NCCL_PTR_CUDA | NCCL_PTR_DMABUF};
	const long long flags[2] = {0, 1};

	if (in_range(trial, dev, "maxRecvs", p->max_recvs, groups) != 0 ||
	    in_range(trial, dev, "maxComms", p->max_comms, comms) != 0 ||
	    in_range(trial, dev, "ptrSupport", p->ptr_support, kinds) != 0 ||
	    in_range(trial, dev, "forceFlush", p->force_flush, flags) != 0 ||
	    in_range(trial, dev, "maxP2pBytes", (long long)p->max_p2p_bytes, sizes) != 0 ||
	    in_range(trial, dev, "maxCollBytes", (long long)p->max_coll_bytes, sizes) != 0)
		return -EIO;
	if ((p->ptr_support & NCCL_PTR_HOST) == 0)
		return sxt_trial_fail(trial, "device %d: ptrSupport is %d, without host memory",
				      dev, p->ptr_support);
	return check_device_type(trial, dev, p);
}

int sxt_check_props_limits(struct sxt_trial *trial)
{
	struct sxt_drv_props props;

	if (sxt_trial_open(trial) != 0)
		return -EIO;
	for (int dev = 0; dev < trial->devices_cnt; dev++) {
		if (SXT_CALL(trial, "getProperties", sxt_drv_net_props(trial->net, dev, &props)) !=
			    0 ||
		    check_limits(trial, dev, &props) != 0)
			return -EIO;
	}
	return 0;
}
