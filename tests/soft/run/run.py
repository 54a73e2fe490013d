#!/usr/bin/env python3
"""`sextant soft run, show, set` as people use them: one case, each on a fabric of its own.

usage: run.py --sextant FILE --member FILE --root SOURCE_FOLDER CASE
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 50
PORT_ERR, PORT_ACTIVE, GID_CHANGE = 10, 9, 18


class Stage:
    """An installation with the command in it and a library that nobody loads."""

    def __init__(self, args, folder):
        self.folder = pathlib.Path(folder)
        self.member = args.member
        self.root = args.root
        self.sextant = self.folder / "bin" / "sextant"
        library = self.folder / "lib" / "sextant" / "soft"
        library.mkdir(parents=True)
        self.sextant.parent.mkdir()
        shutil.copy(args.sextant, self.sextant)
        (library / "libibverbs.so.1").touch()
        self.name = f"test-{os.getpid()}"
        self.environ = {key: value for key, value in os.environ.items()
                        if not key.startswith("SEXTANT_")}

    def soft_run(self, *arguments):
        return [self.sextant, "soft", "run", "--name", self.name, *arguments]

    def call(self, command, **more):
        return subprocess.run(command, env=self.environ, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False, **more)

    def start(self, command, **more):
        return subprocess.Popen(command, env=self.environ, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                **more)

    def states(self):
        base = pathlib.Path(f"/dev/shm/sextant-soft-{os.geteuid()}")
        return list(base.glob(f"*-{self.name}"))

    def show(self):
        done = self.call([self.sextant, "soft", "show", "--json", "--state", self.states()[0]])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def set(self, *arguments):
        return self.call([self.sextant, "soft", "set", "--state", self.states()[0], *arguments])

    def start_member(self, *options):
        process = self.start(self.soft_run(*options, "--", self.member))
        line = process.stdout.readline()
        assert line.startswith("attached "), (line, process.communicate())
        return process


def end(process, status=0):
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == status, (process.returncode, errors)


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def status(stage):
    """The command's status comes through; the wrapper's own are told apart."""
    for script, wanted in (("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143),
                           ("kill -KILL $$", 137)):
        done = stage.call(stage.soft_run("--", "sh", "-c", script))
        assert done.returncode == wanted, (script, done)
    done = stage.call(stage.soft_run("--", "/nowhere"))
    assert done.returncode == 127 and "/nowhere" in done.stderr, done
    done = stage.call(stage.soft_run("--", stage.folder))
    assert done.returncode == 126, done
    assert stage.call(stage.soft_run()).returncode == 64
    done = stage.call(stage.soft_run("--host", "c", "--", "true"))
    assert done.returncode == 64 and "no host 'c'" in done.stderr, done
    assert not stage.states()


def missing_library(stage):
    shutil.rmtree(stage.folder / "lib")
    done = stage.call(stage.soft_run("--", "true"))
    assert done.returncode == 69 and "libibverbs.so.1" in done.stderr, done


def bad_fabric(stage):
    path = stage.folder / "fabric.json"
    path.write_text('{"version": 1,\n "hots": []}')
    done = stage.call(stage.soft_run("--fabric", path, "--", "true"))
    assert done.returncode == 64, done
    assert f"{path}:2: the document: unknown key 'hots'; did you mean 'hosts'?" in done.stderr
    done = stage.call(stage.soft_run("--fabric", "/nowhere", "--", "true"))
    assert done.returncode == 64 and "No such file" in done.stderr, done


def forwarded_signal(stage):
    # Blocked and waited for: a handler would race with the call that waits.
    script = ("import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}); "
              "print('ready', flush=True); signal.sigwait({signal.SIGTERM}); sys.exit(5)")
    run = stage.start(stage.soft_run("--", sys.executable, "-c", script))
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=DEADLINE_S) == 5
    run.communicate()
    assert not stage.states()


def ignored_children(stage):
    """Started where SIGCHLD is ignored: the command's end is noticed, and it is ignored there."""
    script = "import signal; exit(7 if signal.getsignal(signal.SIGCHLD) else 8)"
    run = stage.start(stage.soft_run("--", sys.executable, "-c", script),
                      preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    try:
        assert run.wait(timeout=10) == 7
    finally:
        run.kill()
    run.communicate()
    assert not stage.states()


def environment(stage):
    done = stage.call(stage.soft_run("--host", "1", "--", "sh", "-c",
                                     'env; cat "$SEXTANT_SYSROOT"/sys/class/infiniband/mlx5_1/'
                                     'ports/1/gids/3'))
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert "SEXTANT_SOFT_HOST=b" in lines, lines
    assert lines[-1] == "0000:0000:0000:0000:0000:ffff:0a01:0102", lines
    library = next(line for line in lines if line.startswith("LD_LIBRARY_PATH="))
    assert library.split("=")[1].split(":")[0] == str(stage.folder / "lib" / "sextant" / "soft")


def joined(stage):
    """Two runs of one fabric see one state; it goes with the last of them."""
    a = stage.start_member("--host", "a")
    b = stage.start_member("--host", "b")
    assert len(stage.states()) == 1
    processes = stage.show()["processes"]
    assert [row["host"] for row in processes] == ["a", "b"], processes
    assert all(row["state"] == "alive" for row in processes), processes
    end(a)
    assert [row["host"] for row in stage.show()["processes"]] == ["b"]
    end(b)
    assert not stage.states()


def nested(stage):
    """A run inside a run takes part in the fabric around it, unless it asks for another."""
    inner = f"{stage.sextant} soft run --host b -- {stage.member} </dev/null"
    other = f"{stage.sextant} soft run --name {stage.name}-other -- " \
            "sh -c 'echo state $SEXTANT_SOFT_STATE'"
    done = stage.call(stage.soft_run("--", "sh", "-c",
                                     f"echo state $SEXTANT_SOFT_STATE; {inner}; {other}"))
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[1] == "attached 0" and lines[2] == lines[0] + "-other", lines
    assert not stage.states()


def killed_process(stage):
    """A process that is killed is marked dead, also by the run of another host."""
    a = stage.start_member("--host", "a")
    b = stage.start_member("--host", "b")
    victim = stage.show()["processes"][1]["pid"]
    b.send_signal(signal.SIGSTOP)  # only a's parent can notice
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: stage.show()["processes"][1]["state"] == "dead")
    b.send_signal(signal.SIGCONT)
    end(b, 137)
    done = stage.set("a", "kill")
    assert done.returncode == 0 and "1 killed" in done.stdout, done
    end(a, 137)
    assert not stage.states()


