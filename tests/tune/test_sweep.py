#!/usr/bin/env python3
"""`sextant tune sweep` with commands that do what they are told.

usage: test_sweep.py --sextant FILE --source DIR CASE
"""
import glob
import os
import signal
import subprocess
import time

import run
from run import check, document, tune

# Counts its runs, tells its environment, and prints a table; Tree with LL fails.
FAKE = """#!/bin/sh
echo x >> "$1/count"
echo "# algo=$NCCL_ALGO proto=$NCCL_PROTO rules=$SEXTANT_TUNER_FILE"
if [ "$NCCL_ALGO$NCCL_PROTO" = TreeLL ] && [ ! -e "$1/fixed" ]; then
	echo "no algorithm/protocol available" >&2
	exit 3
fi
echo "# Collective test starting: all_reduce_perf"
echo "# 4 ranks on 2 hosts, 2 channels"
echo "#       size         count      type   redop    root     time   algbw   busbw"
echo "        1024           256     float     sum      -1    20.00    0.05    0.08"
"""
COMBINATIONS = 1 + 2 * 3


def write(path, text, mode=0o755):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def fake(folder, text=FAKE):
    return [write(f"{folder}/fake.sh", text), folder]


def runs_of(folder):
    with open(f"{folder}/count", encoding="utf-8") as file:
        return len(file.readlines())


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def logs(folder):
    """Every combination is run in every round; what it was told is in its log's head."""
    command = fake(folder)
    out, err = tune("sweep", "-d", f"{folder}/logs", "-n", "2", "--", *command, status=1,
                    NCCL_ALGO="PAT", SEXTANT_TUNER_FILE="/rules")
    names = sorted(os.path.basename(path) for path in glob.glob(f"{folder}/logs/*"))
    wanted = [f"{name}.{number}.log" for number in (1, 2) for name in (
        "default", "ring-ll", "ring-ll128", "ring-simple", "tree-ll128", "tree-simple")]
    check(names == sorted(wanted + ["tree-ll.1.failed", "tree-ll.2.failed"]), str(names))
    check(runs_of(folder) == 2 * COMBINATIONS, "runs")
    text = read(f"{folder}/logs/ring-ll128.2.log").splitlines()
    check(text[0] == "# sextant sweep: NCCL_ALGO=Ring NCCL_PROTO=LL128 run=2", text[0])
    check(text[1] == f"# sextant sweep command: {' '.join(command)}", text[1])
    check(text[2] == "# algo=Ring proto=LL128 rules=", text[2])
    text = read(f"{folder}/logs/default.1.log").splitlines()
    check(text[0].startswith("# sextant sweep: NCCL_ALGO=default"), text[0])
    check(text[2] == "# algo= proto= rules=", text[2])
    check("exit status 3" in out and "no algorithm/protocol available" in err, out + err)
    check("12 logs, 2 runs failed" in out, out)
    # Rounds: each combination once before any of them again, and another one first.
    order = [line.split()[2:5] for line in out.splitlines() if "/14 " in line]
    check([row[0] for row in order] == ["1"] * COMBINATIONS + ["2"] * COMBINATIONS, str(order))
    check(order[0][1] == "default" and order[COMBINATIONS][1] != "default", str(order))


def resume(folder):
    """What is there stays, also what failed; only what is missing is run."""
    command = fake(folder)
    tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--", *command, status=1)
    os.unlink(f"{folder}/logs/ring-ll.1.log")
    out, _ = tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--", *command, status=1)
    check(runs_of(folder) == COMBINATIONS + 1, f"{runs_of(folder)} runs")
    check(out.count("kept: ") == 5 and out.count("failed before: ") == 1, out)
    found = document("sweep", "-d", f"{folder}/logs", "-n", "1", "--", *command,
                     status=1)
    check(len(found["results"]) == COMBINATIONS, str(found))
    check(runs_of(folder) == COMBINATIONS + 1, "run again")


def retry(folder):
    command = fake(folder)
    tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--", *command, status=1)
    write(f"{folder}/fixed", "")
    tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--retry", "--", *command)
    check(os.path.exists(f"{folder}/logs/tree-ll.1.log"), "no log")
    check(not os.path.exists(f"{folder}/logs/tree-ll.1.failed"), "it failed once")


