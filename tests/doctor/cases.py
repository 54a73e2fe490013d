"""Every finding of `sextant doctor`: a healthy node, one thing changed, what must be found.

A case is (name, node, change, {(id, object), ...}, text that must stand in a "seen" or
"expected"). What is found beyond the healthy node's own must be just that, OK findings aside.
"""
import trees

PORT0 = "/sys/class/infiniband/mlx5_0/ports/1"
PORT1 = "/sys/class/infiniband/mlx5_1/ports/1"
CARD0 = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
CARD1 = "/sys/devices/pci0000:20/0000:20:01.0/0000:21:00.0"
BRIDGE0 = "/sys/devices/pci0000:10/0000:10:01.0"
PLUGIN = "/opt/sextant/lib/libnccl-net-sextant.so"
CASES = []


def registrar(cases, usual=""):
    """A decorator that adds changes to a list; `usual` is the text where none is given."""
    def case(found, node=trees.roce, text=usual):
        """Registers a change; `found` is "id object" or a list of them."""
        def register(change):
            rows = [found] if isinstance(found, str) else found
            cases.append((change.__name__, node, change,
                          {tuple(row.split(" ", 1)) for row in rows}, text))
            return change
        return register
    return case


case = registrar(CASES)


def not_read(path):
    return "not-read " + path


# What NCCL would load.

@case([])
def load_from_cache(tree):
    tree.env(LD_LIBRARY_PATH=None)
    tree.put("/etc/ld.so.cache", trees.loader_cache({
        "libibverbs.so.1": "/usr/lib/x86_64-linux-gnu/libibverbs.so.1",
        "libnccl-net-sextant.so": PLUGIN}))


@case([])
def load_by_path(tree):
    tree.env(NCCL_NET_PLUGIN=PLUGIN, LD_LIBRARY_PATH="/nowhere")


@case([])
def load_second_of_list(tree):
    tree.env(NCCL_NET_PLUGIN="other,sextant")


@case([])
def load_default_name(tree):
    tree.put("/opt/sextant/lib/libnccl-net.so", tree.files[PLUGIN])
    tree.drop(PLUGIN)
    tree.env(NCCL_NET_PLUGIN=None)


@case("load-builtin NCCL_NET_PLUGIN")
def load_nothing_asked(tree):
    tree.env(NCCL_NET_PLUGIN=None, NCCL_NET=None)


@case("load-off NCCL_NET_PLUGIN")
def load_none(tree):
    tree.env(NCCL_NET_PLUGIN="NONE")


@case("load-missing NCCL_NET_PLUGIN=foo", text="looked for foo, libnccl-net-foo.so")
def load_misspelt(tree):
    tree.env(NCCL_NET_PLUGIN="foo", NCCL_NET=None)


@case("load-required NCCL_NET_PLUGIN=sextant", text="LD_LIBRARY_PATH is not set")
def load_no_library_path(tree):
    tree.env(LD_LIBRARY_PATH=None)


@case("load-required NCCL_NET=Sextant")
def load_asked_by_net_only(tree):
    tree.env(NCCL_NET_PLUGIN=None)


@case("load-no-table libnccl-net-sextant.so")
def load_without_table(tree):
    tree.put(PLUGIN, trees.elf(["ncclNetPlugin_v5"]))


@case("load-wrong-file libnccl-net-sextant.so")
def load_other_machine(tree):
    tree.put(PLUGIN, trees.elf(["ncclNetPlugin_v12"], machine=183))


@case("load-wrong-file libnccl-net-sextant.so")
def load_text(tree):
    tree.put(PLUGIN, "version https://git-lfs.github.com/spec/v1\n")


@case("load-wrong-file libnccl-net-sextant.so")
def load_cut_off(tree):
    tree.put(PLUGIN, tree.files[PLUGIN][:100])


@case("load-static NCCL_NET_PLUGIN")
def load_static(tree):
    tree.env(NCCL_NET_PLUGIN="st")


@case("load-too-many NCCL_NET_PLUGIN")
def load_fifteen(tree):
    tree.env(NCCL_NET_PLUGIN=",".join(f"n{number}" for number in range(15)))