def killed_parent(stage):
    """What a killed run leaves is swept by the next one, once nobody uses it."""
    a = stage.start_member("--host", "a")
    member = stage.show()["processes"][0]["pid"]
    a.kill()
    a.wait(timeout=DEADLINE_S)
    left = stage.states()[0]
    name, stage.name = stage.name, f"{stage.name}-next"
    assert stage.call(stage.soft_run("--", "true")).returncode == 0
    assert left.exists(), "swept while a process uses it"
    os.kill(member, signal.SIGKILL)
    a.communicate(timeout=DEADLINE_S)  # its pipes close when it is gone

    def is_swept():
        assert stage.call(stage.soft_run("--", "true")).returncode == 0
        return not left.exists()

    wait_for(is_swept)
    stage.name = name


def left_behind(stage):
    """What the command leaves running ends with it, the deaf as well."""
    started = time.monotonic()
    done = stage.call(stage.soft_run("--", "sh", "-c",
                                     "sleep 1000 & setsid sleep 1001 & "
                                     "(trap '' TERM; sleep 1002; sleep 1003) & exit 3"))
    assert done.returncode == 3, done
    assert time.monotonic() - started < DEADLINE_S
    assert not stage.states()


def port_down(stage):
    """A port that goes down is down in sysfs, and every open context is told."""
    a = stage.start_member("--host", "a")
    b = stage.start_member("--host", "b")
    done = stage.set("a/mlx5_0:1", "state=down")
    assert done.returncode == 0 and "1 contexts told" in done.stdout, done
    assert a.stdout.readline() == f"event {PORT_ERR} 1\n"
    port = stage.states()[0] / "hosts/a/sys/class/infiniband/mlx5_0/ports/1"
    assert (port / "state").read_text() == "1: DOWN\n"
    assert (port / "phys_state").read_text() == "3: Disabled\n"
    assert "0 contexts told" in stage.set("a/mlx5_0:1", "state=down").stdout  # it is already
    assert stage.set("a/mlx5_0", "state=up").returncode == 0
    assert a.stdout.readline() == f"event {PORT_ACTIVE} 1\n"
    assert (port / "state").read_text() == "4: ACTIVE\n"
    stage.show()
    assert (port / "counters" / "link_downed").read_text() == "1\n"
    assert stage.set("b/mlx5_0:1", "event=GID_CHANGE").returncode == 0
    assert b.stdout.readline() == "event 18 1\n"
    end(a)
    end(b)


