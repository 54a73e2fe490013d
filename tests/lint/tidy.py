#!/usr/bin/env python3
"""Gate: clang-tidy finds nothing in any file of the compilation database."""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import source


FACTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "analyzer.h")


def one_row_each(root, build, folder):
    """Sources in the database that are ours and no planted violation; writes one of their own.

    A file built twice is one row there: given two, clang-tidy 14 analyses both in one process, and
    its va_list check mistakes what it kept of the first for the second.
    """
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        rows = {os.path.relpath(row["file"], root): row for row in json.load(file)}
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(list(rows.values()), file)
    return [path for path in source.files(root, (".c",)) if path in rows]


def tidy(tool, root, command):
    done = subprocess.run([tool, "--quiet", "--extra-arg=-include", f"--extra-arg={FACTS}",
                           *command], cwd=root, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = []
    for path, line, text in re.findall(r"(?m)^(\S+?):(\d+):\d+: (?:error|warning): (.*)$",
                                       done.stdout):
        found.append((os.path.relpath(os.path.join(root, path), root), int(line),
                      text.replace(",-warnings-as-errors", "")))
    if done.returncode != 0 and not found:
        found.append((command[-1], 0, f"clang-tidy ended with status {done.returncode}"))
    return found


def main():
    args = source.options(__doc__, ("--build", {"help": "build folder with the database"}),
                          ("--jobs", {"type": int, "default": os.cpu_count()}),
                          ("files", {"nargs": "*", "help": "check these alone, as C11"}))
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        print("clang-tidy 14 is missing: apt-get install clang-tidy-14", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        paths = args.files or one_row_each(args.root, args.build, folder)
        tail = ["--", "-std=c11", "-D_GNU_SOURCE"] if args.files else []
        head = [] if args.files else ["-p", folder]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = list(pool.map(lambda path: tidy(tool, args.root, [*head, path, *tail]),
                                    paths))
    # A header's violation shows in every file that includes it.
    source.finish({row for found in results for row in found}, len(paths))


main()
