#!/usr/bin/env python3
"""`sextant top` and `sextant snapshot` on segments and snapshots with known contents.

usage: test_top.py --sextant FILE --source DIR CASE
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import snapshots
import golden
import schema
from golden import check
from snapshots import NS, make_segment

ARGS = None


def sextant(*arguments, status=0, **variables):
    env = {key: value for key, value in os.environ.items() if not key.startswith("SEXTANT_")}
    env |= {"TZ": "UTC", "LANG": "C.UTF-8"} | variables
    done = subprocess.run([ARGS.sextant, *arguments], stdin=subprocess.DEVNULL, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    check(done.returncode == status, f"{arguments}: exit {done.returncode}\n{out}\n{err}")
    check("\033" not in out, f"{arguments}: escapes, and it is no terminal")
    return out, err


def compare(name, text):
    golden.compare(name, text, ARGS.update)


def pair(folder, at=110):
    return ["--snapshot", snapshots.job(f"{folder}/after", at),
            "--since", snapshots.job(f"{folder}/before", 100)]


def once(folder, at=110):
    """10 s lie between the two: 10 GB/s out and 8 in, of each of two processes."""
    out, _ = sextant("top", "--once", "--width", "80", *pair(folder, at))
    for line in out.splitlines():
        check(len(line) <= 80, f"wider than 80: {line}")
    compare("top_once_80.txt", out)
    out, _ = sextant("top", *pair(folder))
    compare("top_once_wide.txt", out)


def planted(folder):
    """The golden picture is of other numbers: it has to differ."""
    once(folder, at=112)


def document(*arguments, **variables):
    out, err = sextant("top", "--json", *arguments, **variables)
    check(err == "", err)
    parsed = json.loads(out)
    errors = schema.faults(os.path.join(ARGS.source, "docs/schema/top.json"), parsed)
    check(not errors, "\n".join(errors))
    return parsed


def as_json(folder):
    whole = document(*pair(folder))
    first = whole["processes"][0]
    check(whole["interval_s"] == 10 and whole["host"] == "node1", "time or host")
    check(abs(first["out"]["now_gb_per_s"] - 10) < 1e-9, f"now {first['out']}")
    check(abs(first["out"]["average_gb_per_s"] - 10) < 1e-9, f"average {first['out']}")
    check(first["out"]["bytes"] == 1100 * NS and first["state"] == "live", "bytes or state")
    peer = first["waits_now"]["peer"]
    check(10 < peer["p50_us"] < 13 and 2000 < peer["p99_us"] < 4000, f"waits {peer}")
    dead = whole["processes"][2]
    check(dead["state"] == "dead" and dead["out"]["now_gb_per_s"] is None, "the dead one")
    check(dead["last_sign_s"] == 1_767_323_105, f"last sign {dead['last_sign_s']}")
    ports = {port["port"]: port for port in whole["ports"]}
    check(abs(ports["mlx5_0:1"]["out"]["hardware_gb_per_s"] - 11) < 1e-9, "hardware")
    check(ports["mlx5_7:1"]["state"] == "left_out" and ports["mlx5_7:1"]["users"] == 2, "users")
    failed = [row for row in whole["connections"] if row["state"] == "failed"]
    check(len(failed) == 1 and "retries exceeded" in failed[0]["error"], f"failed {failed}")
    single = document("--snapshot", f"{folder}/after")
    check(single["interval_s"] is None, "an interval of one moment")
    check(single["processes"][0]["out"]["now_gb_per_s"] is None, "a rate of one moment")


def choices(folder):
    """What the tuner chose, of a living process and out of a snapshot of it."""
    segment = make_segment.Segment(pid=1)
    segment.add_choice(4, 0, 0, {0: 3, 1024: 5, 5000: 2})
    segment.add_choice(4, 1, 2, {})
    segment.add_choice(4, make_segment.LEFT, make_segment.LEFT, {1 << 20: 7})
    segment.add_choice(99, 98, 97, {1 << 40: 1})
    segment.write(folder, lives=True)
    text = ("pid 1 tuner: allreduce: tree/ll 0 3, 1K 5, 4K 2; left to NCCL 1M 7; ?: ?/? 1G 1")
    listed = [
        {"collective": "allreduce", "algorithm": "tree", "protocol": "ll",
         "sizes": [{"from_bytes": 0, "calls": 3}, {"from_bytes": 1024, "calls": 5},
                   {"from_bytes": 4096, "calls": 2}]},
        {"collective": "allreduce", "algorithm": None, "protocol": None,
         "sizes": [{"from_bytes": 1 << 20, "calls": 7}]},
        {"collective": "?", "algorithm": "?", "protocol": "?",
         "sizes": [{"from_bytes": 1 << 30, "calls": 1}]}]
    sextant("snapshot", "--dir", folder, folder + "/taken")
    for source in (["--dir", folder], ["--snapshot", folder + "/taken"]):
        out, _ = sextant("top", "--once", *source)
        check(text in out, f"'{text}' is not in:\n{out}")
        told = document(*source)["processes"][0]["choices"]
        check(told == listed, str(told))


def empty(folder):
    out, _ = sextant("top", "--dir", folder)
    for word in (folder, "SEXTANT_TELEMETRY=0", "hostIPC", "another user", "NCCL_NET=Sextant"):
        check(word in out, f"'{word}' is not in:\n{out}")
    check(document("--dir", folder)["processes"] == [], "processes of nothing")
    out, _ = sextant("top", "--dir", folder + "/none", status=69)
    check("No such file" in out, out)


def broken(folder):
    """One that is fine, one of another version, one damaged, one cut short, one being made."""
    make_segment.Segment(pid=1).write(folder, lives=True)
    make_segment.Segment(pid=2, version=2).write(folder)
    make_segment.Segment(pid=3, magic=7).write(folder)
    path = make_segment.Segment(pid=4).write(folder)
    os.truncate(path, 5000)
    make_segment.Segment(pid=5, state=0).write(folder)
    out, _ = sextant("top", "--dir", folder, "-i", "0.1")
    check("1 process " in out, out)
    uid = os.getuid()
    check(f"sextant-{uid}-2-1000: of another version" in out, out)
    check(f"sextant-{uid}-3-1000: no telemetry segment, or damaged" in out, out)
    check(f"sextant-{uid}-4-1000: no telemetry segment, or damaged" in out, out)
    check(f"sextant-{uid}-5-" not in out, out)
    found = {row["segment"]: row["error"] for row in document("--dir", folder)["unreadable"]}
    check(found == {f"sextant-{uid}-2-1000": "EPROTONOSUPPORT",
                    f"sextant-{uid}-3-1000": "EPROTO", f"sextant-{uid}-4-1000": "EPROTO"},
          str(found))


def foreign(folder):
    """Another user's segments are counted and not read."""
    path = make_segment.Segment(pid=1).write(folder)
    program = shutil.copy(ARGS.sextant, folder)
    os.chmod(folder, 0o755)
    os.chmod(path, 0o600 if os.getuid() == 0 else 0)
    done = subprocess.run([program, "top", "--dir", folder], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=60, check=False,
                          user=65534 if os.getuid() == 0 else None)
    lines = done.stdout.decode().splitlines()
    check(done.returncode == 0 and lines[0].startswith("1 segment of other users cannot be read"),
          f"exit {done.returncode}: {lines}")
    check(lines[1].startswith("No process of user "), f"{lines}")


