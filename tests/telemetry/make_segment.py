#!/usr/bin/env python3
"""Telemetry segments with known contents, laid out as telemetry/segment.h says.

As a module: Segment() and its add_ methods, then bytes() or write(). As a program it writes the
segments of a small job, as they are AT seconds after its start:

usage: make_segment.py DIR [AT]
"""
import fcntl
import os
import struct
import sys
import time

MAGIC = 0x454C455454585345
VERSION = 1
HEADER = struct.Struct("<QII Q II Q 4Q 128s QQIIIii 32s64s64s128s 4x 4Q 8I I")
SECTION = struct.Struct("<QII")
PORT = struct.Struct("<II32sIIIIII16sQQ96s24s")
LINK = struct.Struct("<II64s96s4I6Q")
CONN = struct.Struct("<8I QQ iI 192s Q")
COMM = struct.Struct("<IIQQQ")
COUNTERS = struct.Struct("<8Q 216I 16I I")
PATH = struct.Struct("<6I16s16sHH24s")
EVENT = struct.Struct("<QQII232s")
CHOICE = struct.Struct("<IIII16Q")
STRIDES = (256, 256, 2048, 256, 64, 256, 160)
PORTS, LINKS, CONNS, PATHS, COMMS, EVENTS, CHOICES = range(7)
CHOICES_CAP = 8
LEFT = 0xFFFFFFFF  # algorithm and protocol of a choice that is NCCL's own
LIVE, CLOSED = 1, 2
CONN_COUNTERS = 320  # offset in a connection's record
PATH_COUNTERS = 128  # in a path's
SENDS, RECEIVES = 1, 2
PEER, WIRE, CALLER = range(3)
NS = 1_000_000_000
COMM_ID = 0x1f2e3d4c5b6a7988
LOCKED = []  # files whose writer seems to live as long as we do


def latency_bucket(ns):
    """The bucket that holds a latency, as segment.h has them."""
    bucket = 0
    while bucket < 71 and ns >= 64 * (16, 20, 25)[(bucket + 1) % 3] << (bucket + 1) // 3:
        bucket += 1
    return bucket


def size_bucket(size):
    bucket = 0
    while bucket < 15 and size >= (1 if bucket == 0 else 4 ** (bucket + 1)):
        bucket += 1
    return bucket


