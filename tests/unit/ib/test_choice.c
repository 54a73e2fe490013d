/*
 * test_choice.c - which ports of a whole machine are used, at which address,
 * and what is said.
 */
#include "ib/port.h"

#include "ib/events.h"
#include "ib/place.h"
#include "tests/fake/verbs.h"
#include "tests/unit/ib/gid_vector.h"
#include "tests/unit/ib/rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HCAS_MAX 16
#define GIDS_MAX 1024
#define ROCE IBV_LINK_LAYER_ETHERNET
#define IB IBV_LINK_LAYER_INFINIBAND
#define GOOD_TABLE "0=fe80::1/v2 1=10.0.0.1/v2"

/* The machine of a test. */
struct hca {
  const char *name;
  const char *gids; /* as gid_vector.h; NULL is GOOD_TABLE */
  uint8_t link_layer;
  uint8_t speed; /* of active_speed, four lanes */
  enum ibv_port_state state;
  int ports_cnt;
  int open_errno;
  bool has_no_lid; /* no subnet manager gave it one */
  uint16_t lid;
  enum ibv_mtu mtu;
  uint32_t max_message;
  int gid_table_len; /* -1: none */
  const uint16_t *pkeys;
  uint16_t pkeys_cnt;
};

static struct hca hcas[HCAS_MAX];
static int hcas_cnt;
static struct sxt_gid gids[GIDS_MAX];

static const struct hca *hca_of(struct ibv_device *device) {
  const char *name = sxt_fake_verbs()->get_device_name(device);

  return &hcas[name[5] - '0'];
}

static const char *get_device_name(struct ibv_device *device) {
  return hca_of(device)->name;
}

static struct ibv_context *open_device(struct ibv_device *device) {
  if (hca_of(device)->open_errno != 0) {
    errno = hca_of(device)->open_errno;
    return NULL;
  }
  return sxt_fake_verbs()->open_device(device);
}

static int query_device(struct ibv_context *context,
                        struct ibv_device_attr *attr) {
  int rc = sxt_fake_verbs()->query_device(context, attr);
  int cnt = hca_of(context->device)->ports_cnt;

  attr->phys_port_cnt = (uint8_t)(cnt != 0 ? cnt : 1);
  return rc;
}

static int query_port(struct ibv_context *context, uint8_t port,
                      struct ibv_port_attr *attr) {
  const struct hca *hca = hca_of(context->device);

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
      .link_layer = hca->link_layer != 0 ? hca->link_layer : ROCE,
  };
  return 0;
}

