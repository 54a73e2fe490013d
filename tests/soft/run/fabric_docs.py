#!/usr/bin/env python3
"""The fabric file's parser, schema and page speak of the same keys, and the page's examples work.

usage: fabric_docs.py --root SOURCE_FOLDER --sextant FILE
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FIELD = re.compile(r"SXT_SOFT_FIELD_[A-Z]+\(\s*(\w+),")


def property_names(schema):
    for name, value in schema.get("properties", {}).items():
        yield name
        yield from property_names(value)
    if "items" in schema:
        yield from property_names(schema["items"])


def example(schema):
    """A document with every key the schema has."""
    if "properties" in schema:
        return {name: example(value) for name, value in schema["properties"].items()}
    if "items" in schema:
        return [example(schema["items"])]
    return schema["examples"][0]


def whole_document(schema):
    """The same without what may not stand together."""
    document = example(schema)
    port = document["hosts"][0]["hcas"][0]["ports"][0]
    infiniband = {"link_layer": "infiniband"}
    infiniband.update({name: port.pop(name) for name in ("lid", "lmc", "sm_lid")})
    document["hosts"][0]["hcas"][0]["ports"].append(infiniband)
    fault = document["faults"][0]
    place = {"state": "a/mlx5_0:1", "wc_error": "a/mlx5_0:1", "event": "a/mlx5_0:1",
             "reg_error": "a/mlx5_0", "drop": "a/mlx5_0:1", "gid": "a/mlx5_0:1",
             "kill": "a"}
    document["faults"] = [{"at_ms": 600000, "target": target, key: fault[key]}
                          for key, target in place.items()]
    document["faults"][1]["count"] = fault["count"]
    document["faults"][5]["to"] = fault["to"]
    return document


class Runner:
    """Runs `true` on a fabric, by a command that has a library beside it."""

    def __init__(self, sextant, folder):
        self.folder = pathlib.Path(folder)
        self.sextant = self.folder / "bin" / "sextant"
        library = self.folder / "lib" / "sextant" / "soft"
        library.mkdir(parents=True)
        self.sextant.parent.mkdir()
        shutil.copy(sextant, self.sextant)
        (library / "libibverbs.so.1").touch()

    def run(self, text):
        path = self.folder / "fabric.json"
        path.write_text(text)
        environ = {key: value for key, value in os.environ.items()
                   if not key.startswith("SEXTANT_")}
        done = subprocess.run([self.sextant, "soft", "run", "--name", f"docs-{os.getpid()}",
                               "--fabric", path, "--", "true"], env=environ, text=True,
                              capture_output=True, timeout=50, check=False)
        return done.stderr if done.returncode != 0 else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--sextant", required=True)
    args = parser.parse_args()
    schema = json.loads((args.root / "docs/schema/fabric-1.json").read_text())
    page = (args.root / "docs/fabric.md").read_text()
    parsed = set()
    for name in ("fabric.c", "action.c"):
        parsed |= set(FIELD.findall((args.root / "ib/soft" / name).read_text()))
    described = set(property_names(schema))
    errors = [f"{name}: the parser has it, the schema does not" for name in parsed - described]
    errors += [f"{name}: the schema has it, the parser does not" for name in described - parsed]
    errors += [f"{name}: docs/fabric.md does not mention it" for name in sorted(described)
               if f"`{name}`" not in page and f'"{name}"' not in page]
    with tempfile.TemporaryDirectory(prefix="sxt-docs-") as folder:
        runner = Runner(args.sextant, folder)
        documents = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
        for text in [*documents, json.dumps(whole_document(schema))]:
            errors += [f"refused: {line}" for line in runner.run(text).splitlines()]
    if len(documents) < 2:
        errors.append("docs/fabric.md lost its examples")
    print("\n".join(errors))
    sys.exit(1 if errors else 0)


main()
