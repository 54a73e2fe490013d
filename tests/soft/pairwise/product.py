#!/usr/bin/env python3
"""Every allowed combination of one pattern, a run each: hours, not for every day.

usage: product.py SEXTANT PLUGIN PATTERN
"""
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import pairwise  # noqa: E402 - nothing is written beside it

HERE = pathlib.Path(__file__).resolve().parent


def bench(sextant, plugin, run):
    pattern, processes, ports, qps, abi = run
    name, _, algo = pattern.partition(":")
    command = [sextant, "soft", "run", "--name", f"product_{pattern}", "--fabric",
               HERE / "eight_ports.json", "--", sys.executable, HERE.parent / "no_rnr.py", sextant, "env",
               f"NCCL_IB_QPS_PER_CONNECTION={qps}", sextant, "bench", "--plugin", plugin,
               "--hosts", "2", "--pattern", name, *(["--algo", algo] if algo else []), "--ranks",
               processes, "--ports", ports, "--abi", abi, "-b", "0", "-e", pairwise.USUAL, "-f",
               "128", "-n", "1", "-w", "0"]
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        print(f"{run}: status {done.returncode}\n{done.stdout}", flush=True)
    return done.returncode == 0


def main():
    sextant, plugin, pattern = sys.argv[1:]
    start = time.monotonic()
    results = [bench(sextant, plugin, run) for run in pairwise.all_runs() if run[0] == pattern]
    print(f"{pattern}: {sum(results)} of {len(results)} runs passed in "
          f"{time.monotonic() - start:.0f} s")
    sys.exit(not all(results))


main()
