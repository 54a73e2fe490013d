#!/usr/bin/env python3
"""What one question of NCCL costs in the tuner with 1,000 rules, held against its bar.

usage: tuner_cost.py DRIVER PLUGIN VERBS

Instructions of the plugin's object and the C library's by callgrind, the call included.
"""
import glob
import os
import subprocess
import sys
import tempfile

import message_cost

BAR = 300
ROWS = (
    message_cost.row("one of 1,000 bands of sizes", "bands", "Ir", None, BAR),
    message_cost.row("the last of 1,000 that overlap", "last", "Ir", None, BAR),
    message_cost.row("a collective without a rule", "none", "Ir", None, BAR),
)


def rules():
    """1,000 of each kind, of NVIDIA's form: what the driver's scenarios ask for."""
    for i in range(1000):
        algo = ("ring", "tree")[i % 2]
        yield f"allreduce,{i * 4096},{(i + 1) * 4096 - 1},{algo},simple,{1 + i % 32},-1,-1"
    for i in range(1000):
        yield f"allgather,0,-1,ring,simple,{1 + i % 32},-1,-1,{i + 1}"


def count(driver, plugin, verbs, folder):
    """{scenario: {Ir: by call}}."""
    path = os.path.join(folder, "rules")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(rules()) + "\n")
    done = subprocess.run(["valgrind", "-q", "--tool=callgrind",
                           f"--callgrind-out-file={folder}/out", driver, plugin],
                          env={**os.environ, "SEXTANT_TUNER_FILE": path,
                               "NCCL_IBVERBS_LIB": os.path.abspath(verbs),
                               "NCCL_SOCKET_IFNAME": "lo"}, text=True, check=True,
                          stdout=subprocess.PIPE)
    calls = {name: int(cnt) for name, cnt in
             (line.split(" cnt=") for line in done.stdout.splitlines())}
    figures = {}
    names = {}
    for part in sorted(glob.glob(f"{folder}/out.*"), key=lambda at: int(at.rsplit(".", 1)[1])):
        scenario, costs = message_cost.read_dump(part, names)
        if scenario in calls:
            own = sum(events["Ir"] for name, events in costs.items() if name is not None
                      and os.path.realpath(name).endswith((os.path.realpath(plugin), "libc.so.6")))
            figures[scenario] = {"Ir": own / calls[scenario]}
    return figures


def main():
    driver, plugin, verbs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        return 0 if message_cost.judge(ROWS, count(driver, plugin, verbs, folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