@case("load-too-many NCCL_NET_PLUGIN")
def load_long(tree):
    tree.env(NCCL_NET_PLUGIN="n" * 300)


@case("load-space NCCL_NET_PLUGIN")
def load_space(tree):
    tree.env(NCCL_NET_PLUGIN="other, sextant")


@case("load-other-net NCCL_NET")
def load_other_net(tree):
    tree.env(NCCL_NET="IB")


@case("load-fallback NCCL_NET")
def load_fallback(tree):
    tree.env(NCCL_NET=None)


@case("load-tuner libnccl-tuner-x.so")
def load_tuner(tree):
    tree.env(NCCL_TUNER_PLUGIN="x")
    tree.put("/opt/sextant/lib/libnccl-tuner-x.so", trees.elf(["ncclTunerPlugin_v5"]))


@case("load-tuner libnccl-net-sextant.so", text="ncclTunerPlugin_v6")
def load_tuner_of_net(tree):
    tree.put(PLUGIN, trees.elf(["ncclNetPlugin_v12", "ncclTunerPlugin_v6"]))


@case("load-tuner-missing NCCL_TUNER_PLUGIN")
def load_tuner_missing(tree):
    tree.env(NCCL_TUNER_PLUGIN="x")


# The way to the device.

@case(["dev-none /sys/class/infiniband"], text="does not exist")
def no_devices(tree):
    tree.drop("/sys/class/infiniband")
    tree.drop("/sys/class/infiniband_verbs")


@case("dev-no-verbs /sys/class/infiniband_verbs")
def no_ib_uverbs(tree):
    tree.drop("/sys/class/infiniband_verbs")


@case("dev-no-verbs mlx5_1")
def one_without_uverbs(tree):
    tree.drop("/sys/class/infiniband_verbs/uverbs1")


@case(["dev-node-missing mlx5_0", "dev-node-missing mlx5_1"])
def nodes_not_mapped(tree):
    tree.drop("/dev/infiniband")


@case("dev-cgroup mlx5_1", text="EPERM")
def cgroup_denies(tree):
    tree.fact("open/uverbs1", "EPERM")


@case("dev-permission mlx5_1", text="EACCES")
def mode_denies(tree):
    tree.fact("open/uverbs1", "EACCES")


@case("dev-open mlx5_1", text="EIO")
def open_fails(tree):
    tree.fact("open/uverbs1", "EIO")


@case("dev-no-library libibverbs.so.1")
def no_verbs_library(tree):
    tree.drop("/usr/lib/x86_64-linux-gnu/libibverbs.so.1")


@case("dev-no-library libibverbs.so.9")
def other_verbs_library(tree):
    tree.env(NCCL_IBVERBS_LIB="libibverbs.so.9")


@case(["dev-no-provider mlx5_0", "dev-no-provider mlx5_1"])
def no_provider(tree):
    tree.drop("/etc/libibverbs.d/mlx5.driver")
    tree.put("/etc/libibverbs.d/efa.driver", "driver efa\n")


@case([])
def providers_elsewhere(tree):
    tree.drop("/etc/libibverbs.d")


# Ports.

@case("port-down mlx5_1:1", text="2: Polling")
def cable_out(tree):
    tree.put(f"{PORT1}/state", "1: DOWN\n")
    tree.put(f"{PORT1}/phys_state", "2: Polling\n")


@case("port-disabled mlx5_1:1")
def switched_off(tree):
    tree.put(f"{PORT1}/state", "1: DOWN\n")
    tree.put(f"{PORT1}/phys_state", "3: Disabled\n")


@case(["port-down mlx5_0:1", "port-down mlx5_1:1", "port-none all ports"])
def all_down(tree):
    for port in (PORT0, PORT1):
        tree.put(f"{port}/state", "1: DOWN\n")
        tree.put(f"{port}/phys_state", "2: Polling\n")


@case("port-no-sm mlx5_1:1", trees.infiniband)
def waits_for_sm(tree):
    tree.put(f"{PORT1}/state", "2: INIT\n")
    tree.put(f"{PORT1}/sm_lid", "0x0\n")


@case("port-no-sm mlx5_1:1", trees.infiniband)
def active_without_lid(tree):
    tree.put(f"{PORT1}/lid", "0x0\n")


