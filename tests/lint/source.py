"""What the gates share: which files there are, and what C text means without a compiler.

A gate is a script that prints one `path:line: message` per violation and exits 0 (none), 1 (some)
or 2 (nothing to check, or a tool is missing).
"""
import argparse
import os
import re
import subprocess
import sys

PLANTED = "tests/lint/bad"
ROOMS = ("core", "telemetry", "gdr", "ib", "ib/soft", "tuner", "plugin", "plugin/nccl", "cli",
         "cli/driver", "tests", "examples")
LIBRARY_ROOMS = ("core", "telemetry", "gdr", "ib", "ib/soft", "tuner", "plugin", "plugin/nccl")


def room_of(path):
    """The room a path lies in: the longest name of ROOMS that leads it, or None."""
    inside = [room for room in ROOMS if path.startswith(room + "/")]
    return max(inside, key=len, default=None)


def _tracked(root):
    """Files git knows or would add, or None where root is no checkout."""
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "-co",
                           "--exclude-standard"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().split("\0")[:-1] if done.returncode == 0 else None


def _walked(root):
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name != ".git" and not name.startswith("build")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def files(root, suffixes=None):
    """Sorted paths below root, planted violations left out."""
    known = _tracked(root)
    paths = known if known is not None else _walked(root)
    return sorted(path for path in paths
                  if not path.startswith(PLANTED + "/")
                  and os.path.isfile(os.path.join(root, path))
                  and (suffixes is None or path.endswith(suffixes)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """The text with comments and the insides of literals blanked; lines and columns stay."""
    def replace(match):
        token = match.group()
        if token[0] == "/":
            return _blank(token)
        return token[0] + _blank(token[1:-1]) + token[-1]
    return _TOKEN.sub(replace, text)


def comments(text):
    """(line, comment text) of every comment."""
    return [(text.count("\n", 0, match.start()) + 1, match.group())
            for match in _TOKEN.finditer(text) if match.group()[0] == "/"]


def without_directives(code):
    """Blank preprocessor lines, continuations included."""
    return re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: _blank(match.group()), code)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Function:
    """A function definition: where it stands and what it takes."""

    def __init__(self, code, head, begin, body, end):
        self.name = function_name(head)
        self.line = line_of(code, begin)
        self.line_cnt = line_of(code, end) - self.line + 1
        self.parameter_cnt = _parameter_cnt(head)
        self.body = code[body:end + 1]
        self.body_line = line_of(code, body)


def function_name(head):
    """The declared name: the last word before the first parenthesis that is no attribute."""
    for match in re.finditer(r"(\w+)\s*\(", head):
        if not re.match(r"__attribute__|SXT_PRINTF|_Alignas|SXT_[A-Z]+$", match.group(1)):
            return match.group(1)
    return None


def _parameter_cnt(head):
    name = function_name(head)
    if name is None:
        return 0
    begin = re.search(r"\b" + name + r"\s*\(", head).end()
    depth, cnt = 1, 1
    for offset in range(begin, len(head)):
        depth += {"(": 1, ")": -1}.get(head[offset], 0)
        if depth == 0:
            return 0 if head[begin:offset].strip() in ("", "void") else cnt
        cnt += depth == 1 and head[offset] == ","
    return cnt


def top_level(text):
    """Split a file into its outermost pieces: (code, head, begin, body, end).

    body is the offset of the opening brace, or None for a piece that ends in a semicolon.
    """
    code = without_directives(code_only(text))
    begin, body, depth = 0, None, 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match.group() == "{":
            if depth == 0:
                body = at
            depth += 1
        elif match.group() == "}":
            depth = max(depth - 1, 0)
            head = code[begin:body] if body is not None else ""
            if depth == 0 and re.search(r"\)[\s\w()]*$", head) and "=" not in head:
                yield code, head, begin + len(head) - len(head.lstrip()), body, at
                begin, body = at + 1, None
        elif depth == 0:
            head = code[begin:at]
            yield code, head, begin + len(head) - len(head.lstrip()), None, at
            begin, body = at + 1, None


def functions(text):
    return [Function(*piece) for piece in top_level(text) if piece[3] is not None]


def prototypes(text):
    """(name, line, head) of every non-static function declared, not defined."""
    found = []
    for code, head, begin, body, _ in top_level(text):
        if body is not None or "(" not in head or "{" in head or "=" in head:
            continue
        if re.match(r"[^(]*\(\s*\*", head):
            continue  # a variable that points to a function
        name = function_name(head)
        if name is None or re.match(r"\s*(typedef\b|static\b|_Static_assert\b|[A-Z_]+\s*\()", head):
            continue
        found.append((name, line_of(code, begin), head))
    return found


def options(description, *extra):
    """Parse the command line every gate has; extra are (flags, keywords) of add_argument()."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), "..", ".."),
                        help="tree to check (default: this repository)")
    for flags, keywords in extra:
        parser.add_argument(flags, **keywords)
    args = parser.parse_args()
    args.root = os.path.abspath(args.root)
    return args


def finish(violations, checked_cnt):
    """Print violations and leave with the gate's status."""
    for path, line, message in sorted(violations):
        print(f"{path}:{line}: {message}")
    if checked_cnt == 0:
        print("nothing to check", file=sys.stderr)
        sys.exit(2)
    sys.exit(1 if violations else 0)
