#!/usr/bin/env python3
"""Gate: the README's settings table is what `sextant env --markdown` prints (--fix writes it)."""
import os
import re
import subprocess

import source

_TABLE = re.compile(r"(<!-- settings: [^\n]*-->\n)(.*?)(<!-- settings end -->)", re.S)


def main():
    args = source.options(__doc__, ("sextant", {"help": "the built command"}),
                          ("--fix", {"action": "store_true", "help": "write the table"}))
    printed = subprocess.run([args.sextant, "env", "--markdown"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    text = source.read(args.root, "README.md")
    table = _TABLE.search(text)
    if table is None:
        source.finish([("README.md", 1, "has no `<!-- settings: ... -->` markers")], 1)
    if table.group(2) == printed:
        source.finish([], 1)
    if args.fix:
        with open(os.path.join(args.root, "README.md"), "w", encoding="utf-8") as file:
            file.write(text[:table.start(2)] + printed + text[table.end(2):])
        source.finish([], 1)
    source.finish([("README.md", source.line_of(text, table.start(2)),
                    "settings differ from `sextant env --markdown`; "
                    "tests/lint/settings.py --fix BUILD/cli/sextant writes them")], 1)


main()