static ssize_t query_gid_table(struct ibv_context *context,
                               struct ibv_gid_entry *entries, size_t most,
                               uint32_t flags, size_t entry_bytes) {
  const struct hca *hca = hca_of(context->device);
  const char *text = hca->gids != NULL ? hca->gids : GOOD_TABLE;
  uint32_t cnt = gid_vector_parse(text, gids, GIDS_MAX);
  size_t put = 0;

  assert_int_equal(flags, 0);
  assert_int_equal(entry_bytes, sizeof(*entries));
  for (uint32_t port = 1;
       port <= (uint32_t)(hca->ports_cnt + (hca->ports_cnt == 0)); port++) {
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

static int setup(void **state) {
  rig_setup(state);
  memset(hcas, 0, sizeof(hcas));
  hcas_cnt = 0;
  rig.verbs.get_device_name = get_device_name;
  rig.verbs.open_device = open_device;
  rig.verbs.query_device = query_device;
  rig.verbs.query_port = query_port;
  rig.verbs.query_gid_table = query_gid_table;
  return 0;
}

static struct hca *add(const char *name) {
  assert_true(hcas_cnt < 10);
  hcas[hcas_cnt].name = name;
  return &hcas[hcas_cnt++];
}

/* The fake may have been opened with another number of devices before. */
static int start(void) {
  struct sxt_fake_config config = {
      .devices_cnt = hcas_cnt,
      .inline_bytes = 64,
      .max_msg_bytes = 1u << 30,
      .max_cqe = 1 << 20,
  };

  assert_int_equal(sxt_fake_reset(&config), 0);
  return rig_start(0, true);
}

static void stop(void) {
  sxt_ib_destroy(rig.ibs[0]);
  rig.ibs[0] = NULL;
}

static void expect_logged(const char *text) {
  if (rig_logged(text) < 1)
    fail_msg("nothing logged with \"%s\"", text);
}

static void expect_ports(const char *labels) {
  char all[1024] = "";
  size_t used = 0;

  for (int i = 0; i < rig.ibs[0]->ports_cnt && used < sizeof(all); i++)
    used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
                             i > 0 ? " " : "", rig.ibs[0]->ports[i]->label);
  assert_string_equal(all, labels);
}

/* Tables that people met, with what shall be said about them. */
struct gid_case {
  const char *table;
  int gid_index; /* NCCL_IB_GID_INDEX plus 1 */
  const char *range;
  int expected; /* -1: left out */
  const char *line;
  const char *warning; /* NULL: none at all */
  uint8_t link_layer;
};

#define R1 "0=fe80::1/v1 1=fe80::1/v2 2=200.0.209.6/v1 3=200.0.209.6/v2"

static const struct gid_case gid_cases[] = {
    {R1, 0, "", 3,
     "2 port sxt_mlx5_0: RoCE v2, 400 Gb/s, MTU 4096, GID index 3 200.0.209.6 "
     "(RoCE v2, IPv4) "
     "by rank, first of 4, then index 1 fe80::1 (RoCE v2, link-local IPv6), "
     "LID 3",
     NULL, ROCE},
    {"4=fe80::1/v1 5=fe80::1/v2 6=10.156.1.2/v1 7=10.156.1.2/v2", 0, "", 7,
     "GID index 7 10.156.1.2 (RoCE v2, IPv4) by rank, first of 4", NULL, ROCE},
    {"6=fe80::1/v1 7=fe80::1/v2 8=10.0.0.1/v1 9=10.0.0.1/v2", 0, "", 9,
     "GID index 9 10.0.0.1 (RoCE v2, IPv4) by rank, first of 4", NULL, ROCE},
    {"0=fe80::1/v1 1=fe80::1/v2 2=10.1.1.1/v1 4=10.1.1.1/v2", 0, "", 4,
     "GID index 4 10.1.1.1 (RoCE v2, IPv4) by rank, first of 4", NULL, ROCE},
    {"0=fe80::1/v1 1=fe80::1/v2 2=fd93::5/v1 3=fd93::5/v2", 0, "", 3,
     "GID index 3 fd93::5 (RoCE v2, IPv6) by rank, first of 4", NULL, ROCE},
    {"0=10.1.0.1/v2 1=10.2.0.1/v2", 0, "10.2.0.0/16", 1,
     "GID index 1 10.2.0.1 (RoCE v2, IPv4) by rank, no other can be used", NULL,
     ROCE},
    {"0=fe80::1/v1 1=fe80::1/v2", 0, "", 1,
     "GID index 1 fe80::1 (RoCE v2, link-local IPv6) by rank, first of 2",
     "1 port mlx5_0: link-local only: none of its GIDs reaches further than "
     "this segment; give its "
     "interface an IP address; the table: 0 fe80::1 (RoCE v1, link-local "
     "IPv6), 1 fe80::1",
     ROCE},
    {"0=::/v1 1=::/v2", 0, "", -1, "port mlx5_0:1 is left out",
     "1 port mlx5_0:1 is left out: no entry of its GID table (16 entries) can "
     "be used",
     ROCE},
    {"4=10.0.0.1/v1 5=10.0.0.1/v2", 8, "", 5, "GID index 5 10.0.0.1",
     "1 port mlx5_0: NCCL_IB_GID_INDEX=7 is empty (the table has 16 entries); "
     "choosing by rank",
     ROCE},
    {R1, 0, "200.0.209.0", 3, "GID index 3 200.0.209.6",
     "1 NCCL_IB_ADDR_RANGE=200.0.209.0 is ignored: it has no /mask", ROCE},
    {R1, 0, "10.0.0.0/8", -1, "port mlx5_0:1 is left out",
     "1 port mlx5_0:1 is left out: no GID in range: "
     "NCCL_IB_ADDR_RANGE=10.0.0.0/8 matches none "
     "of 0 fe80::1 (RoCE v1, link-local IPv6), 1 fe80::1 (RoCE v2, link-local "
     "IPv6), 2 "
     "200.0.209.6 (RoCE v1, IPv4), 3 200.0.209.6 (RoCE v2, IPv4)",
     ROCE},
    {"0=fe80::1/ib 1=fe80:0:7::1/ib", 0, "", 1,
     "InfiniBand, 400 Gb/s, MTU 4096, GID index 1 fe80:0:7::1 routable, by "
     "NCCL_IB_ROUTABLE_FLID_GID_INDEX, first of 2, then index 0 fe80::1",
     NULL, IB},
    {"0=fe80::1/ib 1=fe80::2/ib", 0, "", 0,
     "GID index 0 fe80::1 the port's first, no other can be used", NULL, IB},
    {"0=fe80::1/ib 1=fe80::2/ib", 4, "", 0,
     "2 port mlx5_0: NCCL_IB_GID_INDEX=3 has no effect on InfiniBand", NULL,
     IB},
};

static void each_table_is_used_and_told(void **state) {
  (void)state;
  add("mlx5_0");
  for (size_t i = 0; i < SXT_ARRAY_LEN(gid_cases); i++) {
    const struct gid_case *one = &gid_cases[i];
    struct sxt_port_place place;

    rig_forget();
    hcas[0].gids = one->table;
    hcas[0].link_layer = one->link_layer;
    rig.config.ib_gid_index = one->gid_index - 1;
    rig_set(&rig.config.ib_addr_range, one->range);
    assert_int_equal(start(), one->expected >= 0 ? 0 : -ENODEV);
    expect_logged(one->line);
    if (one->warning == NULL && rig_logged("\n1 ") != 0)
      fail_msg("%s: a warning", one->table);
    if (one->warning != NULL)
      expect_logged(one->warning);
    if (one->expected < 0)
      continue;
    assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
    assert_int_equal(place.gid_index, one->expected);
    stop();
  }
}

static void candidates_are_addresses_and_told_when_they_move(void **state) {
  struct sxt_port_address out[8];
  uint32_t cnt = 0;

  (void)state;
  add("mlx5_0")->gids = R1;
  assert_int_equal(start(), 0);
  assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 8, &cnt), 0);
  assert_int_equal(cnt, 4);
  assert_int_equal(out[0].gid.index, 3);
  assert_int_equal(out[0].place.gid_index, 3);
  assert_int_equal(out[3].gid.index, 0);
  assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 2, &cnt), 0);
  assert_int_equal(cnt, 2);
  hcas[0].gids = "0=fe80::1/v1 1=fe80::1/v2 2=200.0.209.6/v1 7=200.0.209.6/v2";
  assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 8, &cnt), 0);
  assert_int_equal(out[0].place.gid_index, 7);
  expect_logged(
      "2 port mlx5_0: GID moved from index 3 to 7 (same address 200.0.209.6)");
  hcas[0].gids = "0=fe80::1/v1 1=fe80::1/v2";
  assert_int_equal(sxt_port_candidates(rig.ibs[0]->ports[0], out, 8, &cnt), 0);
  assert_int_equal(cnt, 2);
  expect_logged("1 port mlx5_0: its address was 200.0.209.6 (RoCE v2), new "
                "connections use "
                "GID index 1 fe80::1 (RoCE v2)");
}

