#!/usr/bin/env python3
"""`sextant doctor pairs`: two doctors on hosts of a software fabric, whole and with things planted.

Where a fabric cannot have a trouble, a man in the middle changes what one doctor tells the other,
and the report of the one that was lied to is looked at.
"""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_S = 120
PROMPT = re.compile(rb"type on the other host: sextant doctor pairs (\S+):(\d+)")
BY_EXIT = {0: "ok", 1: "warning", 2: "broken"}
# What CPU time the doctors got is no trouble of the fabric's.
HARMLESS = {"pairs-below-line"}
# No fabric has one slow way between fast ports; tests/unit/cli/doctor/test_pairs.c has matrices.
ELSEWHERE = {"pairs-slow", "pairs-slow-host"}


class Failure(Exception):
    """A doctor did not do what it must."""


def need(condition, text):
    if not condition:
        raise Failure(text)


def port(**what):
    """Slow enough that memory is no limit: 2.5 Gb/s, of which a fifth is modelled."""
    return {"ports": [{"width": "1x", "speed": "SDR", "bandwidth_gbps": 0.5, **what}]}


def gid(text, kind="roce_v2"):
    return {"gid": text, "type": kind}


def ipv4(last, kind="roce_v2"):
    return [gid(f"::ffff:10.0.0.{last}", kind)]


def fabric(a, b, faults=()):
    return {"version": 1, "hosts": [{"name": "a", "hcas": a}, {"name": "b", "hcas": b}],
            "faults": list(faults)}


class Doctors:
    """Two doctors, on host b the listening one, on host a the one that calls."""

    def __init__(self, args, what):
        self.args = args
        self.folder = tempfile.TemporaryDirectory()
        self.fabric = os.path.join(self.folder.name, "fabric.json")
        with open(self.fabric, "w", encoding="utf-8") as file:
            json.dump(what, file)
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.folder.cleanup()

    def start(self, host, *arguments, sextant=None, **variables):
        name = os.path.join(self.folder.name, f"{host}{len(self.processes)}")
        env = dict(os.environ, NCCL_SOCKET_IFNAME="lo", **variables)
        process = subprocess.Popen(
            [self.args.sextant, "soft", "run", "--name", os.path.basename(self.folder.name),
             "--fabric", self.fabric, "--host", host, "--", sextant or self.args.sextant, "doctor",
             "pairs", *arguments],
            stdout=open(name + ".out", "wb"), stderr=open(name + ".err", "wb"), env=env,
            start_new_session=True)
        process.files = name
        self.processes.append(process)
        return process

    def listen(self, *arguments, **variables):
        """The listening doctor, and where it listens."""
        process = self.start("b", "--listen", *arguments, **variables)
        match = self.wait_for(process, PROMPT)
        return process, (match.group(1).decode(), int(match.group(2)))

    def wait_for(self, process, pattern):
        """A pattern of what it says on standard error; bounded by its own death or the limit."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            match = re.search(pattern, said(process))
            if match is not None:
                return match
            need(process.poll() is None, f"ended early: {said(process)!r}")
            time.sleep(0.02)
        raise Failure(f"never said {pattern!r}: {said(process)!r}")

    def end(self, process):
        """Exit status, output, what was said."""
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"hangs: {said(process)!r}") from error
        with open(process.files + ".out", encoding="utf-8") as file:
            return status, file.read(), said(process).decode(errors="replace")


def said(process):
    with open(process.files + ".err", "rb") as file:
        return file.read()


class Middle(threading.Thread):
    """Stands between the doctors and changes lines. @change: (who, document) -> None, where who is
    "caller" or "listener", the one that said it."""

    def __init__(self, target, change):
        super().__init__(daemon=True)
        self.target = target
        self.change = change
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.start()

    def run(self):
        caller, _ = self.socket.accept()
        listener = socket.create_connection(self.target)
        ways = [threading.Thread(target=self.carry, args=way, daemon=True)
                for way in (("caller", caller, listener), ("listener", listener, caller))]
        for way in ways:
            way.start()

    def carry(self, who, source, sink):
        try:
            for line in source.makefile("rb"):
                document = json.loads(line)
                self.change(who, document)
                sink.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            pass  # one end ended in the middle, which its exit status tells
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR if end is source else socket.SHUT_WR)
            except OSError:
                pass


def check_document(args, status, text):
    """The document, valid and in accord with the exit status."""
    need(status in BY_EXIT, f"exit {status}")
    document = json.loads(text)
    checker = args.schema_module.Checker(args.schema_text)
    checker.check(document, args.schema_text)
    need(not checker.errors, "\n".join(checker.errors[:10]))
    need(document["verdict"] == BY_EXIT[status], f"verdict {document['verdict']}, exit {status}")
    return document


def found(document):
    return {(row["id"], row["object"]) for row in document["findings"]
            if row["id"] not in HARMLESS}


def mirrored(rows):
    """What the other host's report has instead."""
    arrows = {"->": "<-", "<-": "->"}
    turned = set()
    for name, thing in rows:
        words = thing.split()
        if len(words) == 3 and words[1] in arrows:
            one_sided = name in ("pairs-slow", "pairs-large", "pairs-one-way")
            thing = f"{words[2]} {arrows[words[1]] if one_sided else words[1]} {words[0]}"
        thing = re.sub(r" (here|there)$",
                       lambda match: " there" if match[1] == "here" else " here", thing)
        turned.add((name, thing))
    return turned


