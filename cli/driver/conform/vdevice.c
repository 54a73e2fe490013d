/*
 * vdevice.c - checks of merged devices, v9 and later.
 */
#include "cli/driver/conform/pair.h"

#include <errno.h>
#include <string.h>

#define WIDE 16 /* more devices than any version's struct has */

/* A struct of makeVDevice with room behind it. */
struct wide_props {
	int ndevs;
	int devs[WIDE];
};

struct merged {
	int devs[2];
	int dev;
};

static ncclResult_t make(struct sxt_trial *trial, struct wide_props *props, int *dev)
{
	const struct sxt_drv_calls *calls = &trial->net->calls;

	if (calls->make_vdev_v12 != NULL)
		return calls->make_vdev_v12(dev, (struct nccl_net_vdev_props_v12 *)props);
	return calls->make_vdev_v9(dev, (struct nccl_net_vdev_props_v9 *)props);
}

/* Opens the trial and finds out whether there is anything to merge. */
static int open_mergeable(struct sxt_trial *trial)
{
	if (sxt_trial_open(trial) != 0)
		return -EIO;
	if (sxt_drv_net_merge_max(trial->net) == 0)
		return sxt_trial_skip(trial, "makeVDevice is NULL");
	if (trial->devices_cnt < 2)
		return sxt_trial_skip(trial, "needs 2 devices, there is 1");
	return 0;
}

/* Merges the first two devices the plugin lets be merged: it may refuse unlike ones. */
static int merge_any(struct sxt_trial *trial, struct merged *out)
{
	for (int a = 0; a < trial->devices_cnt; a++) {
		for (int b = a + 1; b < trial->devices_cnt; b++) {
			const int devs[2] = {a, b};

			if (SXT_TRY(trial, "makeVDevice",
				    sxt_drv_net_make_vdevice(trial->net, devs, 2, &out->dev)) !=
			    ncclSuccess)
				continue;
			memcpy(out->devs, devs, sizeof(devs));
			return 0;
		}
	}
	return sxt_trial_skip(trial, "makeVDevice refuses every two of the %d devices",
			      trial->devices_cnt);
}

static int check_new_name(struct sxt_trial *trial, const char *name)
{
	struct sxt_drv_props props;

	for (int dev = 0; dev < trial->devices_cnt; dev++) {
		if (SXT_CALL(trial, "getProperties", sxt_drv_net_props(trial->net, dev, &props)) !=
		    0)
			return -EIO;
		if (name == NULL || strcmp(props.name, name) == 0)
			return sxt_trial_fail(trial, "the merged device is called '%s'%s",
					      name != NULL ? name : "(NULL)",
					      name != NULL ? ", as another one is" : "");
	}
	return 0;
}

int sxt_check_vdevice_merge(struct sxt_trial *trial)
{
	struct merged merged = {.dev = -1};
	struct sxt_drv_props props;
	int cnt = 0;
	int rc = open_mergeable(trial);

	if (rc == 0)
		rc = merge_any(trial, &merged);
	if (rc != 0)
		return rc;
	if (merged.dev != trial->devices_cnt)
		return sxt_trial_fail(trial,
				      "makeVDevice() gives %d; with %d devices before, the "
				      "new one is %d",
				      merged.dev, trial->devices_cnt, trial->devices_cnt);
	if (SXT_CALL(trial, "devices", trial->net->calls.devices(&cnt)) != 0)
		return -EIO;
	if (cnt != trial->devices_cnt + 1)
		return sxt_trial_fail(trial, "devices() gives %d before makeVDevice() and %d after",
				      trial->devices_cnt, cnt);
	if (SXT_CALL(trial, "getProperties", sxt_drv_net_props(trial->net, merged.dev, &props)) !=
	    0)
		return -EIO;
	if (props.members.ndevs != 2 || props.members.devs[0] != merged.devs[0] ||
	    props.members.devs[1] != merged.devs[1])
		return sxt_trial_fail(trial,
				      "%d and %d were merged; vProps tells %d devices, %d and %d",
				      merged.devs[0], merged.devs[1], props.members.ndevs,
				      props.members.devs[0], props.members.devs[1]);
	return check_new_name(trial, props.name) != 0 ? -EIO : sxt_trial_finalize(trial);
}

int sxt_check_vdevice_refuse(struct sxt_trial *trial)
{
	int rc = open_mergeable(trial);
	int most = rc == 0 ? sxt_drv_net_merge_max(trial->net) : 0;
	const struct {
		const char *what;
		struct wide_props props;
	} cases[] = {
		{"no device", {0, {0}}},
		{"more devices than its struct holds", {most + 1, {0, 1, 0, 1, 0, 1, 0, 1, 0}}},
		{"a device number -1", {2, {0, -1}}},
		{"a device number behind the last", {2, {0, trial->devices_cnt}}},
	};
	int cnt = 0;

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < SXT_ARRAY_LEN(cases); i++) {
		struct wide_props props = cases[i].props;
		int dev = -1;

		if (SXT_TRY(trial, "makeVDevice", make(trial, &props, &dev)) == ncclSuccess)
			return sxt_trial_fail(trial, "makeVDevice() takes %s and gives %d",
					      cases[i].what, dev);
	}
	if (SXT_CALL(trial, "devices", trial->net->calls.devices(&cnt)) != 0)
		return -EIO;
	if (cnt != trial->devices_cnt)
		return sxt_trial_fail(trial, "devices() gives %d before refused merges, %d after",
				      trial->devices_cnt, cnt);
	return sxt_trial_finalize(trial);
}

int sxt_check_vdevice_data(struct sxt_trial *trial)
{
	static const size_t sizes[] = {1, 8, 4095, 65536, 65537, 1 << 20, (4 << 20) + 3};
	static struct sxt_pair pair;
	struct merged merged = {.dev = -1};
	int rc = open_mergeable(trial);

	if (rc == 0)
		rc = merge_any(trial, &merged);
	if (rc != 0)
		return rc;
	sxt_pair_init(&pair, trial);
	pair.dev = merged.dev;
	if (sxt_pair_listen(&pair) != 0 || sxt_pair_meet(&pair) != 0 ||
	    sxt_pair_buffers(&pair, 5 << 20) != 0)
		return -EIO;
	for (size_t i = 0; i < SXT_ARRAY_LEN(sizes); i++) {
		if (sxt_pair_exchange(&pair, sizes[i], (uint32_t)i) != 0)
			return -EIO;
	}
	return sxt_pair_end(&pair);
}