static void a_port_is_looked_at_again_after_events(void **state) {
  struct sxt_port_seen seen;

  (void)state;
  add("mlx5_0")->gids = R1;
  assert_int_equal(start(), 0);
  hcas[0].state = IBV_PORT_DOWN;
  sxt_port_reread(rig.ibs[0]->ports[0]);
  sxt_port_seen_get(rig.ibs[0]->ports[0], &seen);
  assert_false(seen.is_usable);
  expect_logged("2 port mlx5_0 cannot be used now: it is DOWN (polling)");
  hcas[0].state = IBV_PORT_ACTIVE;
  hcas[0].speed = 64;
  sxt_port_reread(rig.ibs[0]->ports[0]);
  sxt_port_seen_get(rig.ibs[0]->ports[0], &seen);
  assert_true(seen.is_usable);
  assert_int_equal(seen.speed_mbps, 200000);
  expect_logged("1 port mlx5_0: it runs at 200 Gb/s now, after 400");
  hcas[0].speed = 128;
  sxt_port_reread(rig.ibs[0]->ports[0]);
  expect_logged("its speed in Mb/s was 200000 and is 400000 now");
}

static struct ibv_async_event event;
static bool has_event;

static int get_async_event(struct ibv_context *context,
                           struct ibv_async_event *out) {
  (void)context;
  if (!has_event) {
    errno = EAGAIN;
    return -1;
  }
  has_event = false;
  *out = event;
  return 0;
}

