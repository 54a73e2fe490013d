#!/usr/bin/env python3
"""The example fabrics load, README.md tells of each, and ibv_devinfo shows what they describe.

usage: examples.py --root SOURCE_FOLDER --sextant FILE
"""
import argparse
import importlib
import ipaddress
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

DEADLINE_S = 60
SHOWN = re.compile(r"GID\[ *(\d+)\]:\s+([0-9a-f:.]+)(?:, RoCE (v[12]))?")
TYPES = {"ib": "", "roce_v1": "v1", "roce_v2": "v2"}

# Hosts and HCAs of each that work together, as HOST HCA, by file; checked against `network`.
REACH = {
    "triangle": ["a0 b0", "a1 c0", "b1 c1"],
    "rail_only": [f"a{i} b{i}" for i in range(4)],
    "four_by_three": [f"a{i} b{k}" for i in range(4) for k in range(3)],
    "v1_only": ["a0 b0"],
    "ipv6_only": [f"a{i} b{k}" for i in range(2) for k in range(2)],
    "sparse_container": [f"a{i} b{k}" for i in range(2) for k in range(2)],
    "mixed_mtu": [f"a{i} b{k}" for i in range(2) for k in range(2)],
    "ib_two_subnets": ["a0 b0", "a0 c0", "b0 c0"],
    "dropping_port": ["a1 b0", "a1 b1"],
}


class Examples:
    """Runs programs on the example fabrics, and keeps what is wrong."""

    def __init__(self, args):
        self.sextant = args.sextant
        self.root = args.root
        self.folder = args.root / "examples/fabrics"
        self.errors = []
        sys.path.insert(0, str(args.root / "tests/unit/cli"))
        self.checker = importlib.import_module("schema").Checker
        self.environ = {key: value for key, value in os.environ.items()
                        if not key.startswith("SEXTANT_")}

    def run(self, file, host, *command):
        done = subprocess.run([self.sextant, "soft", "run", "--name", f"examples-{os.getpid()}",
                               "--fabric", file, "--host", host, "--", *command],
                              env=self.environ, text=True, capture_output=True,
                              timeout=DEADLINE_S, check=False)
        if done.returncode != 0:
            self.errors.append(f"{file.name}: {' '.join(map(str, command))} on {host}: exit status "
                               f"{done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def expect(self, what, seen, wanted):
        if seen != wanted:
            self.errors.append(f"{what}: {seen} where {wanted} is expected")

    def check_hca(self, where, hca, shown):
        """One HCA of a file against its block of ibv_devinfo's output."""
        port = hca.get("ports", [{}])[0]
        on_ib = port.get("link_layer") == "infiniband"
        self.expect(f"{where}: link layer", value(shown, "link_layer"),
                    "InfiniBand" if on_ib else "Ethernet")
        self.expect(f"{where}: state", value(shown, "state"), "PORT_ACTIVE")
        self.expect(f"{where}: MTU", value(shown, "active_mtu"), str(port.get("mtu", 4096)))
        self.expect(f"{where}: LID", value(shown, "port_lid"), str(port.get("lid", 0)))
        if "gids" not in port:
            return
        wanted = [(index, ipaddress.ip_address(entry["gid"]), TYPES[entry["type"]])
                  for index, entry in enumerate(port["gids"]) if entry["gid"] != "::"]
        seen = [(int(index), ipaddress.ip_address(gid), version or "")
                for index, gid, version in SHOWN.findall(shown)]
        self.expect(f"{where}: GIDs", seen, wanted)

    def check_reach(self, file, show):
        """Which ports of different hosts can talk, by what `soft show` says of them."""
        pairs = []
        for one, other in itertools.combinations(show["hosts"], 2):
            for (i, a), (k, b) in itertools.product(enumerate(one["hcas"]),
                                                    enumerate(other["hcas"])):
                ends = [a["ports"][0], b["ports"][0]]
                if ends[0]["network"] == ends[1]["network"] and not any(p["drop"] for p in ends):
                    pairs.append(f"{one['name']}{i} {other['name']}{k}")
        self.expect(f"{file.name}: pairs that work", pairs, REACH.get(file.stem))

    def schema_errors(self, document):
        schema = json.loads((self.root / "docs/schema/fabric-1.json").read_text())
        checker = self.checker(schema)
        checker.check(document, schema)
        return checker.errors

    def check_file(self, file):
        document = json.loads(file.read_text())
        for host in document["hosts"]:
            text = self.run(file, host["name"], "ibv_devinfo", "-v")
            blocks = dict(re.findall(r"(?ms)^hca_id:\s+(\S+)(.*?)(?=^hca_id|\Z)", text))
            names = [hca.get("name", f"mlx5_{i}") for i, hca in enumerate(host["hcas"])]
            self.expect(f"{file.name}: HCAs of {host['name']}", sorted(blocks), names)
            for name, hca in zip(names, host["hcas"]):
                self.check_hca(f"{file.name}: {host['name']}/{name}", hca, blocks.get(name, ""))
        show = self.run(file, document["hosts"][0]["name"], self.sextant, "soft", "show", "--json")
        if show:
            self.check_reach(file, json.loads(show))
        self.errors += [f"{file.name}: {error}" for error in self.schema_errors(document)]

    def check(self):
        files = sorted(self.folder.glob("*.json"))
        told = re.findall(r"(?m)^\| `(\w+)\.json`", (self.folder / "README.md").read_text())
        self.expect("README.md's table", sorted(told), [file.stem for file in files])
        self.expect("files", sorted(REACH), [file.stem for file in files])
        for file in files:
            self.check_file(file)


def value(shown, key):
    found = re.search(rf"(?m)^\s+{key}:\s+(\S+)", shown)
    return found.group(1) if found else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--sextant", required=True)
    examples = Examples(parser.parse_args())
    examples.check()
    print("\n".join(examples.errors))
    sys.exit(1 if examples.errors else 0)


main()
