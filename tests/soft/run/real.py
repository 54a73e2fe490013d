#!/usr/bin/env python3
"""What `sextant soft set` does, as programs that know nothing of us see it.

usage: real.py --sextant FILE CASE
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

DEADLINE_S = 80


class Fabric:
    """A run that stays until its input ends, and what is done around it."""

    def __init__(self, sextant):
        self.sextant = sextant
        self.options = []
        self.name = f"real-{os.getpid()}"
        self.environ = {key: value for key, value in os.environ.items()
                        if not key.startswith("SEXTANT_")}

    def start(self, host, *command):
        return subprocess.Popen([self.sextant, "soft", "run", "--name", self.name, *self.options,
                                 "--host", host, "--", *command], env=self.environ, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def soft(self, *arguments):
        base = pathlib.Path(f"/dev/shm/sextant-soft-{os.geteuid()}")
        state = next(base.glob(f"*-{self.name}"))
        done = subprocess.run([self.sextant, "soft", arguments[0], "--state", state,
                               *arguments[1:]], env=self.environ, text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def counters(self, host, hca):
        hosts = json.loads(self.soft("show", "--json"))["hosts"]
        return hosts[host]["hcas"][hca]["ports"][0]["counters"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def wait_for_line(process, words):
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return
    raise AssertionError(f"no '{words}' in {seen}")


def is_listening(port):
    with open("/proc/net/tcp6", encoding="ascii") as six, \
            open("/proc/net/tcp", encoding="ascii") as four:
        wanted = f":{int(port):04X}"
        return any(line.split()[1].endswith(wanted) and line.split()[3] == "0A"
                   for line in [*six.readlines()[1:], *four.readlines()[1:]])


def events(fabric):
    watch = fabric.start("a", "stdbuf", "-oL", "ibv_asyncwatch", "-d", "mlx5_1")
    wait_for_line(watch, "async event FD")
    assert "1 contexts told" in fabric.soft("set", "a/mlx5_1:1", "state=down")
    wait_for_line(watch, "IBV_EVENT_PORT_ERR (10), port 1")
    info, _ = fabric.start("a", "ibv_devinfo", "-d", "mlx5_1").communicate(timeout=DEADLINE_S)
    assert "PORT_DOWN (1)" in info, info
    info, _ = fabric.start("a", "ibv_devinfo", "-d", "mlx5_0").communicate(timeout=DEADLINE_S)
    assert "PORT_ACTIVE (4)" in info, info
    fabric.soft("set", "a/mlx5_1:1", "state=active")
    wait_for_line(watch, "IBV_EVENT_PORT_ACTIVE (9), port 1")
    fabric.soft("set", "a/mlx5_1", "event=GID_CHANGE")
    wait_for_line(watch, "IBV_EVENT_GID_CHANGE (18), port 1")
    watch.send_signal(signal.SIGTERM)
    watch.communicate(timeout=DEADLINE_S)
    assert watch.returncode == 128 + signal.SIGTERM, watch.returncode


def failing_registration(fabric):
    keep = fabric.start("a", "cat")
    wait_for(lambda: fabric_is_up(fabric))
    fabric.soft("set", "a/mlx5_0", "reg-error=ENOMEM")
    port = free_port()
    first = fabric.start("a", "ibv_rc_pingpong", "-d", "mlx5_0", "-g", "3", "-p", port)
    output, _ = first.communicate(timeout=DEADLINE_S)
    assert first.returncode == 1 and "Couldn't register MR" in output, output
    pingpong(fabric, wanted=0)  # used up
    keep.communicate(timeout=DEADLINE_S)


def fabric_is_up(fabric):
    try:
        return bool(fabric.soft("show"))
    except (StopIteration, AssertionError):
        return False


def pingpong(fabric, wanted, device="mlx5_0"):
    port = free_port()
    options = ["-d", device, "-g", "3", "-p", port]
    server = fabric.start("a", "ibv_rc_pingpong", *options)
    wait_for(lambda: is_listening(port))
    client = fabric.start("b", "ibv_rc_pingpong", *options, "127.0.0.1")
    output, _ = client.communicate(timeout=DEADLINE_S)
    assert (client.returncode != 0) == (wanted != 0), output
    if wanted != 0:
        server.terminate()  # it waits for an answer that does not come
    server.communicate(timeout=DEADLINE_S)
    return output


def failing_send(fabric):
    keep = fabric.start("a", "cat")
    wait_for(lambda: fabric_is_up(fabric))
    fabric.soft("set", "b/mlx5_0:1", "wc-error=RETRY_EXC_ERR")
    output = pingpong(fabric, wanted=1)
    assert "transport retry counter exceeded (12)" in output, output
    pingpong(fabric, wanted=0)  # used up
    keep.communicate(timeout=DEADLINE_S)


def two_networks(fabric):
    """The ends connect, and then nothing gets through."""
    def host(name, network):
        return {"name": name, "hcas": [{"ports": [{"network": network}]}, {}]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"version": 1, "hosts": [host("a", "left"), host("b", "right")]}, file)
        file.flush()
        fabric.options = ["--fabric", file.name]
        keep = fabric.start("a", "cat")
        wait_for(lambda: fabric_is_up(fabric))
        output = pingpong(fabric, wanted=1)
        assert "transport retry counter exceeded (12)" in output, output
        assert fabric.counters(0, 0)["rcv_packets"] == 0, fabric.counters(0, 0)
        assert fabric.counters(1, 0)["ack_timeout"] > 0, fabric.counters(1, 0)
        pingpong(fabric, wanted=0, device="mlx5_1")
        keep.communicate(timeout=DEADLINE_S)


def lost_packets(fabric):
    keep = fabric.start("a", "cat")
    wait_for(lambda: fabric_is_up(fabric))
    fabric.soft("set", "a/mlx5_0:1", "drop=on")
    output = pingpong(fabric, wanted=1)
    assert "transport retry counter exceeded (12)" in output, output
    info, _ = fabric.start("a", "ibv_devinfo", "-d", "mlx5_0").communicate(timeout=DEADLINE_S)
    assert "PORT_ACTIVE (4)" in info, info
    fabric.soft("set", "a/mlx5_0:1", "drop=off")
    pingpong(fabric, wanted=0)
    keep.communicate(timeout=DEADLINE_S)


def killed_peer(fabric):
    port = free_port()
    options = ["-d", "mlx5_0", "-x", "3", "-F", "-D", "60", "-p", port]
    server = fabric.start("a", "ib_write_bw", *options)
    wait_for(lambda: is_listening(port))
    client = fabric.start("b", "ib_write_bw", *options, "127.0.0.1")
    wait_for(lambda: fabric.counters(1, 0)["xmit_bytes"] > 0)
    fabric.soft("set", "a", "kill")
    output, _ = client.communicate(timeout=DEADLINE_S)
    assert client.returncode != 0 and "Completion with error" in output, output
    server.communicate(timeout=DEADLINE_S)
    assert server.returncode == 128 + signal.SIGKILL, server.returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sextant", required=True)
    parser.add_argument("case")
    args = parser.parse_args()
    globals()[args.case](Fabric(args.sextant))


main()