def armed_faults(stage):
    a = stage.start_member("--host", "a")
    assert stage.set("a/mlx5_0:1", "wc-error=RETRY_EXC_ERR", "count=2").returncode == 0
    assert stage.set("a/mlx5_1", "reg_error=ENOMEM").returncode == 0
    hcas = stage.show()["hosts"][0]["hcas"]
    assert hcas[0]["ports"][0]["armed"] == {"error": "RETRY_EXC_ERR", "count": 2}, hcas[0]
    assert hcas[1]["armed"] == {"error": "ENOMEM", "count": 1}, hcas[1]
    for arguments, message in (
            (("a/mlx5_0:1", "stat=down"), "unknown key 'stat'; did you mean 'state'?"),
            (("a/mlx5_0:1", "state=dwn"), "state: is 'dwn'; did you mean down"),
            (("a/mlx5_2", "reg-error=EIO"), "no HCA of host a named 'mlx5_2'; did you mean"),
            (("a/mlx5_0:2", "state=down"), "no port '2' of mlx5_0; expected 1..1"),
            (("a/mlx5_0:1", "state"), "'state' is no KEY=VALUE"),
            (("a/mlx5_0:1", "state=down", "state=active"), "'state=active' is given already"),
            (("a/mlx5_0:1", "target=a/mlx5_1:1", "state=down"), "is given already"),
            (("a/mlx5_0:1", "state=down", "at-ms=500"), "not for `soft set`"),
            (("a",), "expected a target and what to set")):
        done = stage.set(*arguments)
        assert done.returncode == 64 and message in done.stderr, (arguments, done)
    done = stage.set("b", "kill=3")
    assert done.returncode == 2 and "no such process" in done.stderr, done
    end(a)


def reachability(stage):
    """Networks and ports that drop are shown; the timeline and `soft set` change the latter."""
    path = stage.folder / "fabric.json"
    path.write_text(json.dumps({
        "version": 1,
        "hosts": [{"name": "a", "hcas": [{"ports": [{"network": "left"}, {}]}]}],
        "faults": [{"target": "a/mlx5_0:2", "drop": True}]}))  # before anything is there

    def seen(member):
        return [port[member] for port in stage.show()["hosts"][0]["hcas"][0]["ports"]]

    a = stage.start_member("--fabric", path)
    assert seen("network") == ["left", ""], seen("network")
    assert seen("drop") == [False, True], seen("drop")
    assert seen("state") == ["active", "active"], seen("state")
    shown = stage.call([stage.sextant, "soft", "show", "--state", stage.states()[0]]).stdout
    assert "network left" in shown and "drop=on" in shown, shown
    done = stage.set("a/mlx5_0:2", "drop=off")
    assert done.returncode == 0 and done.stdout == "a/mlx5_0:2 drop=off: done\n", done
    assert seen("drop") == [False, False], seen("drop")
    done = stage.set("a/mlx5_0:2", "drop=onn")
    assert done.returncode == 64 and "did you mean on" in done.stderr, done
    end(a)


