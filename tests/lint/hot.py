#!/usr/bin/env python3
"""Gate: objects of the hot path import only what hot_allow.txt names."""
import fnmatch
import os
import re
import subprocess

import source


def rows(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].strip() for line in file]
    return [line for line in lines if line]


def find_object(build, name):
    """The object file that ib/send.c became, or None."""
    for where, _, names in os.walk(build):
        for base in names:
            path = os.path.relpath(os.path.join(where, base), build)
            # FOLDER/CMakeFiles/TARGET.dir/REST.o is FOLDER/REST, built for TARGET.
            if re.sub(r"(^|/)CMakeFiles/[^/]+\.dir/", r"\1", path) == name + ".o":
                return os.path.join(build, path)
    return None


def imports(path):
    out = subprocess.run(["nm", "-u", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [row.split()[-1] for row in out.splitlines()]


def check(build, name, allowed):
    path = find_object(build, name)
    if path is None:
        return [(name, 0, f"has no object; is it still built?")]
    return [(name, 0, f"imports {symbol}, which is not on the list of the hot path")
            for symbol in imports(path)
            if not any(fnmatch.fnmatchcase(symbol, pattern) for pattern in allowed)]


def main():
    args = source.options(__doc__, ("build", {"help": "build folder"}),
                          ("objects", {"help": "file with one source path a line"}),
                          ("allow", {"help": "file with one symbol or pattern a line"}))
    names = rows(args.objects)
    allowed = rows(args.allow)
    source.finish([row for name in names for row in check(args.build, name, allowed)], len(names))


main()