def meet(args, what, **variables):
    """Both documents of a meeting, the caller's first."""
    with Doctors(args, what) as doctors:
        listener, (host, number) = doctors.listen("--json")
        caller = doctors.start("a", f"{host}:{number}", "--json", **variables)
        ends = [doctors.end(caller), doctors.end(listener)]
    return [check_document(args, status, text) for status, text, _ in ends]


def expect(args, what, rows, sets=(None, None), text="", **variables):
    """Findings of the caller, their mirror image on the listener, and what to set on a and b."""
    rows = {tuple(row.split(" ", 1)) for row in rows}
    documents = meet(args, what, **variables)
    for document, wanted in zip(documents, (rows, mirrored(rows))):
        need(found(document) == wanted,
             f"{document['here']['name']} found {sorted(found(document))}, not {sorted(wanted)}")
        args.shown |= {row[0] for row in found(document)}
    told = [row["seen"] for row in documents[0]["findings"]]
    need(any(text in row for row in told), f"'{text}' is not in {told}")
    for document, wanted in zip(documents, (sets, sets[::-1])):
        got = (document["here"]["set_nccl_ib_hca"], document["there"]["set_nccl_ib_hca"])
        need(got == wanted, f"{document['here']['name']} says to set {got}, not {wanted}")
    return documents[0]


def pair_of(document, here, there):
    return next(row for row in document["pairs"] if (row["here"], row["there"]) == (here, there))


def case_healthy(args):
    document = expect(args, fabric([port(), port()], [port(), port()]), [])
    need(document["rails"] == 1, "not one rail")
    for row in document["pairs"]:
        need(row["state"] == "good" and row["out"]["mbps"] > 0 and row["in"]["mbps"] > 0, str(row))


def case_rail_only(args):
    rails = [port(network=f"rail{i}") for i in range(4)]
    documents = meet(args, fabric(rails, rails))
    for document in documents:
        names = {row["id"] for row in document["findings"]} - HARMLESS
        need(names == {"pairs-rails", "pairs-apart"}, f"found {names}")
        need(document["rails"] == 4, f"{document['rails']} rails")
        need(document["here"]["set_nccl_ib_hca"] is None, "wants something set")
        seen = next(row for row in document["findings"] if row["id"] == "pairs-apart")["seen"]
        need(re.search(r"different subnets 10\.\d\.1\.0/24 and 10\.\d\.1\.0/24", seen), seen)
        args.shown |= names


def case_crossed_rails(args):
    a = [port(network=f"rail{i}", gids=ipv4(1 + i)) for i in range(2)]
    b = [port(network=f"rail{1 - i}", gids=ipv4(11 + i)) for i in range(2)]
    expect(args, fabric(a, b),
           ["pairs-rails all ports", "pairs-silent mlx5_0:1 -> mlx5_0:1",
            "pairs-silent mlx5_1:1 -> mlx5_1:1"],
           ("=mlx5_0:1:0,mlx5_1:1:1", "=mlx5_0:1:1,mlx5_1:1:0"),
           "no acknowledgement in 2 s: both seem to be in 10.0.0.0/24")