@case("port-unreadable mlx5_1:1")
def state_empty(tree):
    tree.put(f"{PORT1}/state", "")


@case("port-unreadable mlx5_1")
def no_ports_folder(tree):
    tree.drop("/sys/class/infiniband/mlx5_1/ports")


@case("port-no-netdev mlx5_1:1")
def netdev_elsewhere(tree):
    tree.drop("/sys/class/net/eth3")


@case("port-netdev-down mlx5_1:1")
def netdev_down(tree):
    tree.put("/sys/class/net/eth3/flags", "0x1002\n")


@case("port-mixed mlx5_0:1")
def one_infiniband(tree):
    tree.put(f"{PORT1}/link_layer", "InfiniBand\n")
    tree.put(f"{PORT1}/lid", "0x7\n")
    tree.put(f"{PORT1}/sm_lid", "0x1\n")


@case([])
def irdma_with_lid(tree):
    tree.put(f"{PORT1}/lid", "0x1\n")


@case("port-slow mlx5_1:1")
def storage_port(tree):
    tree.put(f"{PORT1}/rate", "100 Gb/sec (4X EDR)\n")
    tree.put(f"{CARD1}/device", "0x1017\n")


@case("port-left-out mlx5_1:1")
def list_excludes(tree):
    tree.env(NCCL_IB_HCA="^=mlx5_1")


@case("hca-list NCCL_IB_HCA", text="mlx5_1")
def list_misspelt(tree):
    tree.env(NCCL_IB_HCA="mlx5_0,mlx5_1,mlxl5_1")


@case("hca-list NCCL_IB_HCA", text="mlx5_1:2")
def list_wrong_port(tree):
    tree.env(NCCL_IB_HCA="=mlx5_0,mlx5_1,mlx5_1:2")


@case("hca-list NCCL_IB_HCA", text="mlx5_10")
def list_prefix(tree):
    trees.add_hca(tree, 2, name="mlx5_10")
    tree.env(NCCL_IB_HCA="mlx5_1,mlx5_0")


@case("hca-list NCCL_IB_HCA")
def list_port_overflows(tree):
    tree.env(NCCL_IB_HCA="=mlx5_0,mlx5_1,mlx5_1:18446744073709551615")


@case([])
def list_of_all(tree):
    tree.env(NCCL_IB_HCA="=mlx5_0:1,mlx5_1")


# Addresses.

def gids(tree, *rows):
    """The table of mlx5_1: (index, address, type)."""
    for folder in ("gids", "gid_attrs"):
        tree.drop(f"{PORT1}/{folder}")
    for index, address, kind in rows:
        trees.gid(tree, PORT1, index, address, kind, "eth3")


FE80 = "fe80:0000:0000:0000:0202:c9ff:fe00:0001"
V1 = "IB/RoCE v1"
V2 = "RoCE v2"
IPV4 = trees.mapped(10, 1, 1, 5)
ULA = "fd93:0000:0000:0000:0000:0000:0000:0005"


@case("gid-link-local mlx5_1:1", text="link-local only")
def link_local_only(tree):
    gids(tree, (0, FE80, V1), (1, FE80, V2))


@case("gid-v1-only mlx5_1:1")
def v1_only(tree):
    gids(tree, (0, IPV4, V1))


@case("gid-none mlx5_1:1")
def no_address(tree):
    gids(tree, (0, "0000:0000:0000:0000:0000:0000:0000:0000", V1))


@case([])
def ipv6_only(tree):
    gids(tree, (0, FE80, V1), (1, FE80, V2), (2, ULA, V1), (3, ULA, V2))


@case(["gid-index mlx5_0:1", "gid-index mlx5_1:1"])
def index_empty(tree):
    tree.env(NCCL_IB_GID_INDEX="7")


@case(["gid-pinned mlx5_1:1", "set-from-file NCCL_IB_GID_INDEX"],
      text="NCCL_IB_GID_INDEX=3 (/etc/nccl.conf:2); without it 5")
def index_pinned_in_file(tree):
    gids(tree, (3, FE80, V2), (5, IPV4, V2))
    tree.put("/etc/nccl.conf", "# folklore\nNCCL_IB_GID_INDEX=3\n")


