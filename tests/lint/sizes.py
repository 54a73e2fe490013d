#!/usr/bin/env python3
"""Gate: size of files and functions, and the profile of function lengths over the tree."""
import re

import source

FILE_LINES = 1000
FUNCTION_LINES = 60
PARAMETERS = 6
# Functions that stand in NCCL's tables have NCCL's parameters; so have a library's callbacks its.
PARAMETERS_GIVEN = re.compile(r"plugin/net\w*\.c:(sxt_net_|net_v)\w+"
                              r"|plugin/tuner\w*\.c:(sxt_tuner_|init_v)\w+"
                              r"|cli/export/serve\.c:handle"
                              r"|tests/fake/net/\w+\.c:(isend|irecv)_\w+")
NESTING = 3
# (lines, least share in percent of all functions that must be no longer)
PROFILE = ((40, 92), (60, 97))
# A share of fewer functions than this says nothing.
PROFILE_LEAST = 20


def deepest(function):
    """(depth, line) of the deepest block; a brace that opens an initialiser is no block."""
    stack = []
    worst = (0, function.line)
    for match in re.finditer(r"[{}]", function.body):
        if match.group() == "}":
            stack.pop()
            continue
        before = function.body[:match.start()].rstrip()
        stack.append(before == "" or before[-1] in ");:{}" or re.search(r"\b(else|do)$", before))
        depth = sum(1 for block in stack if block) - 1
        if depth > worst[0]:
            worst = (depth, function.body_line + function.body.count("\n", 0, match.start()))
    return worst


def check_function(path, function):
    found = []
    if function.line_cnt > FUNCTION_LINES:
        found.append((path, function.line, f"{function.name}() has {function.line_cnt} lines; "
                      f"at most {FUNCTION_LINES}"))
    if function.parameter_cnt > PARAMETERS \
            and not PARAMETERS_GIVEN.fullmatch(f"{path}:{function.name}"):
        found.append((path, function.line, f"{function.name}() takes {function.parameter_cnt} "
                      f"parameters; at most {PARAMETERS}"))
    depth, line = deepest(function)
    if depth > NESTING:
        found.append((path, line, f"{function.name}() nests {depth} deep; at most {NESTING}"))
    return found


def check_profile(lengths):
    found = []
    for limit, percent in PROFILE:
        fitting = sum(1 for length in lengths if length <= limit)
        if len(lengths) >= PROFILE_LEAST and fitting * 100 < percent * len(lengths):
            found.append((".", 0, f"{fitting} of {len(lengths)} functions have at most {limit} "
                          f"lines; wanted {percent}%"))
    return found


def main():
    args = source.options(__doc__)
    paths = source.files(args.root, (".c", ".h"))
    found, lengths = [], []
    for path in paths:
        text = source.read(args.root, path)
        line_cnt = text.count("\n")
        if line_cnt > FILE_LINES:
            found.append((path, line_cnt, f"{line_cnt} lines; at most {FILE_LINES}"))
        for function in source.functions(text):
            lengths.append(function.line_cnt)
            found += check_function(path, function)
    source.finish(found + check_profile(lengths), len(paths))


main()
