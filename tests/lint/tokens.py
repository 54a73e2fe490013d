#!/usr/bin/env python3
"""Gate: calls and words that a room may not use."""
import re

import source

_LIBRARIES = frozenset(source.LIBRARY_ROOMS)
# The software HCA is a machine of its own and uses the system directly.
_THROUGH_SYS = _LIBRARIES - {"ib/soft"}
_EVERYWHERE = frozenset(source.ROOMS)


def _calls(names):
    """Calls of a plain name; a member of that name (sys->connect) is somebody else's."""
    return re.compile(r"(?<![\w.>])(" + names.replace(" ", "|") + r")\s*\(")


# (pattern, rooms it is banned in, files that may, what to do instead)
BANNED = (
    (_calls("atoi atol atoll atof"), _EVERYWHERE, (), "parse the whole text with strtoll()"),
    (_calls("strcpy strcat strncpy sprintf vsprintf gets"), _EVERYWHERE, (),
     "use snprintf() or memcpy() with a size"),
    (_calls("strtok"), _EVERYWHERE, (), "use strcspn() or strtok_r()"),
    (_calls("alloca"), _EVERYWHERE, (), "use a bounded array or the heap"),
    (_calls("getenv secure_getenv"), _EVERYWHERE - {"tests"}, ("core/config.c",),
     "use sxt_env_get()"),
    (_calls("clock_gettime gettimeofday time nanosleep clock_nanosleep usleep sleep"),
     _THROUGH_SYS, ("core/sys.c", "core/log.c"), "go through struct sxt_sys"),
    (_calls("socket socketpair bind listen accept accept4 connect send sendto sendmsg recv "
            "recvfrom recvmsg getaddrinfo getifaddrs"),
     _THROUGH_SYS, ("core/sys.c",), "go through struct sxt_sys"),
    (_calls("poll ppoll select pselect epoll_create epoll_create1 epoll_ctl epoll_wait "
            "epoll_pwait timerfd_create timerfd_settime eventfd timer_create setitimer alarm"),
     _THROUGH_SYS, ("core/sys.c",), "go through struct sxt_sys"),
    (_calls("getrandom getentropy rand random srand srandom rand_r drand48"),
     _THROUGH_SYS, ("core/sys.c",), "use sxt_sys_random()"),
    (_calls("abort exit quick_exit _exit _Exit"), _LIBRARIES, (),
     "a library returns an error"),
    (_calls("printf vprintf puts putchar perror psignal err errx warn warnx"), _LIBRARIES, (),
     "a library logs with SXT_LOG"),
    (re.compile(r"(?<!\w)(stderr|stdout)\b"), _LIBRARIES, (), "a library logs with SXT_LOG"),
    (re.compile(r"\b(typedef\s+(?:struct|union|enum))\b"), _EVERYWHERE - {"plugin/nccl"}, (),
     "write `struct name`"),
    (re.compile(r"__attribute__\s*\(\(\s*(?:__)?(cleanup)"), _EVERYWHERE, (),
     "free at one label with goto"),
)

_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def check_code(path, text):
    room = source.room_of(path)
    code = source.code_only(text)
    found = []
    for pattern, rooms, exempt, instead in BANNED:
        if room not in rooms or path in exempt:
            continue
        for match in pattern.finditer(code):
            word = re.sub(r"\s+", " ", match.group(1))
            own = re.search(r"(?m)^static [^;={}()]*\b" + re.escape(word) + r"\(", code)
            if own is None:
                found.append((path, source.line_of(code, match.start(1)),
                              f"{word} is banned in {room}/: {instead}"))
    return found


def check_unfinished(path, text):
    return [(path, source.line_of(text, match.start()),
             f"{match.group()}: finish it or leave it out")
            for match in _UNFINISHED.finditer(text)]


def main():
    args = source.options(__doc__)
    paths = source.files(args.root, (".c", ".h", ".def", ".sh", ".py", ".md", ".txt", ".cmake"))
    found = []
    for path in paths:
        text = source.read(args.root, path)
        if path.endswith((".c", ".h")):
            found += check_code(path, text)
        if not path.startswith("tests/lint/"):
            found += check_unfinished(path, text)
    source.finish(found, len(paths))


main()
