#!/usr/bin/env python3
"""Gate: shellcheck finds nothing in any shell script."""
import json
import os
import re
import shutil
import subprocess
import sys

import source

_SHEBANG = re.compile(r"#!\s*\S*(?:/| )(?:ba|da)?sh\b")


def scripts(root):
    for path in source.files(root):
        with open(os.path.join(root, path), "rb") as file:
            head = file.readline(80).decode(errors="replace")
        if _SHEBANG.match(head):
            yield path


def main():
    args = source.options(__doc__)
    if shutil.which("shellcheck") is None:
        print("shellcheck is missing: apt-get install shellcheck", file=sys.stderr)
        sys.exit(2)
    paths = list(scripts(args.root))
    if not paths:
        source.finish([], 0)
    done = subprocess.run(["shellcheck", "--format=json", "--external-sources",
                           "--source-path=SCRIPTDIR", *paths], cwd=args.root, check=False,
                          stdout=subprocess.PIPE, text=True)
    source.finish([(row["file"], row["line"], f"{row['message']} [SC{row['code']}]")
                   for row in json.loads(done.stdout)], len(paths))


main()
