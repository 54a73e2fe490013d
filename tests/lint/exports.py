#!/usr/bin/env python3
"""Gate: a shared library exports what its version script says and needs what it may need."""
import re
import subprocess

import source

# Everything else is opened at run time, or not at all.
NEEDED = re.compile(r"libc\.so\.6|ld-linux-[\w-]+\.so\.\d+")


def mapped_symbols(text):
    """Names in the global: parts of a version script."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", text, flags=re.S)
    parts = re.findall(r"global:(.*?)(?:local:|\})", text, re.S)
    return {name.strip() for part in parts for name in part.split(";") if name.strip()}


def exported_symbols(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    rows = [row.split() for row in out.splitlines()]
    # Type A is the name of a version node.
    return {row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def needed_libraries(library):
    out = subprocess.run(["readelf", "-d", library], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", out)


def main():
    args = source.options(__doc__, ("library", {}), ("map", {"help": "version script"}))
    with open(args.map, encoding="utf-8") as file:
        wanted = mapped_symbols(file.read())
    got = exported_symbols(args.library)
    name = args.library.rsplit("/", 1)[-1]
    found = [(name, 0, f"exports {symbol}, which the version script does not name")
             for symbol in got - wanted]
    found += [(name, 0, f"does not export {symbol}") for symbol in wanted - got]
    found += [(name, 0, f"needs {library} at load time; open it at run time")
              for library in needed_libraries(args.library) if not NEEDED.fullmatch(library)]
    source.finish(found, len(wanted))


main()