class Segment:
    """One process's. Time stamps are ns since the segment was made; 0 stays never."""

    def __init__(self, caps=(4, 4, 16, 32, 4, 16), **facts):
        self.caps = (*caps, CHOICES_CAP)
        self.facts = {"state": LIVE, "start_time": 1000, "pid_ns": 1, "pid": 4711,
                      "uid": os.getuid(), "abi": 11, "rank": 0, "ranks": 2, "release": "0.1.0",
                      "host": "node1", "command": "python", "job": "slurm:123.0",
                      "made_ticks": 5 * NS, "made_mono_ns": 5 * NS,
                      "made_wall_ns": 1_767_323_045 * NS, "closed_wall_ns": 0,
                      "magic": MAGIC, "version": VERSION, "shared": 0, "warnings": 0, "stall_sec": 60} | facts
        self.records = [[] for _ in STRIDES]
        self.opened = 0

    def ticks(self, ns):
        return self.facts["made_ticks"] + ns if ns else 0

    def append(self, kind, record):
        self.records[kind].append(record)
        return len(self.records[kind]) - 1

    def add_port(self, hca, num=1, state=2, speed_mbps=400_000, link_layer=2, flaps=0, changed=0,
                 gid=bytes(10) + b"\xff\xff\x0a\x00\x01\x01", reason="", pci="0000:17:00.0",
                 lid=0):
        return self.append(PORTS, PORT.pack(
            2, state, hca.encode(), num, speed_mbps, link_layer, 4096, lid, 3, gid, flaps,
            self.ticks(changed), reason.encode(), pci.encode()))

    def add_link(self, nic, peer, conns=0, sent=(0, 0, 0), received=(0, 0, 0), shared=(0, 0)):
        """sent, received: messages, bytes and not_now that are not in connections' records."""
        return self.append(LINKS, LINK.pack(2, 1, nic.encode(), peer.encode(), conns, *shared, 0,
                                            *sent, *received))

    def add_conn(self, direction, link, state=1, waits=None, sizes=None, path_first=0, paths=1,
                 opened=1, ended=0, error=0, text="", generation=0, comm=0, **counters):
        """waits: {PEER: {ns: how many}}; sizes: {bytes: how many}."""
        latency = [0] * 216
        for wait, histogram in (waits or {}).items():
            for ns, cnt in histogram.items():
                latency[72 * wait + latency_bucket(ns)] += cnt
        by_size = [0] * 16
        for size, cnt in (sizes or {}).items():
            by_size[size_bucket(size)] += cnt
        self.opened += 1
        head = CONN.pack(2, state, direction, link, self.opened, 100 + self.opened, path_first,
                         paths, self.ticks(opened), self.ticks(ended), error, generation,
                         text.encode(), comm)
        done = counters.get("done", counters.get("messages", 0))
        tail = COUNTERS.pack(counters.get("started", done), done, counters.get("messages", 0),
                             counters.get("bytes_", 0), counters.get("not_now", 0),
                             self.ticks(counters.get("waiting", 0)),
                             self.ticks(counters.get("last_start", 0)),
                             self.ticks(counters.get("last_done", 0)), *latency, *by_size,
                             counters.get("tag", 0))
        return self.append(CONNS, head.ljust(CONN_COUNTERS, b"\0") + tail)

    def add_path(self, conn, port, qpn=0x100, peer_qpn=0x200, messages=0, bytes_=0,
                 peer_hca="mlx5_0"):
        head = PATH.pack(2, conn, port, qpn, peer_qpn, 4096, bytes(16), bytes(16), 0, 0,
                         peer_hca.encode())
        return self.append(PATHS, head.ljust(PATH_COUNTERS, b"\0") +
                           struct.pack("<QQ", messages, bytes_))

    def add_comm(self, comm_id, made=1, ended=0):
        return self.append(COMMS, COMM.pack(2, 1, comm_id, self.ticks(made), self.ticks(ended)))

    def add_event(self, at, kind, text, subject=0xFFFFFFFF):
        number = len(self.records[EVENTS])
        return self.append(EVENTS, EVENT.pack(2 * number + 2, self.ticks(at), kind, subject,
                                              text.encode()))

    def add_choice(self, coll, algo, proto, calls):
        """calls: {bytes: how many}."""
        by_size = [0] * 16
        for size, cnt in calls.items():
            by_size[size_bucket(size)] += cnt
        return self.append(CHOICES, CHOICE.pack(coll, algo, proto, 0, *by_size))

    def bytes(self):
        facts = self.facts
        sections, body, offset, used = b"", b"", 4096, [0] * 8
        for kind, stride in enumerate(STRIDES):
            sections += SECTION.pack(offset, stride, self.caps[kind])
            records = self.records[kind]
            if kind == EVENTS:  # a ring: what is newest stands over what is oldest
                ring = [b""] * self.caps[kind]
                for number, record in enumerate(records):
                    ring[number % len(ring)] = record
                records = ring
            elif kind < EVENTS:
                used[kind] = len(records)
            part = b"".join(record.ljust(stride, b"\0") for record in records)
            body += part.ljust(stride * self.caps[kind], b"\0")
            offset += stride * self.caps[kind]
        header = HEADER.pack(
            facts["magic"], facts["version"], 4096, offset, facts["state"], 0, NS,
            facts["made_ticks"], facts["made_mono_ns"], facts["made_wall_ns"],
            facts["closed_wall_ns"], sections.ljust(128, b"\0"), facts["start_time"],
            facts["pid_ns"], facts["pid"], facts["uid"], facts["abi"], facts["rank"],
            facts["ranks"], facts["release"].encode(), facts["host"].encode(),
            facts["command"].encode(), facts["job"].encode(), self.opened, facts["shared"],
            len(self.records[EVENTS]), facts["warnings"], *used, facts["stall_sec"])
        return header.ljust(4096, b"\0") + body

    def name(self):
        return "sextant-{uid}-{pid}-{start_time}".format(**self.facts)

    def write(self, folder, lives=None):
        """Write the file; of a process that lives (by default: of this one) it stays locked."""
        path = os.path.join(folder, self.name())
        file = open(path, "wb")
        os.fchmod(file.fileno(), 0o600)
        file.write(self.bytes())
        file.flush()
        if self.facts["pid"] == os.getpid() if lives is None else lives:
            fcntl.flock(file, fcntl.LOCK_EX)
            LOCKED.append(file)
        else:
            file.close()
        return path


