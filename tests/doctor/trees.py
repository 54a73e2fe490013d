"""Small trees of /sys, /proc, /etc and /dev for `sextant doctor --root`, and healthy nodes."""
import os
import struct

ALL_CAPS = "000001ffffffffff"
PAGE = 4096


class Tree:
    """Files by path: bytes, text, a Link, or a Folder; written below a folder at the end."""

    def __init__(self):
        self.files = {}

    def put(self, path, content=""):
        self.files[path] = content

    def drop(self, path):
        """Removes a file, or a folder with all in it."""
        gone = [name for name in self.files if name == path or name.startswith(path + "/")]
        assert gone, f"{path} is not in the tree"
        for name in gone:
            del self.files[name]

    def env(self, **names):
        """Sets variables of the environment; None unsets."""
        now = dict(row.split("=", 1) for row in self.files["/proc/self/environ"].split("\0")
                   if row)
        now.update(names)
        self.files["/proc/self/environ"] = "".join(
            f"{name}={value}\0" for name, value in now.items() if value is not None)

    def fact(self, key, value):
        lines = [line for line in self.files["/sextant.facts"].splitlines()
                 if not line.startswith(key + "=")]
        self.files["/sextant.facts"] = "\n".join(lines + [f"{key}={value}"]) + "\n"

    def limit(self, name, value):
        self.files["/proc/self/limits"] += f"{name:<25} {value:<20} {value:<20} units\n"

    def write(self, root):
        for path, content in self.files.items():
            full = root + path
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if isinstance(content, Link):
                os.symlink(content.target, full)
            elif isinstance(content, Folder):
                os.makedirs(full, exist_ok=True)
            elif isinstance(content, bytes):
                with open(full, "wb") as file:
                    file.write(content)
            else:
                with open(full, "w", encoding="utf-8") as file:
                    file.write(content)


class Link:
    def __init__(self, target):
        self.target = target


class Folder:
    pass


def link(tree, path, target):
    """A relative link, as /sys has them."""
    tree.put(path, Link(os.path.relpath(target, os.path.dirname(path))))


def elf(symbols, machine=62):
    """A shared object that defines symbols: headers, dynamic symbols, their names."""
    names = b"\0"
    table = bytes(24)
    for symbol in symbols:
        table += struct.pack("<IBBHQQ", len(names), 0x11, 0, 1, 0x1000, 8)
        names += symbol.encode() + b"\0"
    sections = 64 + len(table) + len(names)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, sections, 0, 64, 56, 0, 64, 3, 0)

    def section(kind, offset, size, linked):
        return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, linked, 0, 8, 24)

    return header + table + names + bytes(64) + section(11, 64, len(table), 2) + \
        section(3, 64 + len(table), len(names), 0)


def loader_cache(libraries):
    """/etc/ld.so.cache as ldconfig writes it: {name: path}."""
    at = 48 + 24 * len(libraries)
    entries = b""
    texts = b""
    for name, path in libraries.items():
        key = at + len(texts)
        texts += name.encode() + b"\0"
        value = at + len(texts)
        texts += path.encode() + b"\0"
        entries += struct.pack("<IIIIQ", 0x0303, key, value, 0, 0)
    return b"glibc-ld.so.cache1.1" + struct.pack("<II5I", len(libraries), len(texts), 2, 0, 0, 0,
                                                 0) + entries + texts


def config_space(acs=None):
    """4096 bytes of a bridge: AER first, then ACS with its control register."""
    data = bytearray(PAGE)
    if acs is not None:
        struct.pack_into("<I", data, 0x100, 0x0001 | 1 << 16 | 0x148 << 20)
        struct.pack_into("<IHH", data, 0x148, 0x000d | 1 << 16, 0x1f, acs)
    return bytes(data)


def pci_link(tree, folder, speed="32.0 GT/s PCIe", width="16", prefix="current"):
    tree.put(f"{folder}/{prefix}_link_speed", speed + "\n")
    tree.put(f"{folder}/{prefix}_link_width", width + "\n")


