#!/usr/bin/env python3
"""Gate: what stands in the tree speaks of the project alone, not of where it was written."""
import os
import re

import source

PATTERNS = (
    (re.compile(r"\bissues?\s+#?\d+\b", re.I), "say what it is, not which ticket asked for it"),
    (re.compile(r"(?<![\w/.}*])/(?:home|work|Users)/\w+"), "a path that only one machine has"),
    (re.compile(r"[ \t]+$", re.M), "space at the end of the line"),
)
# A page named by a path, and the target of a Markdown link, have to be in the tree.
_PAGE = re.compile(r"(?<![\w/.])(?:\.\./)+[\w./-]*\.md\b")
# A test that a page cites, and where tests are.
_CITED = re.compile(r"`(test_\w+)\.(\w{4,})`")
_LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)")
# The rules have to name what they forbid.
EXEMPT = ("tests/lint/text.py", "LICENSE")


def check_targets(root, path, text):
    targets = [(match.start(), match.group()) for match in _PAGE.finditer(text)]
    if path.endswith(".md"):
        targets += [(match.start(1), match.group(1)) for match in _LINK.finditer(text)]
    found = set()
    for offset, target in targets:
        full = os.path.normpath(os.path.join(root, os.path.dirname(path), target))
        if not full.startswith(root + os.sep) or not os.path.exists(full):
            found.add((path, source.line_of(text, offset), f"`{target}`: not in the tree"))
    return sorted(found)


def check_cited(root, path, text, tests):
    """`test_choice.a_port_is_told`: a function of that name in a test_choice.c."""
    for match in _CITED.finditer(text):
        files = tests.get(match.group(1) + ".c", ())
        if not any(match.group(2) + "(" in source.read(root, file) for file in files):
            yield path, source.line_of(text, match.start()), f"{match.group()}: no such test"


def check(root, path, tests):
    text = source.read(root, path)
    found = [(path, source.line_of(text, match.start()), f"`{match.group().strip()}`: {instead}")
             for pattern, instead in PATTERNS for match in pattern.finditer(text)]
    if text != "" and not text.endswith("\n"):
        found.append((path, text.count("\n") + 1, "no newline at the end of the file"))
    if path.endswith(".md"):
        found += check_cited(root, path, text, tests)
    return found + check_targets(root, path, text)


def is_text(root, path):
    with open(f"{root}/{path}", "rb") as file:
        return b"\0" not in file.read(8192)


def main():
    args = source.options(__doc__)
    paths = [path for path in source.files(args.root)
             if path not in EXEMPT and not path.startswith("tests/fuzz/corpus/")
             and is_text(args.root, path)]
    tests = {}
    for path in source.files(args.root, (".c",)):
        tests.setdefault(os.path.basename(path), []).append(path)
    found = [row for path in paths for row in check(args.root, path, tests)]
    source.finish(found, len(paths))


main()