def case_dropping(args):
    expect(args, fabric([port(), port()], [port(), port()],
                        [{"target": "a/mlx5_0:1", "drop": True}]),
           ["pairs-alone mlx5_0:1 here"], ("=mlx5_1:1", None), "no acknowledgement in 2 s")


def case_one_pair(args):
    """Of four pairs one works: the ports of the others are left out."""
    a = [port(network="x"), port(network="p")]
    b = [port(network="x"), port(network="q")]
    expect(args, fabric(a, b), ["pairs-alone mlx5_1:1 here", "pairs-alone mlx5_1:1 there"],
           ("=mlx5_0:1", "=mlx5_0:1"))


def case_down(args):
    document = expect(args, fabric([port(), port(state="down")], [port(), port()]),
                      ["pairs-left-out a"])
    need("mlx5_1:1" in document["here"]["left_out"], document["here"]["left_out"])


def case_excluded(args):
    document = expect(args, fabric([port(), port()], [port(), port(), port()]),
                      ["pairs-left-out a"], text="NCCL_IB_HCA==mlx5_1 excludes it",
                      NCCL_IB_HCA="=mlx5_1")
    need(len(document["pairs"]) == 3, "not 1 x 3 pairs")


def case_mixed_mtu(args):
    expect(args, fabric([port()], [port(mtu=1024)]), ["pairs-mtu mlx5_0:1 -> mlx5_0:1"],
           text="4096 here, 1024 there")


def case_versions(args):
    a = [port(gids=ipv4(1, "roce_v1"))]
    b = [port(gids=ipv4(2, "roce_v2"))]
    expect(args, fabric(a, b), ["pairs-none all pairs", "pairs-unfit mlx5_0:1 -> mlx5_0:1"],
           text="RoCE v1 IPv4 here, RoCE v2 IPv4 there")


def case_families(args):
    """One port of four fits none of the other host's."""
    a = [port(gids=ipv4(1)), port(gids=[gid("fd00::1")])]
    b = [port(gids=ipv4(2)), port(gids=ipv4(3))]
    expect(args, fabric(a, b), ["pairs-alone mlx5_1:1 here"], ("=mlx5_0:1", None),
           "RoCE v2 IPv6 here, RoCE v2 IPv4 there")


def case_infiniband(args):
    ib = [port(link_layer="infiniband"), port(link_layer="infiniband")]
    document = expect(args, fabric(ib, ib), [])
    need(document["here"]["ports"][0]["link_layer"] == "infiniband", "no InfiniBand")


def case_unequal(args):
    expect(args, fabric([port()] * 3, [port()]), [])


def case_speeds(args):
    """100 against 200 is told, and is no fault."""
    expect(args, fabric([port()], [port(width="2x")]), ["pairs-speed mlx5_0:1 -> mlx5_0:1"])


def case_slow_port(args):
    document = expect(args, fabric([port()] * 3, [port(), port(), port(bandwidth_gbps=0.1)]),
                      ["pairs-slow-port mlx5_2:1 there"])
    need(pair_of(document, "mlx5_0:1", "mlx5_2:1")["in"]["slow"], "the pair is not slow")
    need(not pair_of(document, "mlx5_0:1", "mlx5_1:1")["in"]["slow"], "another pair is slow")


def lied_to(args, change, rows, text="", what=None):
    """Findings of the caller when somebody changes what is said."""
    what = what or fabric([port(), port()], [port(), port()])
    with Doctors(args, what) as doctors:
        listener, target = doctors.listen("--json")
        middle = Middle(target, change)
        caller = doctors.start("a", middle.address, "--json")
        status, output, _ = doctors.end(caller)
        doctors.end(listener)
    document = check_document(args, status, output)
    rows = {tuple(row.split(" ", 1)) for row in rows}
    need(found(document) == rows, f"found {sorted(found(document))}, not {sorted(rows)}")
    told = [row["seen"] for row in document["findings"]]
    need(any(text in row for row in told), f"'{text}' is not in {told}")
    args.shown |= {row[0] for row in found(document)}
    return document