def moving_gids(stage):
    """An entry of a GID table moves, is renamed or goes, in sysfs as well; each context hears."""
    a = stage.start_member()
    table = f"{stage.states()[0]}/hosts/a/sys/class/infiniband/mlx5_0/ports/1"

    def gids():
        ports = stage.show()["hosts"][0]["hcas"][0]["ports"][0]["gids"]
        return [(gid["gid"], gid["type"]) for gid in ports]

    def read(name):
        path = pathlib.Path(table, name)
        return path.read_text(encoding="utf-8").strip() if path.exists() else None

    link, address = gids()[1], gids()[3]
    done = stage.set("a/mlx5_0:1", "gid=3", "to=1")
    assert done.stdout == "a/mlx5_0:1 gid=3 to=1: 1 contexts told\n", done
    assert a.stdout.readline() == f"event {GID_CHANGE} 1\n"
    assert (gids()[1], gids()[3]) == (address, link), gids()
    assert read("gids/3").startswith("fe80:"), read("gids/3")
    done = stage.set("a/mlx5_0:1", "gid=1", "to=::ffff:10.9.9.9")
    assert done.returncode == 0 and gids()[1] == ("::ffff:10.9.9.9", "roce_v2"), (done, gids())
    assert read("gids/1") == "0000:0000:0000:0000:0000:ffff:0a09:0909", read("gids/1")
    done = stage.set("a/mlx5_0:1", "gid=3", "to=::")
    assert done.returncode == 0 and gids()[3][0] == "::", (done, gids())
    assert read("gid_attrs/types/3") is None and read("gid_attrs/ndevs/3") is None
    assert read("gid_attrs/types/1") == "RoCE v2" and read("gid_attrs/ndevs/1") == "eth0"
    done = stage.set("b/mlx5_0:1", "gid=1", "to=::ffff:10.9.9.9")
    assert done.returncode == 2 and "another port has this address" in done.stderr, done
    done = stage.set("b/mlx5_0:1", "gid=1")
    assert done.returncode == 64 and "gid lacks to" in done.stderr, done
    end(a)


def timeline(stage):
    """A fabric file's faults come in their order, without anybody asking."""
    path = stage.folder / "fabric.json"
    path.write_text(json.dumps({
        "version": 1, "hosts": [{"name": "x", "hcas": [{}]}],
        "faults": [{"at_ms": 30, "target": "x", "kill": "all"},
                   {"at_ms": 10, "target": "x/mlx5_0:1", "state": "down"},
                   {"at_ms": 20, "target": "x/mlx5_0", "reg_error": "EIO"}]}))
    port = '"$SEXTANT_SYSROOT"/sys/class/infiniband/mlx5_0/ports/1/state'
    done = stage.call(stage.soft_run("--fabric", path, "--", "sh", "-c",
                                     f"until grep -q DOWN {port}; do :; done"))
    assert done.returncode == 0, done
    member = stage.start(stage.soft_run("--fabric", path, "--", "sh", "-c",
                                        f"{stage.member}; echo ended"))
    _, errors = member.communicate(timeout=DEADLINE_S)
    lines = [line for line in errors.splitlines() if " at " in line]
    assert [line.split("ms: ")[1] for line in lines[:2]] == \
        ["x/mlx5_0:1 state=down", "x/mlx5_0 reg_error=EIO count=1"], errors


def finding_the_state(stage):
    """Without --state a command takes the fabric that its environment names."""
    done = stage.call(stage.soft_run("--", stage.sextant, "soft", "show"))
    assert done.returncode == 0 and "host b" in done.stdout, done
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout
    done = stage.call(stage.soft_run("--", "python3", stage.root / "tests/unit/cli/schema.py",
                                     stage.root / "docs/schema/soft-show.json", stage.sextant,
                                     "soft", "show", "--json"))
    assert done.returncode == 0, done
    done = stage.call([stage.sextant, "soft", "show", "--state", stage.folder])
    assert done.returncode == 2 and "sextant soft run" in done.stderr, done
    done = stage.call([stage.sextant, "soft", "shw"])
    assert done.returncode == 64 and "did you mean 'show'" in done.stderr, done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--member", required=True)
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("case")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sxt-run-") as folder:
        globals()[args.case](Stage(args, folder))


main()
