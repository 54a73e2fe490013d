#!/usr/bin/env python3
"""Gate: C files are as clang-format 14 writes them; another version differs in small things."""
import re
import shutil
import subprocess
import sys

import source


def main():
    args = source.options(__doc__)
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        print("clang-format 14 is missing: apt-get install clang-format-14", file=sys.stderr)
        sys.exit(2)
    paths = source.files(args.root, (".c", ".h"))
    done = subprocess.run([tool, "--dry-run", "-Werror", *paths], cwd=args.root, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        print(done.stderr, file=sys.stderr)
        sys.exit(2)
    wrong = re.findall(r"(?m)^(\S+?):(\d+):\d+: error:", done.stderr)
    first = {path: int(line) for path, line in reversed(wrong)}
    source.finish([(path, line, "not formatted; run clang-format -i on the file")
                   for path, line in first.items()], len(paths))


main()
