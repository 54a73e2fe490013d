#!/usr/bin/env python3
"""`sextant doctor` on damaged and odd trees: bounded, told, never a crash."""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

import trees

JUNK = bytes(range(256)) * 64


def run(sextant, root, *arguments):
    return subprocess.run([sextant, "doctor", "--root", root, *arguments], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


def expect(name, done, statuses=(0, 1, 2)):
    if done.returncode not in statuses:
        sys.exit(f"{name}: exit {done.returncode}, {done.stderr.decode(errors='replace')}")
    if any(byte > 126 or (byte < 32 and byte != 10) for byte in done.stdout):
        sys.exit(f"{name}: bytes that are no text in the report")


def with_tree(sextant, name, tree, statuses=(0, 1, 2)):
    with tempfile.TemporaryDirectory() as root:
        tree.write(root)
        expect(name, run(sextant, root), statuses)
        expect(name, run(sextant, root, "--json"), statuses)
        expect(name, run(sextant, root, "--since", root), statuses)


def every_file(sextant):
    """Each file of a node in turn, and all of them, replaced by something that is wrong."""
    wrong = {"empty": b"", "junk": JUNK, "zeros": bytes(4096), "number": b"18446744073709551616\n",
             "negative": b"-1\n", "folder": trees.Folder(), "loop": trees.Link("loop")}
    for kind, content in wrong.items():
        tree = trees.roce()
        for path in tree.files:
            tree.put(path, trees.Link(os.path.basename(path)) if kind == "loop" else content)
        with_tree(sextant, f"all {kind}", tree)
    rng = random.Random(4)
    names = sorted(trees.roce().files)
    for number in range(60):
        tree = trees.roce()
        for path in rng.sample(names, 5):
            kind = rng.choice(("empty", "junk", "zeros", "number", "negative", "folder"))
            tree.put(path, wrong[kind])
        with_tree(sextant, f"sample {number}", tree)


def nothing(sextant):
    with tempfile.TemporaryDirectory() as root:
        expect("nothing", run(sextant, root), (2,))
    done = run(sextant, "/nonexistent")
    assert done.returncode == 69 and b"/nonexistent" in done.stderr, done
    assert run(sextant, "/proc/self/status").returncode == 69


def huge_files(sextant):
    """Files of 4 GiB where a number or a list of settings should be."""
    tree = trees.roce()
    with tempfile.TemporaryDirectory() as root:
        tree.write(root)
        for path in ("/proc/self/environ", "/etc/nccl.conf", "/etc/ld.so.cache",
                     "/sys/class/infiniband/mlx5_0/ports/1/state",
                     "/opt/sextant/lib/libnccl-net-sextant.so"):
            with open(root + path, "ab") as file:
                file.truncate(4 << 30)
        expect("huge", run(sextant, root))


def pipes(sextant):
    """A pipe in the place of a file would block whoever opens it."""
    with tempfile.TemporaryDirectory() as root:
        trees.roce().write(root)
        for path in ("/proc/self/limits", "/sys/class/infiniband/mlx5_0/ports/1/state",
                     "/opt/sextant/lib/libnccl-net-sextant.so"):
            os.unlink(root + path)
            os.mkfifo(root + path)
        expect("pipes", run(sextant, root))


def odd_names(sextant):
    tree = trees.roce()
    for name in ("mlx5 0", "mlx5%s%n", "\x1b[31mred", "x" * 200, "..data", "mlx5_0:1,^="):
        trees.add_port(tree, name)
    tree.env(NCCL_IB_HCA="%s%n,\x1b[31m,=^:::::" + "," * 500)
    tree.put("/etc/nccl.conf", "\x01=\x02\n=\n==\n" + "NCCL_A=1\n" * 5000 + "N" * 70000)
    with_tree(sextant, "odd names", tree)


def two_hundred_ports(sextant):
    """A hundred devices of two ports, each with a thousand GIDs in one table: still quick."""
    tree = trees.system()
    for number in range(100):
        name = f"mlx5_{number}"
        for port in (1, 2):
            trees.add_port(tree, name, roce=number % 2 == 0, number=port)
        trees.add_verbs(tree, name, number)
    for index in range(1000):
        trees.gid(tree, "/sys/class/infiniband/mlx5_0/ports/1", index,
                  "0000:0000:0000:0000:0000:0000:0000:0000")
    with tempfile.TemporaryDirectory() as root:
        tree.write(root)
        begin = time.monotonic()
        done = run(sextant, root)
        seconds = time.monotonic() - begin
        expect("200 ports", done)
    assert b"100 RDMA devices, 200 ports" in done.stdout, done.stdout[:200]
    print(f"200 ports: {seconds:.2f} s")


def watched(sextant):
    """--watch waits, then finds that a tree nobody changes stands still."""
    with tempfile.TemporaryDirectory() as root:
        trees.roce().write(root)
        done = run(sextant, root, "--watch", "1")
        assert done.returncode == 0 and b"no counter grew in 1 s" in done.stdout, done.stdout
        for bad in ("0", "-1", "1s", "", "99999999999999999999"):
            assert run(sextant, root, "--watch", bad).returncode == 64, bad


CASES = {case.__name__: case for case in (every_file, nothing, huge_files, pipes, odd_names,
                                          two_hundred_ports, watched)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("case", choices=CASES)
    args = parser.parse_args()
    CASES[args.case](args.sextant)


if __name__ == "__main__":
    main()
