#!/usr/bin/env python3
"""Runs a command on the fabric around it; fails as well when a receiver was not ready.

usage: sextant soft run -- no_rnr.py SEXTANT COMMAND...
"""
import json
import subprocess
import sys

COUNTERS = ("out_of_buffer", "rnr_nak")


def receivers_not_ready(sextant):
    """Every port whose counters tell of one."""
    shown = subprocess.run([sextant, "soft", "show", "--json"], capture_output=True, text=True,
                           check=True)
    for host in json.loads(shown.stdout)["hosts"]:
        for hca in host["hcas"]:
            for port in hca["ports"]:
                counts = {name: port["counters"][name] for name in COUNTERS}
                if any(counts.values()):
                    yield f"{host['name']}/{hca['name']}:{port['port']}: {counts}"


def main():
    sextant, *command = sys.argv[1:]
    status = subprocess.run(command, check=False).returncode
    late = list(receivers_not_ready(sextant))
    for line in late:
        print(f"no_rnr.py: a message met no receive work request at {line}", file=sys.stderr)
    sys.exit(status or bool(late))


main()
