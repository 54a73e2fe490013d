#!/usr/bin/env python3
"""What `sextant top` shows while `sextant bench` runs is what bench then reports, within 5 %.

A snapshot is taken whenever bench has printed a size's row, so that both measure the same time:
from one row to the next the processes did what the second row tells.

usage: test_rate.py SEXTANT
"""
import json
import os
import re
import subprocess
import sys
import tempfile

RANKS = 2
TOLERANCE = 0.05
ROW = re.compile(r"^ +(\d+) +\d+ +\w+ +\w+ +([\d.]+) ")


def top(sextant, before, after):
    out = subprocess.run([sextant, "top", "--json", "--snapshot", after, "--since", before],
                         stdout=subprocess.PIPE, timeout=60, check=True).stdout
    rates = [(process["out"]["now_gb_per_s"], process["in"]["now_gb_per_s"])
             for process in json.loads(out)["processes"] if process["state"] == "live"]
    if len(rates) != RANKS:
        sys.exit(f"failed: {len(rates)} processes: {rates}")
    return rates


def main():
    sextant = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        # What other tests killed is reaped first: a snapshot of it would take longer than a row.
        env = os.environ | {"SEXTANT_TELEMETRY_KEEP": "0"}
        bench = subprocess.Popen(
            ["stdbuf", "-oL", sextant, "soft", "run", "--", sextant, "bench", "--ranks",
             str(RANKS), "--hosts", "2", "--pattern", "sendrecv", "-b", "1M", "-e", "4M", "-f",
             "2", "-n", "1500", "-w", "1", "-c", "0"],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        reported = []
        for line in bench.stdout:
            row = ROW.match(line)
            # The last one is printed when the processes may be gone already.
            if row and len(reported) < 2:
                subprocess.run([sextant, "snapshot", f"{folder}/{len(reported)}"], check=True,
                               stdout=subprocess.DEVNULL, timeout=60)
                reported.append(int(row.group(1)) / float(row.group(2)) / 1e3)
        if bench.wait() != 0 or len(reported) != 2:
            sys.exit(f"failed: bench ended with {bench.returncode}, rows {reported}")
        shown = top(sextant, f"{folder}/0", f"{folder}/1")
    print(f"bench reports {reported[1]:.4f} GB/s, top shows {shown}")
    for way in (0, 1):
        mean = sum(rates[way] for rates in shown) / RANKS
        if abs(mean - reported[1]) > TOLERANCE * reported[1]:
            sys.exit(f"failed: {mean:.3f} GB/s shown, {reported[1]:.3f} reported")


main()