def other_command(folder):
    """Logs of two commands are not mixed."""
    command = fake(folder)
    tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--", *command, status=1)
    _, err = tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--", *command, "it's", status=2)
    check("default.1.log is the log of another command" in err, err)
    out, _ = tune("sweep", "-d", f"{folder}/none", "--dry-run", "-n", "1", "--algos", "Ring,NVLS",
                  "--protos", "LL,simple", "--", *command)
    check("nvls           simple" in out and out.count("would run") == 4, out)
    check(not os.path.exists(f"{folder}/none"), "a dry run made a folder")


def wait_for(path):
    for _ in range(600):
        if os.path.exists(path):
            return
        time.sleep(0.05)
    check(False, f"{path} does not appear")


def stopped(folder):
    """A signal ends the command and what it started, keeps no half log, and the rest goes on."""
    command = fake(folder, FAKE + """
if [ "$NCCL_ALGO" = Ring ] && [ ! -e "$1/again" ]; then
	sh -c 'echo $$ > "$0.part" && mv "$0.part" "$0"; exec sleep 600' "$1/sleeper"
fi
""")
    arguments = [run.ARGS.sextant, "tune", "sweep", "-d", f"{folder}/logs", "-n", "1",
                 "--protos", "simple", "--", *command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=run.environment()) as sweep:
        wait_for(f"{folder}/sleeper")
        sweep.send_signal(signal.SIGINT)
        _, err = sweep.communicate(timeout=60)
        check(sweep.returncode == 2 and b"stopped by signal 2" in err, f"{sweep.returncode} {err}")
    try:
        os.kill(int(read(f"{folder}/sleeper")), 0)
        check(False, "what the command started still runs")
    except ProcessLookupError:
        pass
    check(not glob.glob(f"{folder}/logs/*.part") and
          not os.path.exists(f"{folder}/logs/ring-simple.1.log"), "half a log")
    write(f"{folder}/again", "")
    out, _ = tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--protos", "simple", "--", *command)
    check(out.count("kept: ") == 2 and out.count("done, ") == 1, out)


def timeout(folder):
    command = fake(folder, FAKE + "[ \"$NCCL_ALGO\" != Ring ] || exec sleep 600\n")
    out, _ = tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--protos", "simple", "--timeout",
                  "1", "--", *command, status=1)
    check("took longer than 1 s" in out, out)
    check(os.path.exists(f"{folder}/logs/ring-simple.1.failed"), "no trace")


def none_good(folder):
    """Where nothing works the first round is enough."""
    command = fake(folder, "#!/bin/sh\necho x >> \"$1/count\"\necho not today\nexit 1\n")
    _, err = tune("sweep", "-d", f"{folder}/logs", "-n", "3", "--", *command, status=2)
    check("no run ended well" in err and "not today" in err, err)
    check(runs_of(folder) == COMBINATIONS, f"{runs_of(folder)} runs")
    _, err = tune("sweep", "-d", f"{folder}/logs2", "--", f"{folder}/missing", status=69)
    check("missing" in err and "No such file" in err, err)
    check(glob.glob(f"{folder}/logs2/*") == [], "a log of nothing")
    write(f"{folder}/mute.sh", "#!/bin/sh\necho fine\n")
    out, err = tune("sweep", "-d", f"{folder}/logs3", "--", f"{folder}/mute.sh", status=2)
    check("no table of nccl-tests" in out and "no run ended well" in err, out + err)
    _, err = tune("sweep", "-d", f"{folder}/fake.sh", "--", *command, status=2)
    check("fake.sh" in err, err)


def launcher(folder):
    """mpirun has to be told to pass the variables on."""
    write(f"{folder}/fixed", "")
    mpirun = write(f"{folder}/mpirun", FAKE)
    _, err = tune("sweep", "-d", f"{folder}/logs", "-n", "1", "--", mpirun, folder)
    check("-x NCCL_ALGO -x NCCL_PROTO" in err, err)
    _, err = tune("sweep", "-d", f"{folder}/told", "-n", "1", "--", mpirun, folder, "-x",
                  "NCCL_ALGO", "-x", "NCCL_PROTO")
    check(err == "", err)


run.main({"logs": logs, "resume": resume, "retry": retry, "other_command": other_command,
          "stopped": stopped, "timeout": timeout, "none_good": none_good, "launcher": launcher},
         __doc__)
