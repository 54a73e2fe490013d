#!/usr/bin/env python3
"""What a call of the tuner's sxt_choose() costs in instructions, held against its bar.

usage: choose_cost.py DRIVER [BAR]

The bar is 300, with 1,000 rules, whatever they are. Calls of one scenario are all alike, so their
mean is also their worst.
"""
import os
import subprocess
import sys
import tempfile

BAR = 300


def instructions(driver, scenario, folder):
    """Of one call, and what the driver says that was chosen."""
    out = os.path.join(folder, scenario)
    done = subprocess.run(
        ["valgrind", "-q", "--tool=callgrind", "--toggle-collect=sxt_choose",
         f"--callgrind-out-file={out}", driver, scenario],
        stdout=subprocess.PIPE, text=True, check=True)
    calls, source, line = map(int, done.stdout.split())
    with open(out, encoding="utf-8") as dump:
        total = next(int(row.split()[1]) for row in dump if row.startswith("totals:"))
    return total / calls, source, line


def main():
    driver = sys.argv[1]
    bar = int(sys.argv[2]) if len(sys.argv) > 2 else BAR
    names = subprocess.run([driver], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    above = False
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            cost, source, line = instructions(driver, name, folder)
            if cost < 1:
                sys.exit(f"{name}: nothing was counted; was sxt_choose() inlined?")
            above |= cost > bar
            print(f"{name:32} {cost:6.0f} instructions, source {source}, line {line}"
                  f"{f': more than {bar}' if cost > bar else ''}")
    sys.exit(above)


if __name__ == "__main__":
    main()
