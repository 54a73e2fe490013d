#!/usr/bin/env python3
"""What goes wrong around the plugin, as a user meets it through `sextant bench`: one case each.

usage: faults.py --sextant FILE --plugin FILE CASE
"""
import argparse
import ctypes
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 100
OK, WRONG, FAILED, MISSING = 0, 1, 2, 69
PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14  # linux/prctl.h, linux/capability.h


class Stage:
    """Runs the driver on fabrics of its own."""

    def __init__(self, args, folder):
        self.sextant = args.sextant
        self.plugin = args.plugin
        self.folder = pathlib.Path(folder)
        self.name = f"faults-{os.getpid()}"
        self.environ = {key: value for key, value in os.environ.items()
                        if not key.startswith(("SEXTANT_", "NCCL_"))}
        self.environ["NCCL_SOCKET_IFNAME"] = "lo"

    def bench(self, *options):
        return [self.sextant, "bench", "--plugin", self.plugin, "--ranks", "2", "--hosts", "2",
                "--pattern", "sendrecv", *options]

    def soft(self, fabric, *command, host=None):
        options = ["--name", self.name]
        if host is not None:
            options += ["--host", host]
        if fabric is not None:
            path = self.folder / "fabric.json"
            path.write_text(json.dumps(fabric), encoding="utf-8")
            options += ["--fabric", str(path)]
        return [self.sextant, "soft", "run", *options, "--", *command]

    def start(self, command, prepare=None, **environ):
        return subprocess.Popen(command, env={**self.environ, **environ}, text=True,
                                preexec_fn=prepare,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                start_new_session=True)

    def finish(self, process):
        try:
            text, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            raise AssertionError(f"it hangs; so far:\n{text}") from None
        return process.returncode, text

    def run(self, command, prepare=None, **environ):
        return self.finish(self.start(command, prepare, **environ))


def expect(got, status, *words):
    """The exit status and words that must stand in what was printed."""
    returncode, text = got
    assert returncode == status, f"exit status {returncode}, expected {status}:\n{text}"
    for word in words:
        assert word in text, f"no '{word}' in:\n{text}"


def two_hosts(hca):
    return {"version": 1, "hosts": [{"name": "a", "hcas": [hca]}, {"name": "b", "hcas": [hca]}]}


def no_library(stage):
    """No libibverbs at all."""
    got = stage.run(stage.bench(), NCCL_IBVERBS_LIB="libnone.so.7")
    expect(got, MISSING, "libnone.so.7", "install")


def no_device(stage):
    """A machine without RDMA."""
    fabric = {"version": 1, "hosts": [{"name": "a", "hcas": []}, {"name": "b", "hcas": []}]}
    expect(stage.run(stage.soft(fabric, *stage.bench())), MISSING, "HCA")


def ports_down(stage):
    """Every port is down, and each is named with its state."""
    fabric = two_hosts({"ports": [{"state": "down"}, {"state": "down"}]})
    got = stage.run(stage.soft(fabric, *stage.bench()))
    expect(got, MISSING, "mlx5_0", "mlx5_0:2", "DOWN")


def no_subnet_manager(stage):
    """An InfiniBand port that no subnet manager has configured."""
    fabric = two_hosts({"ports": [{"link_layer": "infiniband", "state": "init"}]})
    got = stage.run(stage.soft(fabric, *stage.bench()))
    expect(got, MISSING, "mlx5_0", "INIT", "subnet manager")


def infiniband(stage):
    """Plain InfiniBand, by LID."""
    fabric = two_hosts({"ports": [{"link_layer": "infiniband", "speed": "HDR"}]})
    expect(stage.run(stage.soft(fabric, *stage.bench("-e", "1M", "-f", "16"))), OK, "0 wrong")


def unlike_mtu(stage):
    """Two ports with different MTUs meet at the smaller one, and it is told."""
    fabric = two_hosts({"ports": [{"mtu": 1024}]})
    fabric["hosts"][1]["hcas"][0] = {"ports": [{"mtu": 4096}]}
    expect(stage.run(stage.soft(fabric, *stage.bench("-e", "1M", "-f", "16"))), OK, "0 wrong",
           "connections between them use 1024")