@case([])
def index_as_chosen(tree):
    tree.env(NCCL_IB_GID_INDEX="3")


@case(["gid-index-on-ib mlx5_0:1", "gid-index-on-ib mlx5_1:1"], trees.infiniband)
def index_on_infiniband(tree):
    tree.env(NCCL_IB_GID_INDEX="3")


@case("gid-none mlx5_1:1", text="10.1.0.0/24")
def range_without(tree):
    tree.env(NCCL_IB_ADDR_RANGE="10.1.0.0/24")


@case("gid-setting address settings", text="10.1.0.0")
def range_without_mask(tree):
    tree.env(NCCL_IB_ADDR_RANGE="10.1.0.0")


@case("gid-wish mlx5_1:1")
def family_without(tree):
    tree.env(NCCL_IB_ADDR_FAMILY="AF_INET")
    gids(tree, (2, ULA, V1), (3, ULA, V2))


@case(["not-read /sys/class/infiniband/mlx5_1/ports/1/gids"])
def table_missing(tree):
    tree.drop(f"{PORT1}/gids")


# Speed.

@case("link-below-sibling mlx5_1:1", text="200 Gb/sec")
def half_speed(tree):
    tree.put(f"{PORT1}/rate", "200 Gb/sec (4X HDR)\n")


@case("link-narrow mlx5_1:1", trees.infiniband)
def two_lanes(tree):
    tree.put(f"{PORT1}/rate", "400 Gb/sec (2X XDR)\n")


@case(["link-below-model mlx5_0:1", "link-below-model mlx5_1:1"], text="ConnectX-7")
def all_at_half(tree):
    for port in (PORT0, PORT1):
        tree.put(f"{port}/rate", "200 Gb/sec (4X HDR)\n")


@case("pcie-below-link mlx5_1", text="8 GT/s x8 = 7.9 GB/s at 0000:21:00.0")
def narrow_slot(tree):
    trees.pci_link(tree, CARD1, "8.0 GT/s PCIe", "8")


@case("pcie-below-link mlx5_0", text="0000:10:01.0")
def slow_bridge(tree):
    trees.pci_link(tree, BRIDGE0, "16.0 GT/s PCIe", "16")


@case("pcie-degraded mlx5_0")
def spare_lanes(tree):
    trees.pci_link(tree, CARD0, "64.0 GT/s PCIe", "16", prefix="max")


@case([])
def link_unknown(tree):
    trees.pci_link(tree, BRIDGE0, "Unknown", "255")


@case("numa-unknown mlx5_0")
def no_numa(tree):
    tree.put(f"{CARD0}/numa_node", "-1\n")


# MTU.

@case(["mtu-small mlx5_0:1", "mtu-small mlx5_1:1"], text="MTU 1500, so RoCE packets carry 1024")
def small_mtu(tree):
    for netdev in ("eth2", "eth3"):
        tree.put(f"/sys/class/net/{netdev}/mtu", "1500\n")


@case([])
def mtu_just_enough(tree):
    for netdev in ("eth2", "eth3"):
        tree.put(f"/sys/class/net/{netdev}/mtu", "4200\n")


@case("mtu-mixed mlx5_1:1")
def mixed_mtu(tree):
    tree.put("/sys/class/net/eth3/mtu", "4200\n")


# Counters as they stand.

@case("counter-seen mlx5_1:1", text="symbol_error 12, link_downed 2")
def old_errors(tree):
    tree.put(f"{PORT1}/counters/symbol_error", "12\n")
    tree.put(f"{PORT1}/counters/link_downed", "2\n")


@case(["counter-seen mlx5_1:1", "counter-flaps mlx5_1:1"])
def many_flaps(tree):
    tree.put(f"{PORT1}/counters/link_downed", "57\n")


@case("counter-seen bnxt_re0:1", trees.bnxt, text="to_retransmits 4")
def bnxt_errors(tree):
    tree.put("/sys/class/infiniband/bnxt_re0/ports/1/hw_counters/to_retransmits", "4\n")


@case("counter-seen rxe0:1", trees.rxe, text="rcvd_seq_err 9")
def rxe_errors(tree):
    tree.put("/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err", "9\n")


# Traffic class.

