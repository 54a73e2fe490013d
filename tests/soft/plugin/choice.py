#!/usr/bin/env python3
"""Ports and addresses chosen with no setting: the driver moves data over an example fabric.

usage: choice.py --root SOURCE_FOLDER --sextant FILE --plugin FILE CASE
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

DEADLINE_S = 120

# Another port than NCCL's choice carries a connection, or none does.
MOVED = (r"WARN NIC mlx5_\d, peer \S+:\d+ mlx5_\d: no packet passes between the two NICs that NCCL "
         r"chose \(\S+ -> \S+.*\), so port mlx5_\d here and mlx5_\d there carry the connection")
LOST = [r" ERROR "]
STAYED = [r" ERROR ", r"carry the connection"]

# Of each case: fabric (None: the built-in one), hosts, settings, what each rank's log must have (a
# regular expression a line) and must not have.
CASES = {
    "v1_only": ("v1_only", 2, {}, [
        r"port sxt_mlx\w+: RoCE v1, .* GID index \d+ [\d.]+ \(RoCE v1, IPv4\) by rank",
        r"port mlx\w+: RoCE v1 only, which no router forwards"], []),
    "ipv6_only": ("ipv6_only", 2, {}, [
        r"GID index \d+ fd[0-9a-f:]+ \(RoCE v2, IPv6\) by rank"], [
        r"is left out", r"link-local only"]),
    "sparse_container": ("sparse_container", 2, {}, [
        r"GID index \d+ [\d.]+ \(RoCE v2, IPv4\) by rank"], [r"is left out"]),
    "mixed_mtu": ("mixed_mtu", 2, {}, [r"MTU (4096|1024|2048), GID index"], [r"is left out"]),
    "ib_same_subnet": ("ib_two_subnets", 2, {}, [
        r"InfiniBand, .* GID index 1 fe80:0:90\d:1:\S+ routable"], [
        r"no routable LID"]),
    "ib_two_subnets": ("ib_two_subnets", 3, {}, [
        r"InfiniBand, .* GID index 1 fe80:0:90\d:[12]:\S+ routable"], [
        r"no routable LID"]),
    "range_outside": ("sparse_container", 2, {"NCCL_IB_ADDR_RANGE": "203.0.113.0/24"}, [
        r"is left out: no GID in range: NCCL_IB_ADDR_RANGE=203.0.113.0/24 matches none of \d+ "],
        None),
    "moving_gids": (None, 2, {}, [
        r"GID index [03] 10\.\d+\.1\.[12] \(RoCE v2, IPv4\) by rank",
        # Between its 14 sizes the driver connects anew.
        r"(?s)(port mlx5_0: GID moved from index [03] to [03] \(same address 10\.0\.1\..*){13}"], [
        r"(?s)(GID moved.*){14}", r"is left out", r"its address was"]),
    "renamed_gids": (None, 2, {}, [
        r"WARN port mlx5_0: its address was 10\.0\.1\.[12] \(RoCE v2\), new connections use GID "
        r"index 3 10\.9\.9\.1[01] \(RoCE v2\)"], [
        r"(?s)(its address was.*){2}", r"is left out", r"GID moved", r" ERROR "]),
    "failed_hca": (None, 2, {}, [r"\), so port mlx5_\d here and mlx5_\d there carry the connection"], [
        r" ERROR (?!HCA mlx5_0 failed)"]),
    "triangle": ("triangle", 3, {}, [MOVED], LOST),
    "dropping_port": ("dropping_port", 2, {}, [MOVED, r"INFO connect to .* no packet passes from"],
                      LOST),
    "rail_only": ("rail_only", 2, {}, [], STAYED),
    "rails_crossed": ("rail_only", 2, {}, [MOVED], LOST),
    "rails_merged": ("rail_only", 2, {}, [r"merges mlx5_0 "], STAYED),
    "four_by_three": ("four_by_three", 2, {}, [], STAYED),
    "four_by_three_crossed": ("four_by_three", 2, {}, [], STAYED),
    "four_by_three_merged": ("four_by_three", 2, {}, [r"merges mlx5_0 "], STAYED),
}

# What differs from a rank per host on one port each; more ranks take further ports.
BENCH = {
    "moving_gids": ["--reconnect=for host in a b; do {sextant} soft set $host/mlx5_0:1 gid=3 to=0 "
                    ">/dev/null || exit; done"],
    "renamed_gids": ["--reconnect=for host in a b; do {sextant} soft set $host/mlx5_0:1 gid=3 "
                     "to=::ffff:a09:90$host >/dev/null || exit; done"],
    "failed_hca": ["--reconnect={sextant} soft set a/mlx5_0:1 event=DEVICE_FATAL >/dev/null"],
    "rails_crossed": ["--ranks", "8", "--pattern", "alltoall"],
    "rails_merged": ["--ports", "4"],
    "four_by_three_crossed": ["--ranks", "8", "--pattern", "alltoall"],
    "four_by_three_merged": ["--ports", "4"],
}


class Stage:
    """Runs the driver on a fabric and keeps what its ranks log."""

    def __init__(self, args, folder):
        self.args = args
        self.folder = pathlib.Path(folder)
        self.name = f"choice-{os.getpid()}"
        self.environ = {key: value for key, value in os.environ.items()
                        if not key.startswith(("SEXTANT_", "NCCL_"))}
        self.environ["NCCL_SOCKET_IFNAME"] = "lo"
        self.environ["SEXTANT_LOG_FILE"] = str(self.folder / "log.%p")

    def command(self, fabric, hosts, more):
        file = self.args.root / "examples/fabrics" / f"{fabric}.json"
        named = ["--fabric", str(file)] if fabric is not None else []
        return [self.args.sextant, "soft", "run", "--name", self.name, *named, "--",
                self.args.sextant, "bench", "--plugin", self.args.plugin, "--ranks", str(hosts),
                "--hosts", str(hosts), "--pattern", "sendrecv", "-e", "64K",
                *(option.format(sextant=self.args.sextant) for option in more)]

    def run(self, command, settings):
        process = subprocess.Popen(command, env={**self.environ, **settings}, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            text, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            raise AssertionError(f"it hangs; so far:\n{text}") from None
        return process.returncode, text

    def logs(self):
        return [path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("log.*"))]


def play(stage, case):
    fabric, hosts, settings, wanted, unwanted = CASES[case]
    status, text = stage.run(stage.command(fabric, hosts, BENCH.get(case, [])), settings)
    works = unwanted is not None
    logs = [log for log in stage.logs() if "port " in log]
    if (status == 0 and "0 wrong" in text) != works:
        raise AssertionError(f"exit status {status}\n{text}\n" + "\n".join(logs))
    if not logs:
        raise AssertionError("no rank has a log")
    for log in logs:
        for line in wanted:
            if re.search(line, log) is None:
                raise AssertionError(f"nothing logged like {line}:\n{log}")
        for line in unwanted or []:
            if re.search(line, log) is not None:
                raise AssertionError(f"logged like {line}:\n{log}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("case", choices=CASES)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            play(Stage(args, folder), args.case)
        except AssertionError as problem:
            print(f"{args.case}: {problem}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