def unlike_link_layers(stage):
    """RoCE on one side, InfiniBand on the other: told, not tried."""
    fabric = two_hosts({})
    fabric["hosts"][1]["hcas"][0] = {"ports": [{"link_layer": "infiniband"}]}
    expect(stage.run(stage.soft(fabric, *stage.bench())), FAILED, "RoCE", "InfiniBand")


def unlike_settings(stage):
    """Two hosts set differently: each end names each difference once, and the data move."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(free.getsockname()[1])}
    command = [stage.sextant, "bench", "--plugin", stage.plugin, "--pattern", "sendrecv", "-e",
               "64K", "--debug", "INFO"]
    ends = [stage.start(stage.soft(None, *command, host=host), RANK=rank, **meeting, **settings)
            for host, rank, settings in (
                ("a", "0", {"NCCL_IB_SL": "3", "NCCL_IB_TIMEOUT": "18"}),
                ("b", "1", {"NCCL_IB_TC": "106"}))]
    unset = "the communicator's"
    for got, differences in zip([stage.finish(end) for end in ends], (
            ("NCCL_IB_SL differs: 3 here (", f"NCCL_IB_TC differs: {unset} here (",
             "NCCL_IB_TIMEOUT differs: 18 here ("),
            ("NCCL_IB_SL differs: 0 here (", "NCCL_IB_TC differs: 106 here (",
             "NCCL_IB_TIMEOUT differs: 20 here ("))):
        expect(got, OK)
        lines = [line for line in got[1].splitlines() if " differs: " in line]
        assert len(lines) == len(differences), got[1]
        for line, difference in zip(lines, differences):
            assert difference in line and " there (" in line, line
            assert "set it alike on all hosts" in line, line


def no_ipv4_address(stage):
    """No RoCE v2 IPv4 address anywhere: index 0, and a warning."""
    fabric = two_hosts({})
    for number, host in enumerate(fabric["hosts"]):
        host["hcas"] = [{"ports": [{"gids": [{"gid": f"fe80::{number + 1}"}]}]}]
    expect(stage.run(stage.soft(fabric, *stage.bench("-e", "1K"))), OK, "GID", "0 wrong")


def may_pin_all():
    """Does a program that this one starts have CAP_IPC_LOCK?"""
    with open("/proc/self/status", encoding="ascii") as lines:
        sets = dict(line.split(":", 1) for line in lines)
    return bool(int(sets["CapEff"], 16) >> CAP_IPC_LOCK & 1)


def limit_pinning():
    """Before a program starts: 16 KiB, and no CAP_IPC_LOCK that would lift it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if may_pin_all() and libc.prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "dropping CAP_IPC_LOCK")
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (16384, 16384))


def registration_fails(stage):
    """A registration refused for want of memory names the limit, if there is one."""
    fabric = two_hosts({})
    fabric["faults"] = [{"target": f"{host}/mlx5_0", "reg_error": "ENOMEM", "count": 100}
                        for host in "ab"]
    bench = stage.soft(fabric, *stage.bench())
    expect(stage.run(bench, limit_pinning), FAILED, "may pin 16 KiB (ulimit -l) and has pinned",
           "LimitMEMLOCK", "or add CAP_IPC_LOCK")
    if may_pin_all():
        expect(stage.run(bench), FAILED, "may pin memory without limit by CAP_IPC_LOCK",
               "so memory or a resource of the HCA is used up")


def bad_setting(stage):
    """A bad value is told and the default used."""
    got = stage.run(stage.soft(None, *stage.bench("-e", "1K")), NCCL_IB_RETRY_CNT="15")
    expect(got, OK, "NCCL_IB_RETRY_CNT=15", "0..7", "0 wrong")


def no_matching_interface(stage):
    """No interface for the side channel: those there are, are listed."""
    got = stage.run(stage.soft(None, *stage.bench()), NCCL_SOCKET_IFNAME="=nonesuch0")
    expect(got, FAILED, "nonesuch0", "lo")


