"""`sextant bench` on our own plugin over the software HCA, with the data checked.

Usage: test_soft.py SEXTANT PLUGIN ABI: the three patterns, 2 and 4 ranks on 2 hosts, 0 B to 16 MiB.
       test_soft.py SEXTANT PLUGIN once: the tables of every other version, each driven once.
"""
import os
import subprocess
import sys

SEXTANT, PLUGIN, WHAT = sys.argv[1:4]
PATTERNS = ("sendrecv", "all_reduce", "ll")


def check(abi, pattern, ranks, *sizes):
    fabric = f"bench_{os.getpid()}"
    done = subprocess.run([SEXTANT, "soft", "run", "--name", fabric, "--", SEXTANT, "bench",
                           "--plugin", PLUGIN, "--abi", str(abi), "--pattern", pattern,
                           "--ranks", str(ranks), "--hosts", "2", "-n", "2", *sizes],
                          capture_output=True, text=True, timeout=200)
    if done.returncode != 0 or "# OK: 0 wrong" not in done.stdout:
        sys.exit(f"v{abi} {pattern} {ranks} ranks: status {done.returncode}\n"
                 f"{done.stdout}\n{done.stderr}")


if WHAT == "once":
    for number, version in enumerate((6, 7, 9, 10, 11)):
        check(version, PATTERNS[number % 3], 2, "-b", "0", "-e", "1M", "-f", "64")
else:
    for name in PATTERNS:
        for count in (2, 4):
            check(WHAT, name, count, "-b", "0", "-e", "16M", "-f", "8")