static void ack_async_event(struct ibv_async_event *done) { (void)done; }

static void raise_event(struct sxt_device *device, enum ibv_event_type type,
                        int port_num) {
  event.event_type = type;
  event.element.port_num = port_num;
  has_event = true;
  assert_int_equal(sxt_events_drain(rig.ibs[0]->watcher, device), 0);
  assert_false(has_event);
}

static void a_port_that_comes_up_late_is_told_once(void **state) {
  static const char late[] =
      "1 port mlx5_1:1 can be used now, but not by this job, which found it "
      "unusable at "
      "start and got its devices then: start the job again to use it\n";
  struct sxt_device *device;

  (void)state;
  add("mlx5_0");
  add("mlx5_1")->state = IBV_PORT_DOWN;
  rig.verbs.get_async_event = get_async_event;
  rig.verbs.ack_async_event = ack_async_event;
  assert_int_equal(start(), 0);
  expect_ports("mlx5_0");
  device = SXT_LIST_ENTRY(rig.ibs[0]->devices.prev, struct sxt_device, node);
  raise_event(device, IBV_EVENT_PORT_ACTIVE,
              1); /* and down again when it is looked at */
  assert_int_equal(rig_logged("mlx5_1:1 can be used now"), 0);
  /* Up, but its address comes later. */
  hcas[1].state = IBV_PORT_ACTIVE;
  hcas[1].gids = "0=::/v2";
  raise_event(device, IBV_EVENT_PORT_ACTIVE, 1);
  assert_int_equal(rig_logged("mlx5_1:1 can be used now"), 0);
  hcas[1].gids = NULL;
  raise_event(device, IBV_EVENT_GID_CHANGE, 1);
  assert_int_equal(rig_logged(late), 1);
  raise_event(device, IBV_EVENT_GID_CHANGE, 1);
  assert_int_equal(rig_logged(late), 1);
  expect_ports("mlx5_0");
  for (int num = -1; num < 300; num += 43)
    raise_event(device, IBV_EVENT_PORT_ACTIVE, num);
  stop();
  /* One that the user excludes may do what it likes. */
  rig_forget();
  rig_set(&rig.config.ib_hca, "=mlx5_0");
  hcas[1].state = IBV_PORT_DOWN;
  assert_int_equal(start(), 0);
  hcas[1].state = IBV_PORT_ACTIVE;
  device = SXT_LIST_ENTRY(rig.ibs[0]->devices.prev, struct sxt_device, node);
  raise_event(device, IBV_EVENT_PORT_ACTIVE, 1);
  assert_int_equal(rig_logged("can be used now"), 0);
}

