#!/usr/bin/env python3
"""Gate: every file opens with what it is, every public prototype carries its contract."""
import os
import re

import source

_BANNER = re.compile(r"^[\s/*]*([-=*#~_])\1{4,}[\s/*]*$")
# NCCL's declarations are documented by NCCL.
CONTRACT_EXEMPT = "plugin/nccl/"
# Results whose type says it all: nothing, and NCCL's codes.
SELF_TOLD = ("void", "ncclResult_t")


def check_opening(path, text):
    name = os.path.basename(path)
    first = re.match(r"/\*.*?\*/", text, re.S)
    if first is None or f" {name} - " not in first.group():
        return [(path, 1, f"the file must open with a comment `{name} - what it is`")]
    return []


def check_style(path, text):
    found = []
    for line, comment in source.comments(text):
        if comment.startswith("//"):
            found.append((path, line, "write /* */ comments"))
        for offset, row in enumerate(comment.split("\n")):
            if _BANNER.match(row):
                found.append((path, line + offset, "no banners in comments"))
    return found


def contract_above(text, line):
    """The doc comment that ends on the line before, or None."""
    above = "\n".join(text.split("\n")[:line - 1])
    match = re.search(r"/\*\*(?:(?!\*/).)*\*/\s*\Z", above, re.S)
    return match.group() if match is not None and not above.endswith("\n") else None


def check_contracts(path, text):
    found = []
    for name, line, head in source.prototypes(text):
        contract = contract_above(text, line)
        returns = re.sub(r"\bSXT_\w+(\([^()]*\))?|\bextern\b", "", head.split(name, 1)[0]).strip()
        if contract is None or f"{name}() - " not in contract:
            found.append((path, line, f"{name}() has no comment `{name}() - ...` right above it"))
        elif returns not in SELF_TOLD and not re.search(r"\bReturns?\b", contract):
            found.append((path, line, f"{name}() does not say what it returns (`Return: ...`)"))
    return found


def check(root, path):
    text = source.read(root, path)
    found = check_opening(path, text) + check_style(path, text)
    if path.endswith(".h") and not path.startswith(CONTRACT_EXEMPT):
        found += check_contracts(path, text)
    return found


def main():
    args = source.options(__doc__)
    paths = source.files(args.root, (".c", ".h"))
    source.finish([row for path in paths for row in check(args.root, path)], len(paths))


main()