def case_large(args):
    state = {"cnt": 0}

    def change(who, document):
        if who == "listener" and document.get("step") == "measured":
            state["cnt"] += 1
            if state["cnt"] == 2:
                document["said"][0] = [0, ""]

    document = lied_to(args, change, ["pairs-large mlx5_0:1 <- mlx5_0:1"],
                       text="writes of 256 KiB in packets of 4096 bytes")
    need(document["here"]["set_nccl_ib_hca"] is not None or
         document["there"]["set_nccl_ib_hca"] is not None, "nothing is left out")


def case_late(args):
    """The first probe of the first pair is said to have failed, to both."""
    state = {"caller": 0, "listener": 0}

    def change(who, document):
        if document.get("step") == "probed":
            state[who] += 1
            if state[who] == 1:
                document["said"][0][0] = False

    lied_to(args, change, ["pairs-late mlx5_0:1 -> mlx5_0:1"], text="it took 2 tries")


def case_one_way(args):
    def change(who, document):
        if who == "listener" and document.get("step") == "probed":
            document["said"][0] = [False, "planted"]
        if who == "caller" and document.get("step") == "probed":
            document["said"][0] = [False, ""]

    lied_to(args, change, ["pairs-one-way mlx5_0:1 <- mlx5_0:1"], text="planted")


def case_refused(args):
    def change(who, document):
        if document.get("step") == "joined":
            document["said"][0] = [False, "the other said \033[31mno"]

    same = fabric([port(gids=ipv4(1)), port(gids=ipv4(2))],
                  [port(gids=ipv4(3)), port(gids=ipv4(4))])
    lied_to(args, change, ["pairs-refused mlx5_0:1 -> mlx5_0:1"],
            text="there: the other said ?[31mno", what=same)


def case_unmade(args):
    def change(_, document):
        if document.get("step") == "queue pairs":
            document["said"][0] = [0, 0]

    lied_to(args, change, ["pairs-unmade mlx5_0:1 -> mlx5_0:1"])


def case_text(args):
    """The report for people: 80 columns at 8 x 8, no colours in a file, the same on both ends."""
    eight = [port() for _ in range(8)]
    with Doctors(args, fabric(eight, eight[:7] + [port(network="elsewhere")])) as doctors:
        listener, (host, number) = doctors.listen()
        caller = doctors.start("a", f"{host}:{number}")
        reports = [doctors.end(caller), doctors.end(listener)]
    for status, text, _ in reports:
        need(status == 1, f"exit {status}: {text}")
        need("\033" not in text, "colours, and nobody looks")
        wide = [line for line in text.splitlines() if len(line) > 80 and "export" not in line]
        need(not wide, f"wider than 80: {wide}")
        need("[pairs-alone]" in text and "Check its cable" in text, text)
    need("For these two hosts, on b (there):\n  export NCCL_IB_HCA='=mlx5_0:1," in reports[0][1],
         reports[0][1])
    need("on b (here):" in reports[1][1], reports[1][1])


def case_foreign_caller(args):
    """Whoever else comes is sent away, and the doctor waits on."""
    rubbish = [b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff" * 100 + b"\n", b"{}\n", b"[]\n", b"\n",
               b"x" * 200000, b"{" * 60000 + b"\n", b""]
    with Doctors(args, fabric([port()], [port()])) as doctors:
        listener, (host, number) = doctors.listen()
        for bytes_sent in rubbish:
            with socket.create_connection((host, number)) as visitor:
                try:
                    visitor.sendall(bytes_sent)
                    visitor.shutdown(socket.SHUT_WR)
                    need(b"sextant_pairs" not in visitor.recv(100000), "answers a stranger")
                except OSError:
                    pass  # sent away before it had said all
        status, _, text = doctors.end(doctors.start("a", f"{host}:{number}"))
        need(status == 0, f"exit {status}: {text}")
        status, _, text = doctors.end(listener)
        need(status == 0, f"exit {status}: {text}")
        need(text.count("waiting on") == len(rubbish), text)
        need("it is no sextant doctor; it said 'GET / HTTP/1.1'" in text, text)
        need("\x00" not in text, "prints what it must not")