def dead(folder):
    """A crash leaves a segment that says live; a process that left in order says so."""
    for segment in make_segment.job(100)[:1]:
        segment.write(folder, lives=False)
    make_segment.Segment(pid=9, state=2, rank=8,
                         closed_wall_ns=snapshots.TAKEN_NS + 7 * NS).write(folder)
    out, _ = sextant("top", "--dir", folder, "-i", "0.1", "--width", "80")
    check("2 processes, 2 gone" in out, out)
    check("pid 4711 dead: last sign of life 01-02 03:05:44" in out, out)
    check("pid 9 ended: last sign of life 01-02 03:04:12" in out, out)
    out, _ = sextant("top", "--dir", folder, "-i", "0.1", "--live", "-v", "processes")
    check("4711" not in out and "  none" in out, out)


def look(folder):
    """Sorting, filtering, and choosing a view."""
    both = pair(folder)
    out, _ = sextant("top", *both, "-v", "conn", "--sort", "avg", "-r")
    rows = [line.split()[0] for line in out.splitlines()[4:8]]
    check(out.splitlines()[1:2] == [""] and "processes\n" not in out, out)
    check(rows == ["4711", "4712", "4711", "4712"], f"{rows} in:\n{out}")
    out, _ = sextant("top", *both, "-v", "events", "-f", "RETRIES")
    check("retries exceeded" in out and "opened to" not in out, out)
    _, err = sextant("top", *both, "--sort", "COLOUR", status=64)
    check("processes have no column 'COLOUR'" in err, err)
    _, err = sextant("top", "--since", "x", status=64)
    check("--since goes with --snapshot" in err, err)
    _, err = sextant("top", "-i", "0.01", status=64)
    check("0.1..60" in err, err)


