"""`sextant conform` on the fake net plugin: its list, options and report, and how it takes plugins
that crash, block or are not there.

Usage: test_conform.py SEXTANT FAKE_PLUGIN SOURCE CASE
"""
import json
import os
import socket
import subprocess
import sys

from schema import Checker

SEXTANT, FAKE, SOURCE, CASE = sys.argv[1:5]
QUICK = ("--check", "table.members", "--check", "order.fifo", "--check", "init.again")


def conform(*args, plugin=FAKE, env=None):
    """Runs to its end; answers (status, stdout, stderr)."""
    chosen = ("--plugin", plugin) if plugin else ()
    done = subprocess.run([SEXTANT, "conform", *chosen, *args], capture_output=True, text=True,
                          env={**os.environ, **(env or {})}, timeout=100, check=False)
    return done.returncode, done.stdout, done.stderr


def expect(status, texts, result):
    got, out, err = result
    missing = [text for text in texts if text not in out + err]
    if got != status or missing:
        sys.exit(f"expected status {status} and {texts}; got {got}\n{out}\n{err}")


def names():
    return [line.split()[0] for line in conform("--list", plugin=None)[1].splitlines()]


def case_list():
    """Each row has a name, a first version and a demand; the page explains every one."""
    for line in conform("--list", plugin=None)[1].splitlines():
        name, version, demand = line.split(maxsplit=2)
        if version not in ("v6", "v7", "v9", "v10", "v11") or not demand:
            sys.exit(f"a row that is not whole: {line}")
        with open(f"{SOURCE}/docs/conform.md", encoding="utf-8") as page:
            if f"`{name}`" not in page.read():
                sys.exit(f"docs/conform.md says nothing of {name}")
    if len(names()) != len(set(names())) or len(names()) < 50:
        sys.exit("names are not unique, or too few")


def case_usage():
    """What is wrong with the command line, and what could have been meant."""
    expect(64, ["--plugin FILE"], conform(plugin=None))
    expect(64, ["did you mean 'order.fifo'"], conform("--check", "order.fito"))
    expect(64, ["--skip: there is no check 'fifo'"], conform("--skip", "fifo"))
    expect(64, ["cannot be given together"], conform("--skip", "reload", "--check", "reload"))
    expect(64, ["--abi must be 6..12 (got '13')"], conform("--abi", "13"))
    expect(64, ["--hosts 2 needs --ranks 2"], conform("--hosts", "2"))
    expect(64, ["--ranks must be 1..2"], conform("--ranks", "3"))
    expect(64, ["no argument"], conform("extra"))
    expect(64, ["none of WARN, INFO, TRACE"], conform("--debug", "LOUD"))
    expect(69, ["cannot use the plugin", "nowhere"], conform(plugin="/nowhere/libnone.so"))
    expect(69, ["no NCCL net plugin"], conform(plugin="libm.so.6"))
    expect(69, ["devices() gives"], conform("--dev", "99"))
    expect(69, ["init() gives"], conform(env={"SXT_FAKE_FAULT": "init"}))


def case_report():
    """One line per check in 80 columns, and the statuses that go with them."""
    expect(0, ["# Fake, net v12, ", "ok    table.members\n", "ok    order.fifo\n",
               "3 checks, 0 failed\n"], conform(*QUICK))
    expect(0, ["n/a   init.again: needs v11\n"], conform("--abi", "6", *QUICK))
    expect(0, ["1 check, 0 failed\n"], conform("--check", "reload", "--check", "reload"))
    skip = [word for name in names() if name != "reload" for word in ("--skip", name)]
    expect(0, ["ok    reload\n1 check, 0 failed\n"], conform(*skip))
    result = conform("--abi", "all", *QUICK)
    expect(0, ["net v6", "net v12", "21 checks, 0 failed\n"], result)
    result = conform(*QUICK, env={"SXT_FAKE_FAULT": "corrupt:7:3"})
    expect(1, ["FAIL  order.fifo: byte 512 of a message of 1024 bytes is wrong", "must: ", "why: ",
               "3 checks, 1 failed\n"], result)
    long = [line for line in result[1].splitlines()[1:] if len(line) > 80]
    if long or any(line != line.rstrip() for line in result[1].splitlines()):
        sys.exit(f"too wide, or blanks at the end: {result[1]}")


def case_json():
    """The document fits its schema, whether checks fail or not."""
    with open(f"{SOURCE}/docs/schema/conform.json", encoding="utf-8") as file:
        schema = json.load(file)
    for env, verdict, failed in ({}, "ok", 0), ({"SXT_FAKE_FAULT": "error:7:3"}, "failed", 2):
        out = conform("--json", "--abi", "all", *QUICK, env=env)[1]
        document = json.loads(out)
        checker = Checker(schema)
        checker.check(document, schema)
        if checker.errors or document["verdict"] != verdict:
            sys.exit(f"{verdict}: {checker.errors}\n{out}")
        if document["checks_cnt"] != 21 or (document["failed_cnt"] > 0) != (failed > 0):
            sys.exit(f"counts are wrong\n{out}")


def case_crash():
    """A plugin that dies or blocks in a call is one failed check, whatever process it was in."""
    one = ("--check", "order.fifo", "--check", "table.members", "--timeout", "2")
    for ranks, who in ("1", "the process"), ("2", "the sender's process"):
        expect(1, [f"FAIL  order.fifo: {who} was killed by SIGKILL in", "2 checks, 1 failed"],
               conform("--ranks", ranks, *one, env={"SXT_FAKE_FAULT": "die:7:3"}))
        expect(1, [f"{who} does not", "end: 2 s are over", "isend()"],
               conform("--ranks", ranks, *one, env={"SXT_FAKE_FAULT": "block:7:3"}))
    expect(1, ["isend() gives ncclSystemError", "fails as asked"],
           conform("--ranks", "2", *one, env={"SXT_FAKE_FAULT": "error:7:3"}))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def case_launcher():
    """Two processes of a launcher hold an end each; rank 0 tells what both saw."""
    for fault, status, text in ((None, 0, "3 checks, 0 failed"),
                                ("error:7:3", 1, "FAIL  order.fifo: the sender's process")):
        env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": free_port()}
        if fault:
            env["SXT_FAKE_FAULT"] = fault
        ranks = [subprocess.Popen([SEXTANT, "conform", "--plugin", FAKE, "--check", "order.fifo",
                                   "--check", "group.tags", "--check", "table.name"],
                                  env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for rank in (0, 1)]
        first, second = (rank.communicate(timeout=90)[0] for rank in ranks)
        if ranks[0].returncode != status or text not in first or second:
            sys.exit(f"{fault}: {ranks[0].returncode}\n{first}\nrank 1:\n{second}")
    expect(64, ["a connection has 2"],
           conform(env={"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1"}))


globals()["case_" + CASE]()
