"""`sextant bench` on the fake net plugin: what it runs, what it notices, what it says.

Usage: test_bench.py SEXTANT FAKE_PLUGIN SCHEMA CASE
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/cli"))
from schema import Checker  # noqa: E402 - the folder is known only now

SEXTANT, FAKE, SCHEMA, CASE = sys.argv[1:5]
PATTERNS = (["sendrecv"], ["all_reduce"], ["all_reduce", "--algo", "tree"], ["all_gather"],
            ["reduce_scatter"], ["alltoall"], ["ll"])
QUICK = ["-e", "64K", "-f", "64", "-n", "2"]


def bench(*args, fault=None, plugin=FAKE, env=None):
    """Runs to its end; answers (status, stdout, stderr)."""
    environment = {**os.environ, **(env or {})}
    environment.pop("NCCL_DEBUG", None)
    if fault:
        environment["SXT_FAKE_FAULT"] = fault
    done = subprocess.run([SEXTANT, "bench", "--plugin", plugin, *args], env=environment,
                          capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def expect(status, text, result):
    got, out, err = result
    if got != status or text not in out + err:
        sys.exit(f"expected status {status} and '{text}'; got {got}\n{out}\n{err}")


def case_patterns():
    """Every version, each pattern with 2 to 4 ranks, from 0 bytes up."""
    for abi in range(6, 13):
        for number, pattern in enumerate(PATTERNS):
            ranks = str(2 + (abi + number) % 3)
            expect(0, "# OK: 0 wrong",
                   bench("--abi", str(abi), "--pattern", *pattern, "--ranks", ranks, "--hosts",
                         "2", "-b", "0", "-e", "300000", "-f", "37", "-n", "2", "-c", "2"))


def case_shapes():
    """Large and odd sizes, protocols, groups, types, depths, private memory."""
    for shape in (["-e", "16M", "-f", "2048", "-n", "1"],
                  ["--proto", "ll", "-e", "1M"],
                  ["--proto", "ll128", "-e", "1M", "--ranks", "3"],
                  ["--pattern", "sendrecv", "--group", "4", "--channels", "6", "-e", "1M"],
                  ["--pattern", "ll", "--group", "8", "--channels", "8"],
                  ["--pattern", "sendrecv", "--group", "3", "--channels", "3", "--abi", "7"],
                  ["--private", "-d", "double", "-o", "max"],
                  ["-d", "int8", "-o", "min", "-b", "1", "-e", "70001", "-i", "9999"],
                  ["-d", "uint8", "-b", "13", "-e", "1000", "-i", "77", "--channels", "5"],
                  ["--depth", "32", "--pattern", "sendrecv", "-e", "1M"],
                  ["--depth", "1", "--pattern", "ll"],
                  ["--algo", "tree", "--proto", "ll128", "--channels", "3", "--ranks", "5"],
                  ["--pattern", "alltoall", "--group", "1", "--ranks", "3"],
                  ["--pattern", "alltoall", "--channels", "3", "--proto", "ll", "-d", "int8"],
                  ["--pattern", "reduce_scatter", "-d", "double", "-b", "1", "-i", "999"],
                  ["--pattern", "all_gather", "-d", "uint8", "-b", "1", "-i", "333", "-e", "9999"],
                  ["--dev", "1"], ["--dev", "fake0"]):
        expect(0, "# OK: 0 wrong", bench("--ranks", "2", *QUICK, *shape))


def case_several():
    """Communicators at once, a thread that talks beside the data, merged devices."""
    for abi, pattern in zip(range(6, 13), PATTERNS):
        # The fake's v7 wants irecvConsumed, which NCCL's bootstrap never calls.
        oob = ["--oob"] if abi != 7 else []
        expect(0, "# OK: 0 wrong",
               bench("--ranks", "3", *QUICK, "--comms", "3", "--abi", str(abi), "--pattern",
                     *pattern, *oob))
    many = bench("--ranks", "2", *QUICK, "--comms", "2", "--oob")
    expect(0, "# 2 communicators at once", many)
    expect(0, "# Out of band: ", many)
    for abi in range(9, 13):
        expect(0, "device fake-merged0",
               bench("--ranks", "2", *QUICK, "--ports", "2", "--abi", str(abi)))
    expect(0, "NCCL_IB_QPS_PER_CONNECTION=4",
           bench("--ranks", "2", *QUICK, env={"NCCL_IB_QPS_PER_CONNECTION": "4"}))
    ports = ["--ranks", "2", *QUICK, "--ports", "2"]
    expect(2, "makeVDevice() of net v12 returned ncclInvalidUsage", bench(*ports, fault="merge"))
    expect(2, "makeVDevice() names device 2", bench(*ports, fault="uncounted"))
    expect(0, "--ports 4: the plugin finds 2 devices here, and that is what this host uses",
           bench("--ranks", "2", *QUICK, "--ports", "4"))
    expect(2, "of communicator ", bench("--ranks", "2", "-e", "1M", "-n", "200", "--comms", "2",
                                         fault="error:0:200"))


def case_environment():
    """NCCL_ALGO and NCCL_PROTO stand for options that are not given, where they name one."""
    forced = {"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL128"}
    expect(0, "all_reduce, tree, protocol ll128", bench("--ranks", "2", *QUICK, env=forced))
    expect(0, "all_reduce, ring, protocol simple",
           bench("--ranks", "2", "--algo", "ring", "--proto", "simple", *QUICK, env=forced))
    expect(0, "all_reduce, ring, protocol simple",
           bench("--ranks", "2", *QUICK, env={"NCCL_ALGO": "Ring,Tree", "NCCL_PROTO": "^LL"}))
    expect(0, "sendrecv, p2p, protocol simple",
           bench("--ranks", "2", "--pattern", "sendrecv", *QUICK, env=forced))
    expect(64, "ring and tree, not 'nvls'", bench("--ranks", "2", env={"NCCL_ALGO": "NVLS"}))


def case_misbehaviour():
    """A plugin that errs is caught, and the message says where."""
    ring = ["--ranks", "3", *QUICK, "--stall", "2"]
    expect(1, "WRONG DATA", bench(*ring, fault="corrupt:1"))
    expect(2, "isend() to rank 2, channel 0", bench(*ring, fault="error:1"))
    expect(2, "as asked", bench(*ring, fault="error:1"))
    expect(2, "rank 1 (process", bench(*ring, fault="die:1"))
    expect(2, "rank 0 (process", bench(*ring, fault="die:0"))
    expect(2, "nothing moved for the time of --stall", bench(*ring, fault="stall:1"))
    expect(2, "but the sender sent", bench(*ring, fault="short:1"))
    expect(69, "init() of net v12 returned ncclSystemError (2)", bench(*ring, fault="init"))
    expect(2, "connect() to rank", bench(*ring, fault="connect"))
    expect(69, "finds no device", bench(*ring, fault="nodevice"))


def case_blocked():
    """A call that never returns ends the run all the same."""
    expect(2, "does not return", bench("--ranks", "2", *QUICK, "--timeout", "2", fault="block:1"))


def case_ignored():
    """Started where SIGCHLD is ignored, as some daemons start things: the ends are noticed."""
    run = subprocess.Popen([SEXTANT, "bench", "--plugin", FAKE, "--ranks", "2", *QUICK],
                           stdout=subprocess.DEVNULL,
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    try:
        status = run.wait(timeout=60)
    finally:
        run.kill()
    if status != 0:
        sys.exit(f"expected status 0, got {status}")


def case_usage():
    """What is missing or wrong on the command line."""
    expect(69, "cannot open", bench("--ranks", "2", plugin="/nowhere/libx.so"))
    expect(69, "no NCCL net plugin", bench("--ranks", "2", plugin="libm.so.6"))
    expect(69, "none of the plugin's 2 devices", bench("--ranks", "2", "--dev", "mlx5_0"))
    expect(64, "must be 6..12", bench("--ranks", "2", "--abi", "13"))
    expect(64, "is no size", bench("--ranks", "2", "-b", "12q"))
    expect(64, "--group", bench("--ranks", "2", "--group", "2"))
    expect(64, "is none of all_reduce", bench("--ranks", "2", "--pattern", "broadcast"))
    expect(64, "all_gather has ring, not 'tree'",
           bench("--ranks", "2", "--pattern", "all_gather", "--algo", "tree"))
    expect(64, "makeVDevice came with v9", bench("--ranks", "2", "--ports", "2", "--abi", "8"))
    expect(64, "merges 4 devices at most", bench("--ranks", "2", "--ports", "8", "--abi", "11"))
    expect(64, "--ports must be 1..8", bench("--ranks", "2", "--ports", "9"))
    expect(64, "--dev cannot choose others", bench("--ranks", "2", "--ports", "2", "--dev", "1"))
    expect(64, "--comms must be 1..16", bench("--ranks", "2", "--comms", "0"))
    expect(64, "larger than", bench("--ranks", "2", "-b", "8K", "-e", "4K"))
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        os.environ.pop(name, None)
    expect(64, "--ranks N", bench())
    expect(64, "MASTER_ADDR", bench(env={"RANK": "0", "WORLD_SIZE": "2"}))
    expect(64, "RANK must be 0..1", bench(env={"RANK": "7", "WORLD_SIZE": "2",
                                               "MASTER_ADDR": "localhost"}))


def case_json():
    """The document conforms to the schema, also when the data are wrong or the run fails."""
    with open(SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    for fault, status, verdict in ((None, 0, "ok"), ("corrupt:1", 1, "wrong"),
                                   ("error:1", 2, "failed"), ("init", 69, "failed")):
        result = bench("--ranks", "2", "--json", "--oob", *QUICK, fault=fault)
        expect(status, f'"verdict": "{verdict}"', result)
        checker = Checker(schema)
        checker.check(json.loads(result[1]), schema)
        if checker.errors:
            sys.exit("\n".join(checker.errors))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def launch(variables, ranks, last=()):
    """One process per rank, as a launcher starts them, the last one with further options;
    answers their (stdout, status)."""
    processes = []
    for rank in range(ranks):
        env = {**os.environ, **{k: v.format(rank=rank, ranks=ranks) for k, v in variables.items()}}
        processes.append(subprocess.Popen([SEXTANT, "bench", "--plugin", FAKE, *QUICK,
                                           *(last if rank == ranks - 1 else ())], env=env,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                          text=True))
    return [(p.communicate(timeout=100)[0], p.returncode) for p in processes]


def case_launchers():
    """torchrun's, Open MPI's and Slurm's variables."""
    for variables in (
            {"RANK": "{rank}", "WORLD_SIZE": "{ranks}", "MASTER_ADDR": "127.0.0.1"},
            {"OMPI_COMM_WORLD_RANK": "{rank}", "OMPI_COMM_WORLD_SIZE": "{ranks}",
             "OMPI_COMM_WORLD_LOCAL_SIZE": "{ranks}"},
            {"SLURM_PROCID": "{rank}", "SLURM_NTASKS": "{ranks}",
             "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}):
        done = launch({**variables, "MASTER_PORT": free_port()}, 3)
        if any(status != 0 for _, status in done) or "# OK: 0 wrong" not in done[0][0]:
            sys.exit(f"{variables}: {done}")
    variables = {"RANK": "{rank}", "WORLD_SIZE": "{ranks}", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": free_port()}
    done = launch(variables, 2, last=("-n", "3"))
    if any(status != 64 or "with other sizes" not in out for out, status in done):
        sys.exit(f"unlike options: {done}")


def case_visitor():
    """Half a greeting on rank 0's port, from someone who then stays, holds nobody up."""
    port = free_port()
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": port}
    command = [SEXTANT, "bench", "--plugin", FAKE, *QUICK]
    root = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        visitor = None
        while visitor is None:
            try:
                visitor = socket.create_connection(("127.0.0.1", int(port)))
            except ConnectionRefusedError:
                time.sleep(0.01)
        visitor.send(b"x")
        leaf = subprocess.run(command, env={**environment, "RANK": "1"}, timeout=30)
        out, _ = root.communicate(timeout=30)
        visitor.close()
    finally:
        root.kill()
    expect(0, "# OK: 0 wrong", (leaf.returncode, out, ""))


globals()["case_" + CASE]()
