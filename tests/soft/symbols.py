#!/usr/bin/env python3
"""Exported symbols of the software HCA against the checked-in list, and against what programs need.

Compares `nm -D` of both objects with ib/soft/symbols.list, then plants differences into the list
and expects each to be told. With --needed it resolves, with every relocation bound, the programs
and libraries that import from libibverbs, and runs those that only print their usage.
"""

import argparse
import os
import re
import subprocess
import sys

PROGRAMS = [
    "ibv_devinfo", "ibv_devices", "ibv_asyncwatch", "ibv_rc_pingpong", "ibv_srq_pingpong",
    "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_xsrq_pingpong", "ib_write_bw", "ib_write_lat",
    "ib_read_bw", "ib_read_lat", "ib_send_bw", "ib_send_lat", "ib_atomic_bw", "ib_atomic_lat",
    "rping", "ucmatose", "udaddy",
]
LIBRARIES = ["librdmacm.so.1", "libmlx5.so.1", "libmlx4.so.1", "libefa.so.1"]
REQUIRED = {"ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "ib_atomic_bw", "librdmacm.so.1",
            "libmlx5.so.1", "libefa.so.1"}


def expected(rows, preload):
    """The symbols nm must show for a list, as name@NODE or name@@NODE, nodes included."""
    numbers = [row[1] for row in rows if row[0] == "private-number"]
    names = set()
    for row in rows:
        if row[0] == "private-number":
            continue
        node, kind, name = row
        if node != "private":
            names.add(node)
            names.add(f"{name}{'@' if kind.startswith('old') else '@@'}{node}")
            continue
        for number in numbers:
            private = f"IBVERBS_PRIVATE_{number}"
            names.add(private)
            if preload and kind != "api":
                continue
            default = number == numbers[0] or "@" in name
            names.add(f"{name.replace('@', number)}{'@@' if default else '@'}{private}")
    return names


def read_list(path):
    """Rows of the list, comments left out."""
    with open(path, encoding="ascii") as file:
        rows = [line.split() for line in file]
    return [row for row in rows if row and not row[0].startswith("#")]


def exported(path):
    """What the object exports, as nm prints it."""
    text = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", path],
                          check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in text.splitlines()}


def compare(rows, path, preload):
    """Differences, one line each."""
    want = expected(rows, preload)
    have = exported(path)
    return ([f"{path}: lacks {name}, which the list has" for name in sorted(want - have)] +
            [f"{path}: exports {name}, which the list has not" for name in sorted(have - want)])


def planted(rows):
    """Lists that are wrong in one place each."""
    yield "a row too many", rows + [["IBVERBS_1.1", "api", "ibv_planted"]]
    yield "a row too few", [row for row in rows if row[-1] != "ibv_query_gid_type"]
    yield "another node", [["IBVERBS_1.14"] + row[1:] if row[-1] == "ibv_reg_mr" else row
                           for row in rows]
    yield "a node too many", rows + [["private-number", "99"]]


def find(name):
    """Path of a program or library of this machine, or None."""
    if ".so" not in name:
        for folder in os.environ.get("PATH", "").split(":") + ["/usr/bin"]:
            if os.access(os.path.join(folder, name), os.X_OK):
                return os.path.join(folder, name)
        return None
    cache = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True,
                           text=True).stdout
    match = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)$", cache, re.MULTILINE)
    return match.group(1) if match else None


def check_needed(full):
    """Everything installed that imports from libibverbs resolves against ours."""
    errors = []
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(full), LD_BIND_NOW="1", LC_ALL="C")
    env.pop("LD_PRELOAD", None)
    env.pop("SEXTANT_SOFT_STATE", None)
    for name in PROGRAMS + LIBRARIES:
        path = find(name)
        if path is None:
            if name in REQUIRED:
                errors.append(f"{name}: not installed; apt-get install ibverbs-utils perftest")
            continue
        ldd = subprocess.run(["ldd", "-r", path], env=env, capture_output=True, text=True,
                             check=False)
        text = ldd.stdout + ldd.stderr
        if full not in text:
            errors.append(f"{name}: is not served by {full}")
        errors += [f"{name}: {line.strip()}" for line in text.splitlines()
                   if re.search("undefined symbol|not found|symbol lookup", line)]
        if ".so" in name or name == "ibv_devices":
            continue
        run = subprocess.run([path, "--help"], env=env, capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=60, check=False)
        text = run.stdout + run.stderr
        if run.returncode < 0 or run.returncode == 127 or "symbol" in text:
            errors.append(f"{name} --help: exit {run.returncode}: {text.strip()[-300:]}")
    return errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", required=True)
    parser.add_argument("--full", required=True)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--needed", action="store_true",
                        help="also resolve and start the programs that import from libibverbs")
    args = parser.parse_args()
    rows = read_list(args.list)
    errors = compare(rows, args.full, False) + compare(rows, args.preload, True)
    for what, wrong in planted(rows):
        for path, preload in ((args.full, False), (args.preload, True)):
            if not compare(wrong, path, preload):
                errors.append(f"{path}: {what} in the list went unseen")
    if args.needed:
        errors += check_needed(os.path.abspath(args.full))
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