def hello_of(doctors):
    """What the calling doctor says of itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = doctors.start("a", "127.0.0.1:%d" % server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            hello = json.loads(connection.makefile("rb").readline())
    status, _, text = doctors.end(caller)
    need(status == 69 and "hung up without a word" in text, f"exit {status}: {text}")
    return hello


def damaged(hello):
    """Hellos that must not be believed."""
    for key in ("version", "host", "left_out", "ports"):
        yield {name: value for name, value in hello.items() if name != key}
        yield dict(hello, **{key: 7})
    yield dict(hello, host="x" * 64)
    yield dict(hello, host="\033[31m")
    for cnt in (0, 33, 60):
        yield dict(hello, ports=hello["ports"][:1] * cnt)
    first = hello["ports"][0]
    for key, values in {"name": ("", "x" * 80, None), "mtu": (0, 6, -1, "4096"), "lid": (65536,),
                        "link_layer": (0, 3), "rkey": (-1, 1 << 32), "addr": (0, -1, 1.5),
                        "speed_mbps": (-1, 1 << 32)}.items():
        for value in values:
            if (key, value) != ("name", ""):
                yield dict(hello, ports=[dict(first, **{key: value})])
    address = first["addresses"][0]
    for addresses in ([], [address] * 9, [["xyz", 2, 24]], [[address[0], 2]], [7],
                      [[address[0], -1, 24]], [[address[0], 256, 24]], [["0" * 20 + "ffff0a000001", 2, 33]],
                      [["fd" + "0" * 30, 2, 129]]):
        yield dict(hello, ports=[dict(first, addresses=addresses)])


def case_bad_hello(args):
    with Doctors(args, fabric([port()], [port()])) as doctors:
        hello = hello_of(doctors)
        listener, (host, number) = doctors.listen()
        cnt = 0
        for bad in damaged(hello):
            with socket.create_connection((host, number)) as visitor:
                visitor.sendall(json.dumps(bad).encode() + b"\n")
                need(visitor.recv(100000) == b"", f"believes {bad}")
            cnt += 1
        status, _, text = doctors.end(doctors.start("a", f"{host}:{number}"))
        need(status == 0, f"exit {status}: {text}")
        _, _, text = doctors.end(listener)
        need(text.count("waiting on") == cnt, text)
        need("ports[0].mtu is no number of 1..5" in text, text)
        need("ports is no list of 1..32" in text, text)


def case_version(args):
    """Another version: both say so and end."""
    def change(who, document):
        if who == "caller":
            document["sextant_pairs"] = 2
            document["version"] = "9.9"
        else:
            document["sextant_pairs"] = 3

    with Doctors(args, fabric([port()], [port()])) as doctors:
        listener, target = doctors.listen()
        caller = doctors.start("a", Middle(target, change).address)
        for process, number in ((listener, "9.9 and speaks 2"), (caller, "and speaks 3")):
            status, output, text = doctors.end(process)
            need(status == 69 and output == "", f"exit {status}: {output}")
            need(number in text, text)


def case_foreign_listener(args):
    with Doctors(args, fabric([port()], [port()])) as doctors, \
            socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        caller = doctors.start("a", f"127.0.0.1:{number}")
        connection, _ = server.accept()
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        status, _, text = doctors.end(caller)
        connection.close()
        need(status == 69 and "it said 'SSH-2.0-OpenSSH_9.6'" in text, f"exit {status}: {text}")
    with Doctors(args, fabric([port()], [port()])) as doctors:
        status, _, text = doctors.end(doctors.start("a", f"127.0.0.1:{number}"))
        need(status == 69 and "Connection refused" in text and "--listen" in text,
             f"exit {status}: {text}")


def case_nobody(args):
    with Doctors(args, fabric([port()], [port()])) as doctors:
        status, output, text = doctors.end(doctors.start("b", "--listen", "--timeout=1"))
        need(status == 69 and output == "" and "nobody came within 1 s" in text, text)
    none = fabric([port(state="down")], [port()])
    with Doctors(args, none) as doctors:
        status, _, text = doctors.end(doctors.start("a", "--listen"))
        need(status == 2 and "no port here can be tried" in text and "DOWN" in text,
             f"exit {status}: {text}")


def case_killed(args):
    """One doctor is killed while pairs are tried; the other must not wait for it."""
    lost = fabric([port()], [port()], [{"target": "a/mlx5_0:1", "drop": True}])
    for victim in ("caller", "listener"):
        with Doctors(args, lost) as doctors:
            listener, (host, number) = doctors.listen()
            caller = doctors.start("a", f"{host}:{number}")
            killed, left = (caller, listener) if victim == "caller" else (listener, caller)
            doctors.wait_for(left, rb"trying 1 x 1")
            os.killpg(killed.pid, signal.SIGKILL)
            status, output, text = doctors.end(left)
            need(status == 69 and output == "", f"exit {status}: {output}")
            need("went away before the end" in text, text)


def case_nonsense(args):
    """What makes no sense in the middle ends it."""
    def change(who, document):
        if who == "listener" and document.get("step") == "joined":
            document["said"] = []

    with Doctors(args, fabric([port()], [port()])) as doctors:
        listener, target = doctors.listen()
        caller = doctors.start("a", Middle(target, change).address)
        status, _, text = doctors.end(caller)
        need(status == 69 and "makes no sense" in text and "'joined'" in text,
             f"exit {status}: {text}")
        status, _, text = doctors.end(listener)
        need(status == 69 and "went away" in text, f"exit {status}: {text}")


def case_usage(args):
    with Doctors(args, fabric([port()], [port()])) as doctors:
        for arguments in ([], ["10.0.0.1"], ["10.0.0.1:"], ["host:x"], ["host:65536"], ["fd00::1"],
                          ["[fd00::1"], ["[fd00::1]7"], ["a:1", "b:2"], ["--listen=1.2.3.4:x"],
                          ["--listen=fd00::1:7"], ["--listen", "--timeout=0"],
                          ["--listen", "--timeout=1s"], ["--listen", "--timeout=99999999"]):
            status, output, text = doctors.end(doctors.start("a", *arguments))
            need(status == 64 and output == "" and text, f"{arguments}: exit {status}: {text}")
        for arguments in (["--listen=192.0.2.1:7"], ["no-such-host.invalid:7"]):
            status, _, text = doctors.end(doctors.start("a", *arguments))
            need(status == 69 and text, f"{arguments}: exit {status}: {text}")


def case_planted(args):
    """The test can fail: a doctor that finds nothing is found out."""
    planted = fabric([port(), port()], [port(), port()], [{"target": "a/mlx5_0:1", "drop": True}])
    try:
        expect(args, planted, [])
    except Failure:
        return
    raise Failure("a dropping port counts as healthy")


GROUPS = {
    "fabrics": [case_healthy, case_unequal, case_speeds, case_mixed_mtu, case_excluded, case_down,
                case_infiniband, case_slow_port],
    "faults": [case_rail_only, case_crossed_rails, case_dropping, case_one_pair, case_versions,
               case_families, case_planted],
    "lies": [case_large, case_late, case_one_way, case_refused, case_unmade],
    "report": [case_text],
    "meeting": [case_foreign_caller, case_bad_hello, case_version, case_foreign_listener,
                case_nobody, case_killed, case_nonsense, case_usage],
}
# No finding that no case of these groups shows.
SHOWING = ("fabrics", "faults", "lies")


def listed(args):
    lines = subprocess.run([args.sextant, "doctor", "--markdown"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {line.split("`")[1] for line in lines if line.startswith("| `pairs-")} - HARMLESS - ELSEWHERE


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sextant", required=True)
    parser.add_argument("--checker", required=True, help="tests/unit/cli/schema.py")
    parser.add_argument("--schema", required=True, help="docs/schema/doctor-pairs.json")
    parser.add_argument("group", nargs="+", choices=list(GROUPS) + ["all"])
    args = parser.parse_args()
    sys.path.insert(0, os.path.dirname(args.checker))
    import schema
    args.schema_module = schema
    args.shown = set()
    with open(args.schema, encoding="utf-8") as file:
        args.schema_text = json.load(file)
    failures = 0
    for group in args.group:
        for case in GROUPS[group]:
            begin = time.monotonic()
            try:
                case(args)
                print(f"{case.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
            except Failure as failure:
                failures += 1
                print(f"{case.__name__}: FAILED: {failure}", flush=True)
    if set(SHOWING) <= set(args.group) and listed(args) - args.shown:
        failures += 1
        print(f"no case shows {sorted(listed(args) - args.shown)}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
