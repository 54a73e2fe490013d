#!/usr/bin/env python3
"""`sextant top` in a terminal: tmux is the terminal, its panes are compared with pictures.

usage: test_screen.py --sextant FILE CASE
"""
import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import snapshots
import golden
from golden import check
from snapshots import make_segment

ARGS = None
PATIENCE_S = 30


class Terminal:
    """A shell's window in a tmux server of its own."""

    def __init__(self, folder, columns, lines, command, **variables):
        self.socket = os.path.join(folder, "tmux")
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("SEXTANT_", "TMUX"))}
        self.env |= {"TZ": "UTC", "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        line = shlex.join(["env", *(f"{key}={value}" for key, value in variables.items()),
                           ARGS.sextant, "top", *command])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines),
                  f"stty -a > {folder}/before; {line}; echo left with $?; stty -a > "
                  f"{folder}/after; touch {folder}/done; exec cat")
        self.folder = folder

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], env=self.env, check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              timeout=PATIENCE_S).stdout.decode()

    def picture(self):
        lines = self.tmux("capture-pane", "-p").split("\n")
        return "".join(line.rstrip() + "\n" for line in lines[:-1])

    def wait(self, pattern, absent=False):
        """The picture, as soon as it has (or no longer has) what is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            picture = self.picture()
            if bool(re.search(pattern, picture)) != absent:
                return picture
            time.sleep(0.05)
        sys.exit(f"failed: waited for {pattern!r}:\n{picture}")

    def shows(self, name, sign):
        """Sooner or later it looks as the golden picture does."""
        if ARGS.update:
            self.wait(sign)
            time.sleep(0.5)
            golden.write(name, self.picture())
        wanted = golden.read(name)
        deadline = time.monotonic() + PATIENCE_S
        while self.picture() != wanted:
            check(time.monotonic() < deadline, f"differs from {name}:\n{self.picture()}")
            time.sleep(0.05)

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def leaves(self, status):
        """The shell is back, on the terminal as it was."""
        picture = self.wait("left with")
        check(f"left with {status}" in picture, picture)
        while not os.path.exists(f"{self.folder}/done"):
            time.sleep(0.05)
        modes = self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip()
        check(modes == "0 1", f"alternate screen and cursor: {modes}")
        with open(f"{self.folder}/before", encoding="ascii") as before, \
                open(f"{self.folder}/after", encoding="ascii") as after:
            check(before.read() == after.read(), "stty tells of another terminal")

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.env, check=False)


def pair(folder):
    return ["--snapshot", snapshots.job(f"{folder}/b", 110), "--since",
            snapshots.job(f"{folder}/a", 100)]


def pictures(folder, open_terminal):
    """Every view at 80x24, then at 200x50, in the same window."""
    terminal = open_terminal(80, 24, pair(folder))
    terminal.shows("top_screen_80_processes.txt", "4713 .*dead")
    for key, name, sign in (("2", "ports", "HW OUT"), ("3", "links", "NIC"),
                            ("4", "connections", "WAY"), ("5", "events", "KIND")):
        terminal.keys(key)
        terminal.shows(f"top_screen_80_{name}.txt", sign)
    terminal.keys("?")
    terminal.shows("top_screen_80_help.txt", "any key: back")
    terminal.keys("x", "4")
    terminal.wait("WAY")
    terminal.tmux("resize-window", "-x", "200", "-y", "50")
    terminal.shows("top_screen_200_connections.txt", "ERROR")
    terminal.keys("1")
    terminal.shows("top_screen_200_processes.txt", "LAST SIGN")
    terminal.tmux("resize-window", "-x", "20", "-y", "4")
    terminal.wait(r"\A.{1,20}\n")
    terminal.tmux("resize-window", "-x", "80", "-y", "24")
    terminal.wait(r"q quit.*help")
    terminal.keys("q")
    terminal.leaves(0)


def rows(picture):
    return re.findall(r"(?m)^ +(\d{3,7}) ", picture)


def keys(folder, open_terminal):
    """What each key does is to be seen."""
    terminal = open_terminal(80, 24, pair(folder))
    check(rows(terminal.wait("RANK\\^")) == ["4711", "4712", "4713"], "first order")
    terminal.keys("r")
    check(rows(terminal.wait("RANKv")) == ["4712", "4711", "4713"], "reversed; the dead stay last")
    terminal.keys("<")
    terminal.wait(r"PID\^")
    terminal.keys("Down", "Down")
    terminal.wait(r"pid 4713 python on node1 is dead, last sign of life 01-02 03:05:05")
    terminal.keys("d")
    check(rows(terminal.wait("4713 ", absent=True)) == ["4711", "4712"], "without the dead")
    terminal.keys("d")
    terminal.wait("(?m)^ +4713 ")
    terminal.keys("/")
    terminal.wait("show rows with: _")
    terminal.keys("4", "7", "1", "9", "BSpace", "2")
    check(rows(terminal.wait("show rows with: 4712_")) == ["4712"], "filtered")
    terminal.keys("Enter")
    terminal.wait("filter: 4712")
    terminal.keys("Escape")
    check(rows(terminal.wait("q quit")) == ["4711", "4712", "4713"], "all again")
    terminal.keys("t")
    terminal.wait("waits: whole")
    terminal.keys("Tab")
    terminal.wait("HW OUT")
    terminal.keys("q")
    terminal.leaves(0)


def strange(folder, open_terminal):
    """A kind of terminal that nobody knows is told, not guessed."""
    # ncurses keeps what it had allocated for a terminal that it then does not know.
    terminal = open_terminal(80, 24, pair(folder), TERM="nonsense",
                             ASAN_OPTIONS="detect_leaks=0")
    terminal.leaves(69)
    check("unknown kind (TERM)" in terminal.picture(), terminal.picture())


def live(folder, open_terminal):
    """Processes come and go while it looks; a signal leaves the terminal as it was."""
    segments = os.path.join(folder, "segments")
    os.mkdir(segments)
    terminal = open_terminal(80, 24, ["--dir", segments, "-i", "0.25"])
    terminal.wait("Its telemetry is off")
    mine = make_segment.busy(1, **make_segment.this_process())
    path = mine.write(segments)
    picture = terminal.wait(f"(?m)^ *{os.getpid()} .*live")
    check("1 process " in picture, picture)
    other = make_segment.busy(1, **make_segment.this_process() | {"pid": 77777})
    other.write(segments, lives=True)
    terminal.wait("(?m)^ *77777 .*live")
    make_segment.LOCKED.pop().close()
    terminal.wait("(?m)^ *77777 .*dead")
    os.unlink(path)
    terminal.wait(f"(?m)^ *{os.getpid()} ", absent=True)
    pid = terminal.tmux("display-message", "-p", "#{pane_pid}").strip()
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        os.kill(int(file.read().split()[0]), signal.SIGTERM)
    terminal.wait("left with")
    modes = terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip()
    check(modes == "0 1", f"alternate screen and cursor after a signal: {modes}")


CASES = {"pictures": pictures, "keys": keys, "live": live, "strange": strange}


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--update", action="store_true", help="write the golden files anew")
    parser.add_argument("case", choices=CASES)
    ARGS = parser.parse_args()
    if shutil.which("tmux") is None:
        sys.exit("failed: no tmux; tests/run.sh installs it")
    terminals = []

    def open_terminal(columns, lines, command, **variables):
        terminals.append(Terminal(folder, columns, lines, command, **variables))
        return terminals[-1]

    with tempfile.TemporaryDirectory() as folder:
        try:
            CASES[ARGS.case](folder, open_terminal)
        finally:
            for terminal in terminals:
                terminal.close()


if __name__ == "__main__":
    main()