def snapshot(folder):
    """What was saved is what was there, counters included."""
    segments = os.path.join(folder, "segments")
    os.mkdir(segments)
    for segment in make_segment.job(100):
        segment.write(segments, lives=segment.facts["pid"] == 4711)
    make_segment.Segment(pid=3, magic=7).write(segments)
    root = os.path.join(folder, "root")
    for kind, name, value in (("counters", "port_xmit_data", 123), ("counters", "odd", "N/A"),
                              ("hw_counters", "out_of_sequence", 7)):
        path = f"{root}/sys/class/infiniband/mlx5_0/ports/1/{kind}"
        os.makedirs(path, exist_ok=True)
        with open(f"{path}/{name}", "w", encoding="ascii") as file:
            file.write(f"{value}\n")
    saved = os.path.join(folder, "saved")
    out, _ = sextant("snapshot", "--dir", segments, saved, SEXTANT_SYSROOT=root)
    check("3 segments, 2 counters" in out and "not in it: " in out, out)
    check(os.stat(saved).st_mode & 0o777 == 0o600, "others may read it")
    with tarfile.open(saved) as archive:
        names = archive.getnames()
        check(archive.extractfile(snapshots.TOP + "counters/mlx5_0/1/hw_counters/out_of_sequence")
              .read() == b"7\n", "counter")
    check(names[0] == "sextant-snapshot/manifest.json" and len(names) == 6, str(names))
    whole = document("--snapshot", saved)
    states = [(row["pid"], row["state"]) for row in whole["processes"]]
    check(states == [(4711, "live"), (4712, "dead"), (4713, "dead")], str(states))
    live = document("--dir", segments, "-i", "0.1")
    for kind in ("ports", "links", "events"):
        check([row.get("name") for row in whole[kind]] == [row.get("name") for row in live[kind]],
              kind)
    check([(row["traffic"]["bytes"], row["waits_whole"]) for row in whole["connections"]] ==
          [(row["traffic"]["bytes"], row["waits_whole"]) for row in live["connections"]],
          "connections differ from those of the segments")
    check(len(whole["unreadable"]) == 1, str(whole["unreadable"]))
    _, err = sextant("snapshot", "--dir", segments, saved, status=2)
    check("name another file" in err, err)
    os.mkdir(f"{folder}/none")
    out, _ = sextant("snapshot", "--dir", f"{folder}/none", f"{folder}/e", status=1)
    check("no segment could be read" in out, out)
    sextant("snapshot", "--dir", f"{folder}/missing", f"{folder}/f", status=69)
    _, err = sextant("snapshot", "--dir", segments, "/dev/full/x", status=2)


def refused(folder, words, status=2, **parts):
    segments = parts.pop("segments", make_segment.job(100)[:1])
    described = parts.pop("document", snapshots.manifest(segments, 100, {4711}))
    path = snapshots.write(f"{folder}/bad", segments, described, **parts)
    _, err = sextant("top", "--snapshot", path, status=status)
    check(words in err, f"'{words}' is not in: {err}")


def damaged(folder):
    """Each lie is told; bytes turned anywhere end in an answer, not in a signal."""
    segments = make_segment.job(100)[:1]
    fine = snapshots.manifest(segments, 100, {4711})
    refused(folder, "no manifest", document=None)
    refused(folder, "of version sextant.snapshot/2", document=fine | {"schema": "sextant.snapshot/2"})
    refused(folder, "something else", document={"schema": "sextant.top/1"})
    refused(folder, "does not have the segments", document=fine | {"segments": []})
    refused(folder, "not as it has to be", document=fine | {"taken_ns": "now"})
    refused(folder, "lacks a segment",
            document=fine | {"segments": [{"file": "x", "alive": True, "now_ticks": 1}]})
    refused(folder, "no number", counters={"mlx5_0/1/counters/a": "many"})
    refused(folder, "too large", counters={"mlx5_0/1/counters/a": "1" * 40})
    _, err = sextant("top", "--snapshot", f"{folder}/none", status=69)
    check("No such file" in err, err)
    path = snapshots.write(f"{folder}/plain", segments, fine, mode="w")
    with open(path, "rb") as file:
        whole = file.read()
    for at in [*range(0, 3000, 97), *range(3000, len(whole), 4999)]:
        for cut in (False, True):
            with open(path, "wb") as file:
                file.write(whole[:at] if cut else
                           whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1:])
            done = subprocess.run([ARGS.sextant, "top", "--json", "--snapshot", path],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                                  check=False)
            check(done.returncode in (0, 2), f"byte {at}: exit {done.returncode} {done.stderr}")
            check(done.returncode == 0 or done.stderr, f"byte {at}: not a word")


def docs(_):
    """The pictures in the documentation are those that are tested."""
    with open(os.path.join(ARGS.source, "docs/top.md"), encoding="utf-8") as file:
        page = file.read()
    for name in ("top_screen_80_processes.txt", "top_screen_200_connections.txt"):
        picture = "\n".join(line for line in golden.read(name).splitlines() if line)
        shown = "\n".join(line for line in page.splitlines() if line)
        check(picture in shown, f"docs/top.md does not have {name}")
    out, _ = sextant("top", "--help")
    for option in re.findall(r"--[a-z]+", out):
        check(option in page or option in ("--help", "--usage"), f"{option} is not in docs/top.md")


CASES = {"once": once, "planted": planted, "json": as_json, "choices": choices, "empty": empty,
         "broken": broken, "foreign": foreign,
         "dead": dead, "look": look, "snapshot": snapshot, "damaged": damaged, "docs": docs}


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--update", action="store_true", help="write the golden files anew")
    parser.add_argument("case", choices=CASES)
    ARGS = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        CASES[ARGS.case](folder)


if __name__ == "__main__":
    main()