def pci_card(tree, number, vendor="0x15b3", device="0x1021", driver="mlx5_core"):
    """A root port and a card on it; returns the card's folder."""
    bridge = f"/sys/devices/pci0000:{number:x}0/0000:{number:x}0:01.0"
    card = f"{bridge}/0000:{number:x}1:00.0"
    for folder in (bridge, card):
        pci_link(tree, folder)
        pci_link(tree, folder, prefix="max")
    tree.put(f"{bridge}/config", config_space(acs=0))
    tree.put(f"{card}/config", config_space())
    tree.put(f"{card}/vendor", vendor + "\n")
    tree.put(f"{card}/device", device + "\n")
    tree.put(f"{card}/numa_node", f"{number % 2}\n")
    tree.put(f"/sys/bus/pci/drivers/{driver}/bind")
    link(tree, f"{card}/driver", f"/sys/bus/pci/drivers/{driver}")
    tree.put(f"/sys/kernel/iommu_groups/{number}/type", "identity\n")
    link(tree, f"{card}/iommu_group", f"/sys/kernel/iommu_groups/{number}")
    return card


def gid(tree, port, index, address, kind="RoCE v2", netdev=None):
    tree.put(f"{port}/gids/{index}", address + "\n")
    tree.put(f"{port}/gid_attrs/types/{index}", kind + "\n")
    if netdev is not None:
        tree.put(f"{port}/gid_attrs/ndevs/{index}", netdev + "\n")


def mapped(a, b, c, d):
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def add_port(tree, name, roce=True, rate="400 Gb/sec (4X NDR)", number=1):
    port = f"/sys/class/infiniband/{name}/ports/{number}"
    tree.put(f"{port}/state", "4: ACTIVE\n")
    tree.put(f"{port}/phys_state", "5: LinkUp\n")
    tree.put(f"{port}/rate", rate + "\n")
    tree.put(f"{port}/link_layer", "Ethernet\n" if roce else "InfiniBand\n")
    tree.put(f"{port}/lid", "0x0\n" if roce else "0x11\n")
    tree.put(f"{port}/sm_lid", "0x0\n" if roce else "0x1\n")
    for counter in ("symbol_error", "port_rcv_errors", "link_downed", "link_error_recovery",
                    "port_xmit_wait"):
        tree.put(f"{port}/counters/{counter}", "0\n")
    return port


def add_netdev(tree, netdev, subnet, mtu=9000, host=5):
    tree.put(f"/sys/class/net/{netdev}/mtu", f"{mtu}\n")
    tree.put(f"/sys/class/net/{netdev}/flags", "0x1003\n")
    for name, value in (("arp_ignore", 0), ("arp_announce", 0), ("rp_filter", 0)):
        tree.put(f"/proc/sys/net/ipv4/conf/{netdev}/{name}", f"{value}\n")
    a, b, c, _ = (int(part) for part in subnet.split("."))
    tree.files["/proc/net/route"] += "\t".join(
        (netdev, f"{c << 16 | b << 8 | a:08X}", "00000000", "0001", "0", "0", "0", "00FFFFFF", "0",
         "0", "0")) + "\n"
    return mapped(a, b, c, host)


def add_verbs(tree, name, number):
    tree.put(f"/sys/class/infiniband_verbs/uverbs{number}/ibdev", name + "\n")
    tree.put(f"/dev/infiniband/uverbs{number}")
    tree.fact(f"open/uverbs{number}", "OK")


MLX5_COUNTERS = ("local_ack_timeout_err", "packet_seq_err", "out_of_sequence",
                 "implied_nak_seq_err", "rnr_nak_retry_err", "out_of_buffer", "np_cnp_sent",
                 "rp_cnp_handled", "np_ecn_marked_roce_packets")
BNXT_COUNTERS = ("to_retransmits", "seq_err_naks_rcvd", "rnr_naks_rcvd", "rx_cnp_pkts",
                 "tx_cnp_pkts", "oos_drop_count")
RXE_COUNTERS = ("duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "rcvd_seq_err",
                "retry_exceeded_err", "completer_retry_err", "link_downed")


def add_hca(tree, number, roce=True, driver="mlx5_core", name=None, counters=MLX5_COUNTERS,
            rate="400 Gb/sec (4X NDR)", **card):
    name = name or f"mlx5_{number}"
    folder = pci_card(tree, number + 1, driver=driver, **card)
    link(tree, f"/sys/class/infiniband/{name}/device", folder)
    port = add_port(tree, name, roce, rate)
    for counter in counters:
        tree.put(f"{port}/hw_counters/{counter}", "0\n")
    add_verbs(tree, name, number)
    if roce:
        netdev = f"eth{number + 2}"
        address = add_netdev(tree, netdev, f"10.1.{number}.0")
        link(tree, f"/sys/class/net/{netdev}/device", folder)
        gid(tree, port, 0, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "IB/RoCE v1", netdev)
        gid(tree, port, 1, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "RoCE v2", netdev)
        gid(tree, port, 2, address, "IB/RoCE v1", netdev)
        gid(tree, port, 3, address, "RoCE v2", netdev)
        for stat in ("rx_prio3_pause", "tx_prio3_pause", "rx_prio3_pause_duration"):
            tree.fact(f"ethtool/{netdev}/{stat}", 0)
    else:
        gid(tree, port, 0, "fe80:0000:0000:0000:0202:c903:0000:0001", "IB/RoCE v1")
    return port