@case("tclass-global mlx5_0:1", text="236 (DSCP 59)")
def global_tclass(tree):
    tree.put("/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=236\n")


@case(["tclass-conflict mlx5_0:1", "tclass-ecn-bits NCCL_IB_TC"], text="106 (DSCP 26) is ignored")
def tclass_conflict(tree):
    tree.put("/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=236\n")
    tree.env(NCCL_IB_TC="106")


@case([])
def tclass_plain(tree):
    tree.env(NCCL_IB_TC="104")


# Several ports in one subnet.

def same_subnet(tree):
    tree.put("/proc/net/route", tree.files["/proc/net/route"].replace("0001010A", "0000010A"))


@case("net-same-subnet 10.1.0.0/24", text="eth2 eth3; arp_ignore 0, arp_announce 0")
def arp_flux(tree):
    same_subnet(tree)


@case([])
def arp_flux_cured(tree):
    same_subnet(tree)
    tree.put("/proc/sys/net/ipv4/conf/all/arp_ignore", "1\n")
    tree.put("/proc/sys/net/ipv4/conf/all/arp_announce", "2\n")


@case("net-rp-filter 10.1.0.0/24")
def strict_filter(tree):
    arp_flux_cured(tree)
    tree.put("/proc/sys/net/ipv4/conf/all/rp_filter", "1\n")


@case([])
def strict_filter_one_each(tree):
    tree.put("/proc/sys/net/ipv4/conf/all/rp_filter", "1\n")


@case("net-same-subnet 11.0.0.0/24", text="eth2 eth3 eth4 eth5 eth6 eth7 eth8 eth9")
def eight_in_one_subnet(tree):
    for number in range(2, 8):
        trees.add_hca(tree, number)
    lines = tree.files["/proc/net/route"].splitlines()
    tree.put("/proc/net/route", "\n".join(lines[:2] + [
        line.replace(line.split()[1], "0000000B") for line in lines[2:]]) + "\n")


# PCI tree.

@case("pci-acs mlx5_0", text="bridge 0000:10:01.0, ACS control 0x001d")
def acs_on(tree):
    tree.put(f"{BRIDGE0}/config", trees.config_space(acs=0x1d))


@case("pci-acs-vm mlx5_0")
def acs_in_vm(tree):
    acs_on(tree)
    tree.put("/proc/cpuinfo", "flags\t\t: fpu hypervisor\n")


@case([])
def acs_absent(tree):
    tree.put(f"{BRIDGE0}/config", trees.config_space())


@case("pci-acs-unknown bridges above the cards")
def acs_hidden(tree):
    tree.put(f"{BRIDGE0}/config", trees.config_space()[:64])


@case([])
def acs_list_without_end(tree):
    config = bytearray(trees.config_space(acs=0))
    config[0x148:0x14c] = b"\x01\x00\x81\x14"
    tree.put(f"{BRIDGE0}/config", bytes(config))


@case("pci-iommu mlx5_0", text="type DMA-FQ")
def iommu_translates(tree):
    tree.put("/sys/kernel/iommu_groups/1/type", "DMA-FQ\n")


# Limits.

def no_capability(tree):
    tree.put("/proc/self/status", "CapEff:\t00000000a80425fb\n")


def limits(tree, name, value):
    lines = [line for line in tree.files["/proc/self/limits"].splitlines()
             if not line.startswith(name)]
    tree.put("/proc/self/limits", "\n".join(lines) + "\n")
    tree.limit(name, value)


@case("no-ipc-lock this process")
def no_ipc_lock(tree):
    no_capability(tree)


@case(["no-ipc-lock this process", "memlock-low locked memory"], text="limit 8192 kB")
def memlock_low(tree):
    no_capability(tree)
    limits(tree, "Max locked memory", 8192 * 1024)


@case(["no-ipc-lock this process", "memlock-limited locked memory"])
def memlock_limited(tree):
    no_capability(tree)
    limits(tree, "Max locked memory", 64 << 30)


@case([])
def memlock_low_with_capability(tree):
    limits(tree, "Max locked memory", 65536)


@case("nofile-low open files", text="limit 1024")
def few_files(tree):
    limits(tree, "Max open files", 1024)