/* What NCCL was told stays; what a connection needs is read when it is made. */
static void a_new_connection_gets_the_port_as_it_is_now(void **state) {
  struct sxt_port_place place;

  (void)state;
  add("mlx5_0")->gids = R1;
  rig.verbs.get_async_event = get_async_event;
  rig.verbs.ack_async_event = ack_async_event;
  assert_int_equal(start(), 0);
  assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
  assert_int_equal(place.path.mtu, IBV_MTU_4096);
  assert_int_equal(place.path.max_message_log2, 30);
  hcas[0].mtu = IBV_MTU_1024;
  hcas[0].max_message = 1u << 20;
  hcas[0].lid = 9;
  hcas[0].speed = 64;
  hcas[0].gids = "0=fe80::1/v1 1=fe80::1/v2 6=200.0.209.6/v2";
  raise_event(rig.ibs[0]->ports[0]->device, IBV_EVENT_GID_CHANGE, 1);
  expect_logged("2 port mlx5_0: its MTU was 4096 and is 1024 now");
  expect_logged("2 port mlx5_0: its LID was 3 and is 9 now");
  expect_logged(
      "2 port mlx5_0: GID moved from index 3 to 6 (same address 200.0.209.6)");
  expect_logged("1 port mlx5_0: it runs at 200 Gb/s now, after 400");
  assert_int_equal(rig_locate(rig.ibs[0]->ports[0], &place), 0);
  assert_int_equal(place.path.mtu, IBV_MTU_1024);
  assert_int_equal(place.path.max_message_log2, 20);
  assert_int_equal(place.path.lid, 9);
  assert_int_equal(place.gid_index, 6);
  assert_int_equal(rig.ibs[0]->ports[0]->speed_mbps, 400000);
}

static void a_named_port_that_is_down_is_a_warning(void **state) {
  (void)state;
  add("mlx5_0");
  add("mlx5_1")->state = IBV_PORT_DOWN;
  assert_int_equal(start(), 0);
  expect_logged("2 port mlx5_1:1 is left out: it is DOWN (polling)");
  stop();
  rig_set(&rig.config.ib_hca, "=mlx5_0,mlx5_1");
  assert_int_equal(start(), 0);
  expect_ports("mlx5_0");
  expect_logged("1 port mlx5_1:1 is left out: it is DOWN (polling); no signal");
  stop();
  rig_set(&rig.config.ib_hca, "=mlx5_1");
  assert_int_equal(start(), -ENODEV);
  expect_logged("none of 2 HCAs has a port that can be used");
}

static void lists_give_rails_and_count_as_wrong_when_strict(void **state) {
  struct sxt_nic_props props;

  (void)state;
  add("mlx5_0");
  add("mlx5_1");
  rig_set(&rig.config.ib_hca, "=mlx5_0:1:7:1,mlx5_1");
  assert_int_equal(start(), 0);
  assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 0, &props), 0);
  assert_int_equal(props.rail, 7);
  assert_int_equal(props.plane, 1);
  assert_int_equal(sxt_ib_nic_props(rig.ibs[0], 1, &props), 0);
  assert_int_equal(props.rail, -1);
  stop();
  rig.config.strict = 1;
  assert_int_equal(start(), 0);
  stop();
  rig_set(&rig.config.ib_hca, "=mlx5_0,mlx5_2");
  assert_int_equal(start(), -EINVAL);
  expect_logged("1 NCCL_IB_HCA: mlx5_2 matches nothing; nearest is mlx5_0");
  expect_logged("0 1 bad setting(s) and SEXTANT_STRICT=1: not starting");
  rig_set(&rig.config.ib_hca, "=^mlx5_0");
  assert_int_equal(start(), -EINVAL);
  rig_set(&rig.config.ib_hca, "");
  rig.config.ib_gid_index = 9;
  assert_int_equal(start(), -EINVAL);
  rig.config.ib_gid_index = -1;
  rig_set(&rig.config.ib_addr_range, "10.0.0.1");
  assert_int_equal(start(), -EINVAL);
}

static void
an_hca_that_cannot_be_opened_is_told_and_is_no_misspelling(void **state) {
  (void)state;
  add("erdma_0");
  add("erdma_1")->open_errno = EPERM;
  rig_set(&rig.config.ib_hca, "=erdma_0,erdma_1:1");
  assert_int_equal(start(), 0);
  expect_ports("erdma_0");
  expect_logged("1 HCA erdma_1 is left out: opening it: Operation not "
                "permitted; the device "
                "cgroup of this container keeps /dev/infiniband/");
  assert_int_equal(rig_logged("matches nothing"), 0);
}

