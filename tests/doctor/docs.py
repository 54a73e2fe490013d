#!/usr/bin/env python3
"""Gate: the table in docs/doctor.md is what `sextant doctor --markdown` prints (--fix writes it)."""
import argparse
import re
import subprocess
import sys

TABLE = re.compile(r"(<!-- findings: [^\n]*-->\n)(.*?)(<!-- findings end -->)", re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--page", required=True, help="docs/doctor.md")
    parser.add_argument("--fix", action="store_true", help="write the table")
    args = parser.parse_args()
    printed = subprocess.run([args.sextant, "doctor", "--markdown"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    with open(args.page, encoding="utf-8") as file:
        text = file.read()
    table = TABLE.search(text)
    if table is None:
        sys.exit(f"{args.page} has no `<!-- findings: ... -->` markers")
    if table.group(2) == printed:
        return
    if not args.fix:
        sys.exit(f"{args.page} differs from `sextant doctor --markdown`; "
                 "tests/doctor/docs.py --fix writes it")
    with open(args.page, "w", encoding="utf-8") as file:
        file.write(text[:table.start(2)] + printed + text[table.end(2):])


if __name__ == "__main__":
    main()