@case("shm-small /dev/shm", text="64 MiB")
def docker_shm(tree):
    tree.fact("shm_bytes", 64 << 20)
    tree.fact("shm_free_bytes", 64 << 20)


@case("shm-full /dev/shm")
def shm_full(tree):
    tree.fact("shm_free_bytes", 4096)


# GPUDirect.

def driver(tree):
    tree.put("/proc/driver/nvidia/version", "NVRM version: 570\n")


@case("gpu-peermem nvidia_peermem")
def peermem(tree):
    driver(tree)
    tree.put("/sys/module/nvidia_peermem/refcnt", "0\n")
    tree.put("/sys/kernel/mm/memory_peers/nv_mem/version", "1\n")


@case("gpu-peermem-unregistered nvidia_peermem")
def peermem_unregistered(tree):
    driver(tree)
    tree.put("/sys/module/nvidia_peermem/refcnt", "0\n")


@case("gpu-no-peermem nvidia_peermem")
def no_peermem(tree):
    driver(tree)


# Settings.

@case("set-misspelt NCCL_IB_GID_INDX", text="NCCL_IB_GID_INDEX")
def misspelt(tree):
    tree.env(NCCL_IB_GID_INDX="3")


@case("set-misspelt CCL_NET_GDR_LEVEL", text="NCCL_NET_GDR_LEVEL")
def first_letter_lost(tree):
    tree.env(CCL_NET_GDR_LEVEL="2")


@case("set-unknown NCCL_FROBNICATE_WIDGETS")
def unlisted(tree):
    tree.env(NCCL_FROBNICATE_WIDGETS="1")


@case([])
def known(tree):
    tree.env(NCCL_DEBUG="INFO", NCCL_SOCKET_IFNAME="eth0", RCCL_DEBUG="1", OTHER_CCL_DEBUG="1")


@case("set-bad-value NCCL_IB_RETRY_CNT", text="0..7")
def out_of_range(tree):
    tree.env(NCCL_IB_RETRY_CNT="15")


@case("set-bad-value NCCL_IB_GID_INDEX", text="not a number")
def no_number(tree):
    tree.env(NCCL_IB_GID_INDEX="abc")


@case("set-empty NCCL_IB_GID_INDEX")
def empty_value(tree):
    tree.env(NCCL_IB_GID_INDEX="")


@case(["set-space NCCL_IB_TIMEOUT ", "set-from-file NCCL_IB_TIMEOUT "], text="/etc/nccl.conf:2")
def space_in_file(tree):
    tree.put("/etc/nccl.conf", "# site\nNCCL_IB_TIMEOUT =20\n")


@case("set-no-value /etc/nccl.conf:1")
def line_without_value(tree):
    tree.put("/etc/nccl.conf", "export\n")


@case("set-shadowed NCCL_DEBUG",
      text="'INFO' (/root/.nccl.conf:1) does not count, 'WARN' (environment)")
def shadowed(tree):
    tree.env(NCCL_DEBUG="WARN")
    tree.put("/root/.nccl.conf", "NCCL_DEBUG=INFO\n")


@case("set-from-file NCCL_DEBUG", text="/root/.nccl.conf:1")
def home_before_etc(tree):
    tree.put("/root/.nccl.conf", "NCCL_DEBUG=INFO\n")
    tree.put("/etc/nccl.conf", "NCCL_DEBUG=INFO\n")


@case("set-from-file NCCL_DEBUG", text="/srv/nccl.conf:1")
def named_file(tree):
    tree.env(NCCL_CONF_FILE="/srv/nccl.conf")
    tree.put("/srv/nccl.conf", "NCCL_DEBUG=INFO\n")
    tree.put("/root/.nccl.conf", "NCCL_DEBUG=WARN\n")


@case("set-ignored NCCL_IB_OOO_RQ")
def ignored(tree):
    tree.env(NCCL_IB_OOO_RQ="1")


# What cannot be read.

@case(not_read("/proc/self/limits"))
def no_limits(tree):
    tree.drop("/proc/self/limits")


@case(not_read("/proc/net/route"))
def no_routes(tree):
    tree.drop("/proc/net/route")


@case([])
def macvlan(tree):
    pass


CASES[-1] = ("macvlan", trees.container, macvlan, set(), "")
