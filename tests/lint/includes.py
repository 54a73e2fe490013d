#!/usr/bin/env python3
"""Gate: which room may include which, and a file's own header comes first."""
import os
import re

import source

_ALL = frozenset(source.ROOMS)
_CLI = frozenset({"cli", "core", "telemetry", "gdr", "ib", "ib/soft", "tuner"})

# Room -> rooms whose headers it may include.
MAY_INCLUDE = {
    "core": {"core"},
    "telemetry": {"telemetry", "core"},
    "gdr": {"gdr", "core", "telemetry"},
    "ib": {"ib", "core", "telemetry", "gdr"},
    "ib/soft": {"ib/soft", "core"},
    "tuner": {"tuner", "core", "telemetry"},
    "plugin": {"plugin", "plugin/nccl", "core", "telemetry", "gdr", "ib", "tuner"},
    "plugin/nccl": {"plugin/nccl"},
    "cli": _CLI | {"cli/driver"},
    "cli/driver": _CLI | {"cli/driver", "plugin/nccl"},
    "tests": _ALL,
    "examples": {"core", "telemetry"},
}

# Single headers that a room may include beyond that: here, the layout assertions.
ALSO = {"plugin/nccl": {"core/compiler.h"}}

# System header -> rooms, or single files without their suffix, that may include it.
SYSTEM_ONLY = (
    (re.compile(r"infiniband/"), {"ib", "ib/soft", "tests"}),
    (re.compile(r"cuda|nvml"), {"gdr/cuda", "tests"}),
    (re.compile(r"nccl"), set()),
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def check_quoted(path, room, target):
    wanted = source.room_of(target)
    if wanted is None:
        return f'"{target}" is in no room; write the path from the top of the tree'
    if wanted not in MAY_INCLUDE[room] and target not in ALSO.get(room, ()):
        return f'{room}/ may not include "{target}"; it may see: ' + \
            ", ".join(sorted(MAY_INCLUDE[room]))
    if target.endswith(".c"):
        return f'"{target}" is a source file; link it instead'
    return None


def check_system(path, room, target):
    for pattern, allowed in SYSTEM_ONLY:
        if pattern.match(target) and room not in allowed \
                and os.path.splitext(path)[0] not in allowed:
            return f"<{target}> is for {', '.join(sorted(allowed)) or 'nobody'} only"
    return None


def check(root, path):
    room = source.room_of(path)
    text = source.read(root, path)
    if room is None:
        return [(path, 1, "C file in no room")]
    found = []
    targets = []
    for match in _INCLUDE.finditer(text):
        kind, target = match.groups()
        rule = check_quoted if kind == '"' else check_system
        message = rule(path, room, target)
        line = source.line_of(text, match.start(1))
        targets.append((line, target))
        if message is not None:
            found.append((path, line, message))
    own = path[:-2] + ".h"
    if path.endswith(".c") and os.path.isfile(os.path.join(root, own)) \
            and targets and targets[0][1] != own:
        found.append((path, targets[0][0], f'own header "{own}" must be included first'))
    return found


def main():
    args = source.options(__doc__)
    paths = source.files(args.root, (".c", ".h"))
    source.finish([row for path in paths for row in check(args.root, path)], len(paths))


main()
