#!/usr/bin/env python3
"""`sextant doctor --root` on small trees: each shows its finding, what to do, and nothing else."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import cases
import growth
import trees

EXIT = {"ok": 0, "info": 0, "warning": 1, "broken": 2}
BY_EXIT = {0: "ok", 1: "warning", 2: "broken"}


class Doctor:
    def __init__(self, sextant, schema):
        self.sextant = sextant
        self.schema = schema
        self.failures = []

    def fail(self, name, text):
        self.failures.append(f"{name}: {text}")

    def run(self, *arguments, **variables):
        env = {key: value for key, value in os.environ.items() if not key.startswith("SEXTANT_")}
        env.update(variables)
        return subprocess.run([self.sextant, "doctor", *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False, env=env)

    def report(self, name, root, *arguments):
        """The document of one tree, checked against schema, text report and exit status."""
        done = self.run("--root", root, "--json", *arguments)
        if done.returncode not in BY_EXIT or done.stderr:
            self.fail(name, f"exit {done.returncode}, {done.stderr.decode(errors='replace')!r}")
            return None
        document = json.loads(done.stdout)
        checker = self.schema.Checker(self.schema_text)
        checker.check(document, self.schema_text)
        for error in checker.errors:
            self.fail(name, error)
        if document["verdict"] != BY_EXIT[done.returncode]:
            self.fail(name, f"verdict {document['verdict']}, exit {done.returncode}")
        self.check_text(name, root, document, arguments)
        return document

    def check_text(self, name, root, document, arguments):
        done = self.run("--root", root, *arguments)
        text = done.stdout.decode()
        words = " ".join(text.split())
        if EXIT[document["verdict"]] != done.returncode:
            self.fail(name, f"as text exit {done.returncode}, verdict {document['verdict']}")
        if "\033" in text:
            self.fail(name, "colours, and nobody looks")
        for line in text.splitlines():
            if len(line) > 80 and " " in line.strip()[:60] and root not in line:
                self.fail(name, f"wider than 80: {line}")
        for finding in document["findings"]:
            wanted = [finding["object"], finding["seen"]]
            if finding["severity"] != "ok" and finding["id"] != "not-read":
                wanted += [finding["expected"], finding["remedy"], f"[{finding['id']}]"]
            for part in wanted:
                if " ".join(part.split()) not in words:
                    self.fail(name, f"not in the text report: {part}")


def keys(document):
    return {(row["id"], row["object"]) for row in document["findings"]}


def load_schema(path):
    sys.path.insert(0, os.path.dirname(path))
    import schema
    return schema


def check_case(doctor, healthy, case):
    name, node, change, expected, text = case
    tree = node()
    change(tree)
    with tempfile.TemporaryDirectory() as root:
        tree.write(root)
        document = doctor.report(name, root)
    if document is None:
        return set()
    found = keys(document)
    new = {row for row in found - healthy[node] if severity(document, row) != "ok"}
    if new - {row for row in expected} or expected - found:
        doctor.fail(name, f"found {sorted(new)}, expected {sorted(expected)}")
    told = [row["seen"] + " " + row["expected"] for row in document["findings"]
            if (row["id"], row["object"]) in expected]
    if text and not any(text in row for row in told):
        doctor.fail(name, f"'{text}' is not in {told}")
    return {row[0] for row in found}


def severity(document, row):
    return next(finding["severity"] for finding in document["findings"]
                if (finding["id"], finding["object"]) == row)


def check_healthy(doctor, node):
    with tempfile.TemporaryDirectory() as root:
        node().write(root)
        document = doctor.report(node.__name__, root)
    if document["verdict"] != "ok" or document["counts"]["info"] > 0:
        doctor.fail(node.__name__, f"is healthy, and yet: {sorted(keys(document))}")
    return keys(document)


def check_software(doctor):
    """Within `sextant soft run` the tree is named by the environment, and has no devices below."""
    tree = trees.roce()
    tree.drop("/dev/infiniband")
    tree.drop("/sys/class/infiniband_verbs")
    with tempfile.TemporaryDirectory() as root:
        tree.write(root)
        done = doctor.run("--json", SEXTANT_SYSROOT=root, SEXTANT_SOFT_STATE="/dev/shm/x")
    found = {row["id"] for row in json.loads(done.stdout)["findings"]}
    if done.returncode != 0 or found != {"dev-software", "port-ok", "gid-choice"}:
        doctor.fail("software", f"exit {done.returncode}, found {sorted(found)}")
    return found


def check_all_shown(doctor, shown):
    """No finding without a tree that shows it; the healthy nodes show that it can be absent.
    Those about pairs need two hosts: pairs.py."""
    listed = doctor.run("--markdown").stdout.decode().splitlines()[2:]
    for line in listed:
        name = line.split("`")[1]
        if name not in shown and not name.startswith("pairs-"):
            doctor.fail("list", f"no tree shows {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--checker", required=True, help="tests/unit/cli/schema.py")
    parser.add_argument("--schema", required=True, help="docs/schema/doctor.json")
    args = parser.parse_args()
    doctor = Doctor(args.sextant, load_schema(args.checker))
    with open(args.schema, encoding="utf-8") as file:
        doctor.schema_text = json.load(file)
    nodes = (trees.roce, trees.infiniband, trees.bnxt, trees.rxe, trees.container)
    healthy = {node: check_healthy(doctor, node) for node in nodes}
    shown = {row[0] for rows in healthy.values() for row in rows}
    for case in cases.CASES:
        shown |= check_case(doctor, healthy, case)
    for case in growth.CASES:
        shown |= growth.check(doctor, case)
    shown |= check_software(doctor)
    check_all_shown(doctor, shown)
    print("\n".join(doctor.failures))
    print(f"{len(cases.CASES) + len(growth.CASES)} trees, {len(doctor.failures)} failures")
    sys.exit(1 if doctor.failures else 0)


if __name__ == "__main__":
    main()