def no_matching_hca(stage):
    """NCCL_IB_HCA leaves nothing."""
    got = stage.run(stage.soft(None, *stage.bench()), NCCL_IB_HCA="=mlxl5_0")
    expect(got, MISSING, "NCCL_IB_HCA", "mlx5_0")


def long_run(stage, **environ):
    """A run that ends only when something is done to it; returns once it moves data."""
    command = stage.soft(None, *stage.bench("-b", "64K", "-e", "64K", "-n", "100000000",
                                            "--timeout", "80", "--json"))
    process = stage.start(command, **environ)
    deadline = time.monotonic() + DEADLINE_S
    while traffic(stage) < 4 << 20:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "no data moves"
        time.sleep(0.05)
    return process


def show(stage):
    states = pathlib.Path(f"/dev/shm/sextant-soft-{os.geteuid()}").glob(f"*-{stage.name}")
    for state in states:
        done = subprocess.run([stage.sextant, "soft", "show", "--json", "--state", state],
                              env=stage.environ, capture_output=True, text=True, check=False,
                              timeout=DEADLINE_S)
        if done.returncode == OK:
            return json.loads(done.stdout)
    return None


def numbers(tree, key):
    """Every value of a key, anywhere below."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name == key:
                yield value
            yield from numbers(value, key)
    elif isinstance(tree, list):
        for item in tree:
            yield from numbers(item, key)


def traffic(stage):
    return sum(numbers(show(stage) or {}, "xmit_bytes"))


def soft_set(stage, *words):
    state = next(pathlib.Path(f"/dev/shm/sextant-soft-{os.geteuid()}").glob(f"*-{stage.name}"))
    subprocess.run([stage.sextant, "soft", "set", "--state", state, *words], env=stage.environ,
                   check=True, timeout=DEADLINE_S)


def killed_peer(stage):
    """kill -9 of one rank: the other ends with an error that says so."""
    process = long_run(stage)
    soft_set(stage, "b", "kill")
    expect(stage.finish(process), FAILED, "rank 1")


def completion_error(stage):
    """A completion error names its status and the one hint that fits."""
    process = long_run(stage)
    soft_set(stage, "a/mlx5_0:1", "wc-error=REM_OP_ERR")
    expect(stage.finish(process), FAILED, "remote operation error", "mlx5_0", "peer")


def port_goes_down(stage):
    """A port that stays down: the retries run out and the port is named."""
    process = long_run(stage, NCCL_IB_TIMEOUT="14", NCCL_IB_RETRY_CNT="3")
    soft_set(stage, "a/mlx5_0:1", "state=down")
    expect(stage.finish(process), FAILED, "mlx5_0", "retry")


def port_flaps(stage):
    """A port that comes back within the retries: the job goes on."""
    process = long_run(stage)
    for _ in range(3):
        soft_set(stage, "a/mlx5_0:1", "state=down")
        time.sleep(0.1)
        before = traffic(stage)
        soft_set(stage, "a/mlx5_0:1", "state=active")
        deadline = time.monotonic() + DEADLINE_S
        while traffic(stage) < before + (1 << 20):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "no data moves after the port came back"
            time.sleep(0.05)
    soft_set(stage, "b", "kill")
    expect(stage.finish(process), FAILED, "rank 1")


CASES = [no_library, no_device, ports_down, no_subnet_manager, infiniband, unlike_mtu,
         unlike_link_layers, unlike_settings, no_ipv4_address, registration_fails, bad_setting,
         no_matching_interface, no_matching_hca, killed_peer, completion_error, port_goes_down,
         port_flaps]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("case", choices=[case.__name__ for case in CASES])
    args = parser.parse_args()
    case = next(case for case in CASES if case.__name__ == args.case)
    with tempfile.TemporaryDirectory() as folder:
        try:
            case(Stage(args, folder))
        except AssertionError as problem:
            print(f"{case.__name__}: {problem}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
