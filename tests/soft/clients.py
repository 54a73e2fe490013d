#!/usr/bin/env python3
"""Unmodified programs of ibverbs-utils and perftest between two hosts of a software fabric.

The outer call starts `sextant soft run`, which calls this script again inside it; that one runs
the server on host 0 and the client on host 1, each linked program by LD_LIBRARY_PATH or by
LD_PRELOAD. Exit status, data checks the programs make themselves, and iteration counts are
checked; speeds never are.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 100
TRIES = 4
TROUBLE = re.compile(r"error|fail|couldn't|unable|unexpected|invalid|mismatch|not found|"
                     r"not supported|bad wr|segmentation", re.IGNORECASE)
# What perftest says about the machine, not about the run.
HARMLESS = re.compile(r"CPU frequency|cpufreq|Force-disabled|CQ Moderation|Link type|"
                      r"conflicting|data ex\. method", re.IGNORECASE)
PORT_TAKEN = re.compile(r"couldn't listen|address already in use|couldn't bind|bind failed|"
                        r"unable to open file descriptor", re.IGNORECASE)

PINGPONG = ["--iters=500", "--size=4096"]
PERFTEST = ["-F", "-n", "200"]
SWEEP = ["-F", "-a", "-n", "20"]
# Few exchanges: both ends spin in turns, and may have to share one CPU.
IN_TURNS = ["-F", "-n", "50"]
# Name of the case: the program, its arguments, and what a good run's output has.
PAIRS = {
    "rc_pingpong": ("ibv_rc_pingpong", PINGPONG + ["-c"], "500 iters in"),
    "rc_pingpong_events": ("ibv_rc_pingpong", PINGPONG + ["-c", "-e"], "500 iters in"),
    "srq_pingpong": ("ibv_srq_pingpong", PINGPONG + ["-c", "-q", "8"], "500 iters in"),
    "srq_pingpong_events": ("ibv_srq_pingpong", PINGPONG + ["-c", "-e"], "500 iters in"),
    "ud_pingpong": ("ibv_ud_pingpong", ["--iters=500", "--size=2048", "-c"], "500 iters in"),
    "ud_pingpong_events": ("ibv_ud_pingpong", ["--iters=500", "--size=2048", "-c", "-e"],
                           "500 iters in"),
    "write_bw": ("ib_write_bw", SWEEP, r"\b8388608 +20\b"),
    "write_bw_bidirectional": ("ib_write_bw", PERFTEST + ["-b", "-q", "4"], r"\b65536 +800\b"),
    "write_lat": ("ib_write_lat", IN_TURNS + ["-s", "64"], r"\b64 +50\b"),
    "write_lat_large": ("ib_write_lat", IN_TURNS + ["-s", "1048576"], r"\b1048576 +50\b"),
    "read_bw": ("ib_read_bw", SWEEP, r"\b8388608 +20\b"),
    "send_lat": ("ib_send_lat", IN_TURNS + ["-s", "64"], r"\b64 +50\b"),
    "send_lat_large": ("ib_send_lat", IN_TURNS + ["-s", "1048576"], r"\b1048576 +50\b"),
    "send_lat_events": ("ib_send_lat", PERFTEST + ["-e", "-s", "64"], r"\b64 +200\b"),
    "atomic_bw_add": ("ib_atomic_bw", PERFTEST + ["-A", "FETCH_AND_ADD"], r"\b8 +200\b"),
    "atomic_bw_swap": ("ib_atomic_bw", PERFTEST + ["-A", "CMP_AND_SWAP"], r"\b8 +200\b"),
}


class Failure(Exception):
    """A program did not do what it must; the text says which and how."""


def environment(args, host):
    """The environment of a program on one host."""
    env = dict(os.environ, LC_ALL="C", SEXTANT_SOFT_HOST=host)
    env.pop("LD_LIBRARY_PATH", None)
    first = [args.runtime] if args.runtime else []
    if args.mode == "library":
        env["LD_LIBRARY_PATH"] = args.library_dir
    else:
        first.append(args.preload)
    env["LD_PRELOAD"] = " ".join(first)
    if args.runtime:
        env["ASAN_OPTIONS"] = "detect_leaks=0"  # what the programs leave behind is theirs
    return env


def run(args, host, command):
    """One program to its end; its output, standard error included."""
    done = subprocess.run(command, env=environment(args, host), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} on host {host}: exit status {done.returncode}\n"
                      f"{done.stdout}")
    return done.stdout


def devices(args, host):
    """The devices of a host with the index of their first RoCE v2 IPv4 address."""
    text = run(args, host, ["ibv_devinfo", "-v"])
    found = []
    for block in re.split(r"(?m)^hca_id:", text)[1:]:
        gid = re.search(r"GID\[ *(\d+)\]:\s+::ffff:[\d.a-f:]+, RoCE v2", block)
        if gid is None:
            raise Failure(f"host {host}: {block.split()[0]} shows no RoCE v2 IPv4 GID:\n{text}")
        found.append((block.split()[0], gid.group(1)))
    if not found:
        raise Failure(f"host {host}: ibv_devinfo shows no device:\n{text}")
    return found


def devinfo(args):
    """ibv_devinfo -v tells what the built-in fabric has."""
    guids = set()
    for host in ("0", "1"):
        text = run(args, host, ["ibv_devinfo", "-v"])
        blocks = re.split(r"(?m)^hca_id:", text)[1:]
        if len(blocks) != 2:
            raise Failure(f"host {host}: 2 devices expected, ibv_devinfo shows {len(blocks)}:\n"
                          f"{text}")
        for block in blocks:
            for fact in (r"transport:\s+InfiniBand \(0\)", r"phys_port_cnt:\s+1\b",
                         r"state:\s+PORT_ACTIVE \(4\)", r"phys_state:\s+LINK_UP \(5\)",
                         r"link_layer:\s+Ethernet", r"max_mtu:\s+4096 \(5\)",
                         r"active_speed:\s+100.0 Gbps \(128\)", r"active_width:\s+4X \(2\)",
                         r"atomic_cap:\s+ATOMIC_(HCA|GLOB)", r"max_qp:\s+[1-9]\d+",
                         r"max_cqe:\s+[1-9]\d+", r"max_mr_size:\s+0x[0-9a-f]+",
                         r"GID\[ *\d+\]:\s+fe80:", r"::ffff:[\d.]+, RoCE v2", r"RoCE v1"):
                if not re.search(fact, block):
                    raise Failure(f"host {host}: no \"{fact}\" in ibv_devinfo's\n{block}")
            guids.add(re.search(r"node_guid:\s+(\S+)", block).group(1))
        if re.search(r"(?i)failed|unknown|invalid", text):
            raise Failure(f"host {host}: ibv_devinfo complains:\n{text}")
        name = blocks[0].split()[0]
        if name not in run(args, host, ["ibv_devices"]):
            raise Failure(f"host {host}: ibv_devices does not list {name}")
    if len(guids) != 4:
        raise Failure(f"4 devices share GUIDs: {sorted(guids)}")


def no_fabric(args):
    """Without a fabric there is no device, and one line says how to get one."""
    env = environment(args, "0")
    del env["SEXTANT_SOFT_STATE"]
    done = subprocess.run(["ibv_devinfo"], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    if done.stdout.count("sextant soft run -- ") != 1 or "No IB devices found" not in done.stdout:
        raise Failure(f"ibv_devinfo without a fabric, exit {done.returncode}:\n{done.stdout}")


def free_port():
    """A TCP port nobody listened on a moment ago."""
    with socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::", 0))
        return sock.getsockname()[1]


def listens(port):
    """Does anybody listen on the port by now?"""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name, encoding="ascii") as file:
            if any(re.match(rf"\s*\d+: [0-9A-F]+:{port:04X} \S+ 0A ", line) for line in file):
                return True
    return False


def finish(process, deadline):
    """Wait for a child of ours, or stop it."""
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
        return f"exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "no end in time"


def text_of(file):
    """What a child wrote so far."""
    file.seek(0)
    return file.read()


def pair_once(args, command, port):
    """Server and client once; None when the port was taken, else what both printed."""
    deadline = time.monotonic() + TIMEOUT_S
    with tempfile.TemporaryFile("w+") as server_out, tempfile.TemporaryFile("w+") as client_out:
        with subprocess.Popen(command["server"], env=environment(args, "0"), stdout=server_out,
                              stderr=subprocess.STDOUT) as server:
            while server.poll() is None and not listens(port) and time.monotonic() < deadline:
                time.sleep(0.01)
            if server.poll() is not None and PORT_TAKEN.search(text_of(server_out)):
                return None
            with subprocess.Popen(command["client"], env=environment(args, "1"),
                                  stdout=client_out, stderr=subprocess.STDOUT) as client:
                ends = [("client", finish(client, deadline))]
                ends.append(("server", finish(server, deadline if client.returncode == 0
                                              else time.monotonic() + 2)))
        outputs = {"client": text_of(client_out), "server": text_of(server_out)}
    for name, end in ends:
        if end != "exit status 0":
            raise Failure(f"{' '.join(command[name])}: {end}\n--- server\n{outputs['server']}\n"
                          f"--- client\n{outputs['client']}")
    return outputs


def pair(args, case):
    """A program as server on host 0 and as client on host 1."""
    program, arguments, good = PAIRS[case]
    server, client = devices(args, "0")[0], devices(args, "1")[-1]
    gid_flag, port_flag = ("-x", "-p") if program.startswith("ib_") else ("-g", "-p")
    for _ in range(TRIES):
        port = free_port()
        both = arguments + [port_flag, str(port)]
        command = {
            "server": [program, "-d", server[0], gid_flag, server[1]] + both,
            "client": [program, "-d", client[0], gid_flag, client[1]] + both + ["127.0.0.1"],
        }
        outputs = pair_once(args, command, port)
        if outputs is not None:
            break
    else:
        raise Failure(f"no free TCP port in {TRIES} tries")
    for name, text in outputs.items():
        bad = [line for line in text.splitlines()
               if TROUBLE.search(line) and not HARMLESS.search(line)]
        if bad:
            raise Failure(f"{' '.join(command[name])} says {bad}:\n{text}")
    if not re.search(good, outputs["client"]):
        raise Failure(f"{' '.join(command['client'])}: no \"{good}\" in\n{outputs['client']}")


def inside(args):
    """The part that runs under `sextant soft run`."""
    try:
        for case in args.cases:
            if case in ("devinfo", "no_fabric"):
                {"devinfo": devinfo, "no_fabric": no_fabric}[case](args)
            else:
                pair(args, case)
            print(f"{case} by {args.mode}: passed", flush=True)
    except FileNotFoundError as missing:
        print(f"{missing}; apt-get install ibverbs-utils perftest")
        return 1
    except Failure as failure:
        print(f"{case} by {args.mode}: {failure}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sextant", required=True, help="the command")
    parser.add_argument("--library-dir", required=True, help="where our libibverbs.so.1 is")
    parser.add_argument("--preload", required=True, help="the object for LD_PRELOAD")
    parser.add_argument("--runtime", default="", help="a sanitizer's library, to go before all")
    parser.add_argument("--mode", choices=("library", "preload"), required=True)
    parser.add_argument("--inside", action="store_true", help="already under soft run")
    parser.add_argument("cases", nargs="+", choices=sorted(PAIRS) + ["devinfo", "no_fabric"])
    args = parser.parse_args()
    if args.inside:
        return inside(args)
    command = [args.sextant, "soft", "run", "--name", f"clients-{os.getpid()}", "--",
               sys.executable, os.path.abspath(__file__), "--inside"] + sys.argv[1:]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