static void the_smaller_kind_of_link_is_left_out(void **state) {
  (void)state;
  add("mlx5_0")->link_layer = IB;
  add("mlx5_1")->link_layer = IB;
  add("mlx5_2");
  add("mlx5_3")->link_layer = IB;
  for (int i = 0; i < hcas_cnt; i++)
    hcas[i].gids = hcas[i].link_layer == IB ? "0=fe80::1/ib" : NULL;
  assert_int_equal(start(), 0);
  expect_ports("mlx5_0 mlx5_1 mlx5_3");
  expect_logged("1 port mlx5_2:1 is left out: it is RoCE, and most ports here "
                "(3 of 4, 1200 "
                "Gb/s) are InfiniBand, which it cannot talk to; name ports in "
                "NCCL_IB_HCA");
  stop();
  /* Who names them gets them, but excluding others is no naming. */
  rig_set(&rig.config.ib_hca, "mlx5");
  assert_int_equal(start(), 0);
  expect_ports("mlx5_0 mlx5_1 mlx5_2 mlx5_3");
  stop();
  rig_set(&rig.config.ib_hca, "^mlx5_0,mlx5_1");
  assert_int_equal(start(), 0);
  expect_ports("mlx5_3"); /* as many and as fast: InfiniBand */
  stop();
  hcas[3].speed = 32;
  assert_int_equal(start(), 0);
  expect_ports("mlx5_2"); /* as many, but faster */
}

static void slow_ports_are_told_and_left_out_when_asked(void **state) {
  (void)state;
  add("mlx5_0");
  add("mlx5_1");
  add("mlx5_2")->speed = 32; /* 4 lanes of EDR */
  add("mlx5_3")->speed = 64; /* half is not less than half */
  assert_int_equal(start(), 0);
  expect_ports("mlx5_0 mlx5_1 mlx5_2 mlx5_3");
  expect_logged(
      "2 port mlx5_2:1: its 103 Gb/s are less than half of the fastest's 400; "
      "SEXTANT_SKIP_SLOW_PORTS=1 would leave it out");
  stop();
  rig.config.skip_slow_ports = 1;
  assert_int_equal(start(), 0);
  expect_ports("mlx5_0 mlx5_1 mlx5_3");
  expect_logged(
      "2 port mlx5_2:1 is left out: its 103 Gb/s are less than half of the "
      "fastest's 400");
}

static void ports_are_what_their_link_layer_says(void **state) {
  (void)state;
  add("rxe0");   /* no PCI device behind it */
  add("irdma0"); /* Ethernet with a LID */
  add("mlx5_0")->link_layer = IB;
  hcas[2].has_no_lid = true;
  assert_int_equal(start(), 0);
  expect_ports("irdma0 rxe0");
  expect_logged("2 port sxt_rxe0: RoCE v2, ");
  expect_logged("LID 3, PCI unknown");
  expect_logged("2 port sxt_irdma0: RoCE v2, ");
  expect_logged("2 port mlx5_0:1 is left out: it has no LID (LID 0, SM LID 1): "
                "is a subnet "
                "manager running?");
}

static int query_pkey(struct ibv_context *context, uint8_t port, int index,
                      __be16 *pkey) {
  const struct hca *hca = hca_of(context->device);

  (void)port;
  if (index >= hca->pkeys_cnt)
    return EINVAL;
  *pkey = htons(hca->pkeys[index]);
  return 0;
}