def system(provider="mlx5"):
    """All that a node has besides its RDMA devices: as it should be."""
    tree = Tree()
    tree.put("/sextant.facts", "shm_bytes=67108864000\nshm_free_bytes=67100000000\n")
    tree.put("/proc/self/environ", "HOME=/root\0LD_LIBRARY_PATH=/opt/sextant/lib\0"
             "NCCL_NET_PLUGIN=sextant\0NCCL_NET=Sextant\0")
    tree.put("/proc/self/limits", "Limit                     Soft Limit           "
             "Hard Limit           Units\n")
    tree.put("/proc/self/status", f"Name:\tsextant\nCapEff:\t{ALL_CAPS}\n")
    tree.put("/proc/sys/kernel/arch", "x86_64\n")
    tree.put("/proc/cpuinfo", "flags\t\t: fpu vme de\n")
    tree.put("/proc/uptime", "86400.00 1000.00\n")
    tree.put("/proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\t"
             "MTU\tWindow\tIRTT\neth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    for name in ("arp_ignore", "arp_announce", "rp_filter"):
        tree.put(f"/proc/sys/net/ipv4/conf/all/{name}", "0\n")
    tree.limit("Max locked memory", "unlimited")
    tree.limit("Max open files", "1048576")
    for node in range(2):
        tree.put(f"/sys/devices/system/node/node{node}/cpulist", "0\n")
    verbs = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"
    tree.put("/etc/ld.so.cache", loader_cache({"libibverbs.so.1": verbs}))
    tree.put(verbs, elf(["ibv_get_device_list"]))
    tree.put(f"/etc/libibverbs.d/{provider}.driver", f"driver {provider}\n")
    tree.put("/opt/sextant/lib/libnccl-net-sextant.so", elf(["ncclNetPlugin_v12"]))
    return tree


def roce():
    """Two ConnectX-7 at 400 Gb/s, RoCE, a subnet each."""
    tree = system()
    for number in range(2):
        add_hca(tree, number)
    return tree


def infiniband():
    """Two ConnectX-7 at 400 Gb/s on InfiniBand."""
    tree = system()
    for number in range(2):
        add_hca(tree, number, roce=False)
    return tree


def bnxt():
    """One Broadcom card."""
    tree = system("bnxt_re")
    add_hca(tree, 0, driver="bnxt_en", name="bnxt_re0", counters=BNXT_COUNTERS, vendor="0x14e4",
            device="0x1760")
    return tree


def rxe():
    """Soft-RoCE: no PCI device, a parent instead."""
    tree = system("rxe")
    port = add_port(tree, "rxe0", rate="2.5 Gb/sec (1X SDR)")
    tree.put("/sys/class/infiniband/rxe0/parent", "eth2\n")
    for counter in RXE_COUNTERS:
        tree.put(f"{port}/hw_counters/{counter}", "0\n")
    add_verbs(tree, "rxe0", 0)
    gid(tree, port, 0, add_netdev(tree, "eth2", "10.1.0.0"), netdev="eth2")
    return tree


def container():
    """RoCE through a macvlan: holes in the table, an interface of its own name."""
    tree = system()
    port = add_hca(tree, 0)
    tree.drop(f"{port}/gids")
    tree.drop(f"{port}/gid_attrs")
    for index in range(4):
        tree.put(f"{port}/gids/{index}", "0000:0000:0000:0000:0000:0000:0000:0000\n")
        # Reading one of these answers EINVAL on a real machine; a folder cannot be read either.
        tree.put(f"{port}/gid_attrs/types/{index}", Folder())
        tree.put(f"{port}/gid_attrs/ndevs/{index}", Folder())
    address = add_netdev(tree, "net1", "10.7.0.0")
    gid(tree, port, 4, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "IB/RoCE v1", "net1")
    gid(tree, port, 5, "fe80:0000:0000:0000:0202:c9ff:fe00:0001", "RoCE v2", "net1")
    gid(tree, port, 6, address, "IB/RoCE v1", "net1")
    gid(tree, port, 7, address, "RoCE v2", "net1")
    for stat in ("rx_prio3_pause", "tx_prio3_pause"):
        tree.fact(f"ethtool/net1/{stat}", 0)
    return tree