def this_process():
    """Facts of a segment whose process lives as long as the caller, made now."""
    with open("/proc/self/stat", encoding="ascii") as file:
        start_time = int(file.read().rsplit(")", 1)[1].split()[19])
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return {"pid": os.getpid(), "pid_ns": os.stat("/proc/self/ns/pid").st_ino,
            "start_time": start_time, "made_ticks": now, "made_mono_ns": now,
            "made_wall_ns": time.time_ns()}


def busy(at, **facts):
    """One rank of a job, AT seconds after its start: sends 10 GB/s to its peer, receives 8."""
    segment = Segment(**facts)
    rank = segment.facts["rank"]
    gid = bytes(10) + b"\xff\xff\x0a\x00\x01" + bytes([rank + 1])
    port = segment.add_port(f"mlx5_{rank}", gid=gid)
    segment.add_port("mlx5_7", state=3, speed_mbps=25_000, flaps=2, changed=1 * NS,
                     reason="slower than half of the fastest port")
    link = segment.add_link(f"mlx5_{rank}", f"node2:{4800 + rank}", conns=2)
    segment.add_comm(COMM_ID)
    cnt = 10_000 * at
    now = max(at * NS, 2)
    for direction, gb_per_s in ((SENDS, 10), (RECEIVES, 8)):
        conn = segment.add_conn(
            direction, link, path_first=len(segment.records[PATHS]), messages=cnt,
            started=cnt + 2, comm=COMM_ID, bytes_=gb_per_s * NS * at, last_start=now - 1, last_done=now - 1,
            tag=1 - rank if direction == RECEIVES else rank, sizes={1 << 20: cnt},
            waits={PEER: {12_000: cnt * 98 // 100, 3_000_000: cnt * 2 // 100},
                   WIRE: {40_000: cnt}, CALLER: {250_000: cnt}})
        segment.add_path(conn, port, qpn=0x100 + conn)
    segment.add_event(1 * NS, 3, "opened to node2", 0)
    return segment


def job(at):
    """Three processes: two that work, one that crashed after 60 s with an error."""
    dead = Segment(pid=4713, start_time=1002, rank=2, pid_ns=1, ranks=3, warnings=1)
    dead.add_port("mlx5_2", state=1, flaps=1, changed=60 * NS, reason="link down")
    link = dead.add_link("mlx5_2", "node3:4802", conns=1)
    conn = dead.add_conn(SENDS, link, state=3, messages=1000, started=1001, bytes_=4 * NS,
                         last_done=59 * NS, ended=60 * NS, error=110, opened=1,
                         text="mlx5_2:1 10.0.1.3 to node3: retries exceeded",
                         waits={PEER: {5_000_000_000: 10, 20_000: 990}, WIRE: {90_000: 1000}})
    dead.add_path(conn, 0)
    dead.add_event(59 * NS, 2, "mlx5_2:1: up -> down", 0)
    dead.add_event(60 * NS, 5, "mlx5_2:1 10.0.1.3 to node3: retries exceeded", conn)
    return [busy(at, pid=4711, start_time=1000, rank=0, ranks=3),
            busy(at, pid=4712, start_time=1001, rank=1, ranks=3), dead]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for segment in job(int(sys.argv[2]) if len(sys.argv) == 3 else 100):
        print(segment.write(sys.argv[1]))


if __name__ == "__main__":
    main()
