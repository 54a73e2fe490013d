#!/usr/bin/env python3
"""One rank of `sextant bench` is stopped: the rank that waits for it says so in its log.

usage: stalled.py SEXTANT
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 3
VICTIM = RANKS - 1
PATIENCE_S = 60
PROCESS = re.compile(r"^# +rank (\d+) on \S+ process (\d+),")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def wait_for(path, pattern):
    """Until a line of the log says it; answers the match."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = re.search(pattern, read(path))
        if found:
            return found
        time.sleep(0.1)
    sys.exit(f"failed: '{pattern}' is not in the log:\n{read(path)}")


def pids_of(bench):
    """By rank, as bench tells before it begins."""
    pids = {}
    for line in bench.stdout:
        found = PROCESS.match(line)
        if found:
            pids[int(found.group(1))] = int(found.group(2))
        if len(pids) == RANKS:
            return pids
    sys.exit(f"failed: bench ended with {bench.wait()}")


def wait_until_busy(pid):
    """A process that is stopped before it has all of its connections keeps others from theirs."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        out = subprocess.run([sys.argv[1], "top", "--json"], stdout=subprocess.PIPE, timeout=60,
                             check=True).stdout
        for process in json.loads(out)["processes"]:
            if process["pid"] == pid and process["out"]["bytes"] and process["in"]["bytes"]:
                return
        time.sleep(0.1)
    sys.exit(f"failed: process {pid} moves nothing")


def watch(bench, folder):
    pids = pids_of(bench)
    after = f"{folder}/{pids[0]}"
    before = f"{folder}/{pids[VICTIM - 1]}"
    wait_until_busy(pids[VICTIM])
    os.kill(pids[VICTIM], signal.SIGSTOP)
    # The ring goes from a rank to the next one, and from the last to the first.
    line = wait_for(after, r"WARN SENDER-LATE: rank 0 \(\S+\) waits for rank %d \(\S+:%d\) .*"
                    % (VICTIM, pids[VICTIM]))
    print(line.group(0))
    # Where the stopped rank had room for all that the one before it may send, that one waits for
    # the first rank, and so on to the stopped one.
    line = wait_for(before, r"WARN (PEER-LATE: rank %d \(\S+\) waits for (rank %d \()?\S+:%d\b|"
                    r"SENDER-LATE: rank %d \(\S+\) waits for rank 0 \(\S+:%d\)).*"
                    % (VICTIM - 1, VICTIM, pids[VICTIM], VICTIM - 1, pids[0]))
    print(line.group(0))


def main():
    env = os.environ | {"SEXTANT_TELEMETRY": "1", "SEXTANT_STALL_SECONDS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        env["SEXTANT_LOG_FILE"] = f"{folder}/%p"
        bench = subprocess.Popen(
            ["stdbuf", "-oL", sys.argv[1], "soft", "run", "--", sys.argv[1], "bench", "--ranks",
             str(RANKS), "--hosts", "2", "--pattern", "sendrecv", "-b", "1M", "-e", "1M", "-n",
             "1000000", "-w", "1", "-c", "0"],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True)
        try:
            watch(bench, folder)
        finally:
            os.killpg(bench.pid, signal.SIGKILL)  # the stopped one, too
            bench.wait()


main()
