#!/usr/bin/env python3
"""`sextant doctor collect`: the archive says what the machine said; blanked, it tells no names."""
import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile

import cases
import trees

SECRETS = (b"10.1.1.5", b"0a01:0105", b"0a01:0005", b"0202:c9ff:fe00:0001", b"alice", b"0000010A",
           b"b8ce:f603")


class Collector:
    def __init__(self, sextant):
        self.sextant = sextant

    def run(self, *arguments, status=None):
        done = subprocess.run([self.sextant, "doctor", *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        if status is not None and done.returncode != status:
            sys.exit(f"{arguments}: exit {done.returncode}, {done.stderr.decode()}")
        return done

    def findings(self, root):
        return json.loads(self.run("--root", root, "--json").stdout)["findings"]

    def collect(self, root, folder, *arguments):
        """Returns the unpacked tree."""
        archive = os.path.join(folder, "tree.tar.gz")
        self.run("collect", "--root", root, "--out", archive, *arguments, status=0)
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                assert member.name.startswith("sextant-doctor/"), member.name
                assert ".." not in member.name.split("/"), member.name
            tar.extractall(folder)
        return os.path.join(folder, "sextant-doctor")


def alike(row):
    """What must survive blanking: everything but the text that holds addresses."""
    return row["id"], row["severity"], "" if row["theme"] == "network" else row["object"]


def personal(tree):
    """A user's home, a GUID, settings with addresses, and secrets that are none of our business."""
    tree.env(HOME="/export/alice", LD_LIBRARY_PATH="/export/alice/lib:/opt/sextant/lib",
             NCCL_IB_ADDR_RANGE="10.1.0.0/16", AWS_SECRET_ACCESS_KEY="swordfish")
    tree.put("/export/alice/.nccl.conf", "NCCL_DEBUG=INFO\nNCCL_COMM_ID=10.1.1.5:1234\n")
    tree.put("/sys/class/infiniband/mlx5_0/node_guid", "b8ce:f603:00a4:0002\n")
    cases.same_subnet(tree)


def check_tree(collector, name, tree, blank):
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as out:
        tree.write(root)
        before = collector.findings(root)
        copy = collector.collect(root, out, *(["--blank"] if blank else []))
        after = collector.findings(copy)
        if not blank and before != after:
            sys.exit(f"{name}: {before}\nbecame {after}")
        if sorted(map(alike, before)) != sorted(map(alike, after)):
            sys.exit(f"{name}, blanked: {before}\nbecame {after}")
        return [(path, read(path)) for path in files_below(copy)]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def files_below(folder):
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def check_blanked(collector):
    tree = trees.roce()
    personal(tree)
    plain = check_tree(collector, "personal", tree, blank=False)
    for secret in SECRETS:
        assert any(secret in content for _, content in plain), secret
    assert not any(b"swordfish" in content for _, content in plain)
    for path, content in check_tree(collector, "personal", tree, blank=True):
        for secret in SECRETS:
            if secret in content or secret.decode() in path:
                sys.exit(f"{path} tells {secret}")


def check_refusals(collector):
    with tempfile.TemporaryDirectory() as out:
        taken = os.path.join(out, "taken")
        with open(taken, "w", encoding="utf-8") as file:
            file.write("mine")
        done = collector.run("collect", "--out", taken, status=2)
        assert b"exists" in done.stderr, done.stderr
        assert read(taken) == b"mine"
        collector.run("collect", "--out", os.path.join(out, "none", "file"), status=2)
        collector.run("collect", "file", status=64)
        done = collector.run("collect", "--out", "-", status=0)
        with open(os.path.join(out, "piped"), "wb") as file:
            file.write(done.stdout)
        with tarfile.open(os.path.join(out, "piped")) as tar:
            assert "sextant-doctor/proc/self/limits" in tar.getnames()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sextant", required=True)
    collector = Collector(parser.parse_args().sextant)
    for node in (trees.roce, trees.infiniband, trees.bnxt, trees.rxe, trees.container):
        for blank in (False, True):
            check_tree(collector, node.__name__, node(), blank)
    for name, node, change, _, _ in cases.CASES[::5]:
        tree = node()
        change(tree)
        check_tree(collector, name, tree, blank=False)
    check_blanked(collector)
    check_refusals(collector)


if __name__ == "__main__":
    main()
