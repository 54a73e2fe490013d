"""What the tests of `sextant tune` share: running it, golden texts, schemas."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

for _folder in ("golden", "unit/cli"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", _folder))

import golden
import schema
from golden import check

ARGS = None


def environment(**variables):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("SEXTANT_", "NCCL_"))}
    return env | {"LANG": "C.UTF-8"} | variables


def tune(*arguments, status=0, folder=None, **variables):
    done = subprocess.run([ARGS.sextant, "tune", *arguments], stdin=subprocess.DEVNULL,
                          env=environment(**variables), stdout=subprocess.PIPE, cwd=folder,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    check(done.returncode == status,
          f"{arguments}: exit {done.returncode}, not {status}\n{out}\n{err}")
    return out, err


def narrow(text):
    for line in text.splitlines():
        check(len(line) <= 80, f"wider than 80: {line}")


def compare(name, text):
    golden.compare(name, text, ARGS.update)


def document(*arguments, status=0, **variables):
    """What it prints as JSON, checked against the schema of that name."""
    out, _ = tune(arguments[0], "--json", *arguments[1:], status=status, **variables)
    parsed = json.loads(out)
    errors = schema.faults(os.path.join(ARGS.source, f"docs/schema/tune-{arguments[0]}.json"),
                           parsed)
    check(not errors, "\n".join(errors))
    return parsed


def main(cases, about):
    global ARGS
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--update", action="store_true", help="write the golden files anew")
    parser.add_argument("case", choices=cases)
    ARGS = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases[ARGS.case](folder)
