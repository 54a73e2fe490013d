"""What the tests of `sextant tune` share: running it, golden texts, schemas."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ARGS = None


def check(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


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
    path = os.path.join(ARGS.source, "tests/golden", name)
    if ARGS.update:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(path, encoding="utf-8") as file:
        wanted = file.read()
    check(text == wanted, f"differs from {name}:\n{text}")


def document(*arguments, status=0, **variables):
    """What it prints as JSON, checked against the schema of that name."""
    out, _ = tune(arguments[0], "--json", *arguments[1:], status=status, **variables)
    sys.path.insert(0, os.path.join(ARGS.source, "tests/unit/cli"))
    import schema
    parsed = json.loads(out)
    path = os.path.join(ARGS.source, "docs/schema", f"tune-{arguments[0]}.json")
    with open(path, encoding="utf-8") as file:
        wanted = json.load(file)
    checker = schema.Checker(wanted)
    checker.check(parsed, wanted)
    check(not checker.errors, "\n".join(checker.errors))
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