static void an_empty_pkey_is_replaced_by_one_that_is_there(void **state) {
  static const uint16_t sparse[] = {0x0000, 0x7fff, 0x8001};
  static const uint16_t limited[] = {0x0000, 0x8000, 0x7fff};
  static const uint16_t usual[] = {0xffff, 0x8001};
  const struct sxt_port *port;

  (void)state;
  add("mlx5_0")->pkeys = sparse;
  hcas[0].pkeys_cnt = 3;
  assert_int_equal(start(), 0);
  port = rig.ibs[0]->ports[0];
  assert_int_equal(sxt_place_pkey(port), 0); /* a library that cannot tell */
  rig.verbs.query_pkey = query_pkey;
  assert_int_equal(sxt_place_pkey(port), 2);
  expect_logged("1 port mlx5_0: NCCL_IB_PKEY=0 is an empty place in its P_Key "
                "table of 3; "
                "using index 2, key 0x8001");
  hcas[0].pkeys = limited;
  assert_int_equal(sxt_place_pkey(port), 2);
  hcas[0].pkeys = usual;
  hcas[0].pkeys_cnt = 2;
  assert_int_equal(sxt_place_pkey(port), 0);
  rig.config.ib_pkey = 1;
  assert_int_equal(sxt_place_pkey(port), 1);
  rig.config.ib_pkey = 7;
  assert_int_equal(sxt_place_pkey(port), 0);
  hcas[0].pkeys_cnt = 0;
  assert_int_equal(sxt_place_pkey(port), 7);
}

static int query_port_speed(struct ibv_context *context, uint32_t port,
                            uint64_t *speed) {
  (void)port;
  if (hca_of(context->device) == &hcas[1])
    return EOPNOTSUPP;
  *speed = 8000; /* two bundled ports */
  return 0;
}

static void the_newest_query_gives_the_speed(void **state) {
  (void)state;
  add("mlx5_0");
  add("mlx5_1");
  rig.verbs.query_port_speed = query_port_speed;
  assert_int_equal(start(), 0);
  assert_int_equal(rig.ibs[0]->ports[0]->speed_mbps, 800000);
  assert_int_equal(rig.ibs[0]->ports[1]->speed_mbps, 400000);
  stop();
  rig.config.ib_query_port_speed = 0;
  assert_int_equal(start(), 0);
  assert_int_equal(rig.ibs[0]->ports[0]->speed_mbps, 400000);
}

static void hundreds_of_ports_and_long_tables_are_listed(void **state) {
  static char table[32768];
  size_t used = 0;

  (void)state;
  for (int i = 0; i < 900; i++)
    used += (size_t)snprintf(table + used, sizeof(table) - used,
                             "%d=10.1.%d.%d/v2 ", i, i / 250, i % 250 + 1);
  add("mlx5_0")->ports_cnt = 200;
  add("mlx5_1")->gids = table; /* more than the port says it has */
  assert_int_equal(start(), 0);
  assert_int_equal(rig.ibs[0]->ports_cnt, 201);
  assert_int_equal(sxt_ib_nics_cnt(rig.ibs[0]), 128);
  assert_int_equal(rig_logged("2 port sxt_mlx5_0:"), 200);
  expect_logged("201 ports can be used, NCCL numbers 128");
}

#define CHOICE_TEST(name)                                                      \
  cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CHOICE_TEST(each_table_is_used_and_told),
      CHOICE_TEST(candidates_are_addresses_and_told_when_they_move),
      CHOICE_TEST(a_port_is_looked_at_again_after_events),
      CHOICE_TEST(a_port_that_comes_up_late_is_told_once),
      CHOICE_TEST(a_new_connection_gets_the_port_as_it_is_now),
      CHOICE_TEST(a_named_port_that_is_down_is_a_warning),
      CHOICE_TEST(lists_give_rails_and_count_as_wrong_when_strict),
      CHOICE_TEST(an_hca_that_cannot_be_opened_is_told_and_is_no_misspelling),
      CHOICE_TEST(the_smaller_kind_of_link_is_left_out),
      CHOICE_TEST(slow_ports_are_told_and_left_out_when_asked),
      CHOICE_TEST(ports_are_what_their_link_layer_says),
      CHOICE_TEST(an_empty_pkey_is_replaced_by_one_that_is_there),
      CHOICE_TEST(the_newest_query_gives_the_speed),
      CHOICE_TEST(hundreds_of_ports_and_long_tables_are_listed),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
