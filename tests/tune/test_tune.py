#!/usr/bin/env python3
"""`sextant tune` but for `sweep`: on rules files and logs with known contents.

usage: test_tune.py --sextant FILE --source DIR CASE
"""
import glob
import os
import re
import shutil
import sys
import xml.etree.ElementTree

import run
from run import check, compare, document, narrow, tune

COMMANDS = ("estimate", "explain", "fit", "lint", "plot", "sweep")

RULES = """sextant-rules 1
# Small ones by trees, the middle by what was measured.
rule coll=allreduce bytes=0..65535 nodes=2..inf algo=tree proto=ll
rule coll=allreduce bytes=64K..1M algo=ring proto=ll128 channels=16 chunk=128K gain=0.12 confidence=0.99

model coll=allreduce algo=ring proto=simple base_us=10 intra_us=1.5 inter_us=5 gbs=90 margin=0.05
model coll=allreduce algo=tree proto=simple base_us=10 intra_us=1.5 inter_us=6 gbs=70 margin=0.05
"""
# 4 is hidden by 2 and 3 together, 7 meets 6, 8 is a fallback, 11 fills part of a hole.
ODD = """sextant-rules 1
rule coll=allreduce bytes=0..64K nodes=2 algo=tree proto=ll
rule coll=allreduce bytes=65537..2M nodes=2..4 algo=ring proto=ll128
rule coll=allreduce bytes=32K..1M nodes=2 reg=1 algo=ring proto=simple
rule coll=allreduce bytes=4M..inf nodes=2 algo=ring proto=simple
rule coll=broadcast bytes=0..1M algo=ring proto=ll
rule coll=broadcast bytes=512K..2M algo=ring proto=simple
rule coll=broadcast algo=ring proto=ll128
rule coll=reduce bytes=0..1K nodes=2 algo=ring proto=ll
rule coll=reduce bytes=64K..1M nodes=2 algo=ring proto=ll128
rule coll=reduce bytes=1025..32K algo=tree proto=ll
"""
CALL = ("--nodes", "16", "--ranks", "128")


def write(folder, text=RULES, name="cluster.rules"):
    with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
        file.write(text)
    return name


def help_texts(_):
    """Every option fits the terminal and is in the documentation."""
    with open(os.path.join(run.ARGS.source, "docs/tune.md"), encoding="utf-8") as file:
        page = file.read()
    out, _ = tune("--help")
    narrow(out)
    for command in COMMANDS:
        check(f"\n  {command} " in out, f"{command} is not in:\n{out}")
        text, _ = tune(command, "--help")
        narrow(text)
        for option in re.findall(r"--[a-z][a-z-]+", text):
            check(option in page or option in ("--help", "--usage"),
                  f"{command} {option} is not in docs/tune.md")


def refused(words, *arguments, status=64, **more):
    _, err = tune(*arguments, status=status, **more)
    check(words in err, f"'{words}' is not in: {err}")


def misuse(folder):
    write(folder)
    refused("did you mean 'sweep'?", "sweeep")
    refused("Commands:", status=64)
    refused("a command is missing", "sweep")
    refused("NCCL has no 'rign'", "sweep", "--algos", "tree,rign", "--", "true")
    refused("--runs must be 1..1000", "sweep", "-n", "0", "--", "true")
    refused("--bytes, --nodes and --ranks are needed", "explain", "--bytes", "8M")
    refused("--rules FILE is needed", "explain", "--bytes", "8M", *CALL)
    refused("'8X' is no size", "explain", "--bytes", "8X", *CALL)
    refused("not smaller", "explain", "--bytes", "8M..1M", *CALL)
    refused("are on no more than 2 nodes", "explain", "--bytes", "8M", "--nodes", "4",
            "--ranks", "2")
    refused("no collective 'allreduze'", "explain", "--coll", "allreduze")
    refused("such as ring/ll128", "explain", "--nccl", "ring")
    refused("No such file", "explain", "--rules", "none", "--bytes", "8M", *CALL, status=69,
            folder=folder)
    refused("--params and --ranks are needed", "estimate", "--ranks", "8")
    refused("'13Q' is no number", "estimate", "--params", "13Q")
    refused("'100' is no bandwidth", "estimate", "--gpu-bandwidth", "100")
    refused("do not fill nodes of 3", "estimate", "--params", "1B", "--ranks", "8",
            "--ranks-per-node", "3", "--gpu-bandwidth", "100G")
    refused("need no link", "estimate", "--params", "1B", "--ranks", "8", "--ranks-per-node", "8",
            "--gpu-bandwidth", "100G")
    refused("which logs?", "fit")
    refused("none.log", "fit", f"{folder}/none.log", status=69)
    refused("-o FILE is needed", "plot", f"{folder}/none.log")
    refused("which file?", "lint")


def estimate(folder):
    """13 billion FP32 gradients over 100 Gb/s: 52 GB, of which a ring moves twice 63/64."""
    write(folder)
    arguments = ("--params", "13B", "--ranks", "64", "--gpu-bandwidth", "100G")
    out, _ = tune("estimate", *arguments)
    narrow(out)
    compare("tune_estimate.txt", out)
    found = document("estimate", *arguments)
    check(found["bytes"] == 52e9 and found["share"] is None, str(found))
    check(abs(found["seconds"] - 52e9 * 2 * 63 / 64 / 12.5e9) < 1e-9, str(found["seconds"]))
    eight = document("estimate", *arguments[:4], "--gpu-bandwidth", "12.5GB/s",
                     "--ranks-per-node", "8", "--compute", "5", "--efficiency", "80")
    check(abs(eight["seconds"] - found["seconds"] / 8 / 0.8) < 1e-9, str(eight["seconds"]))
    needs = eight["link_gb_per_s_for_20_percent"]
    again = document("estimate", *arguments[:4], "--gpu-bandwidth", f"{needs}GB",
                     "--ranks-per-node", "8", "--compute", "5", "--efficiency", "80")
    check(abs(again["share"] - 0.2) < 1e-9, f"share {again['share']}")
    out, _ = tune("estimate", *arguments, "--ranks-per-node", "8", "--compute", "5", "--rules",
                  "cluster.rules", "--bucket", "25M", "--gradient-bytes", "2", folder=folder)
    narrow(out)
    compare("tune_estimate_models.txt", out)


def explain(folder, ranks="128"):
    write(folder)
    shape = ("--nodes", "16", "--ranks", ranks)
    options = {"folder": folder, "SEXTANT_TUNER_FILE": "cluster.rules"}
    out, _ = tune("explain", "--bytes", "1K..64M", *shape, **options)
    narrow(out)
    compare("tune_explain_range.txt", out)
    for name, size in (("rule", "512K"), ("model", "8M")):
        out, _ = tune("explain", "--bytes", size, *shape, **options)
        narrow(out)
        compare(f"tune_explain_{name}.txt", out)
    out, _ = tune("explain", "--bytes", "8M", *shape, "--nccl", "ring/simple", **options)
    check("Chosen: tree/simple by the model of line 7." in out, out)
    out, _ = tune("explain", "--bytes", "8M", *shape, "--nccl", "Tree/SIMPLE", **options)
    check("Chosen: NCCL's own choice stays." in out, out)
    out, _ = tune("explain", "--coll", "broadcast", "--bytes", "8M", *shape, **options)
    check("neither rule nor model" in out and "busbw = algbw." in out, out)
    found = document("explain", "--rules", f"{folder}/cluster.rules", "--bytes", "32K..64K",
                     *shape)
    check([(row["choice"]["algo"], row["choice"]["line"]) for row in found["sizes"]] ==
          [("tree", 3), ("ring", 4)], str(found))


def explain_planted(folder):
    """The golden texts are of other ranks: they have to differ."""
    explain(folder, ranks="64")


def fitted(folder, *more):
    logs = sorted(glob.glob(os.path.join(run.ARGS.source, "examples/tuner/*.log")))
    check(logs, "examples/tuner has no logs")
    for path in logs:
        shutil.copy(path, folder)
    return [os.path.basename(path) for path in logs] + list(more)


def fit(folder):
    """The example's logs become the example's rules; no log of the default, no rule."""
    logs = fitted(folder)
    out, _ = tune("fit", *logs, "-o", "cluster.rules", folder=folder)
    narrow("\n".join(line for line in out.splitlines()
                     if not line.startswith(("rule ", "model "))))
    compare("tune_fit.txt", out)
    with open(f"{folder}/cluster.rules", encoding="utf-8") as file:
        made = file.read()
    with open(os.path.join(run.ARGS.source, "examples/tuner/cluster.rules"),
              encoding="utf-8") as file:
        check(made == file.read(), "examples/tuner/cluster.rules is of other logs")
    tune("lint", "cluster.rules", folder=folder)
    found = document("fit", *[f"{folder}/{name}" for name in logs])
    check(any(point["rule"] for point in found["points"]), "no rule")
    forced = [name for name in logs if not name.startswith("default")]
    out, _ = tune("fit", *forced, folder=folder)
    check("No rule: " in out and "NCCL us" in out, out)
    write(folder, "nothing of a table\n", "odd.log")
    _, err = tune("fit", "odd.log", folder=folder, status=2)
    check("odd.log" in err, err)
    _, err = tune("fit", *logs, "odd.log", folder=folder, status=1)
    check("odd.log" in err, err)
    _, err = tune("fit", *logs, "-o", "none/cluster.rules", folder=folder, status=2)
    check("cannot write none/cluster.rules" in err, err)


def plot(folder):
    logs = fitted(folder)
    script, _ = tune("plot", *logs, "--script", "-o", "it's.svg", folder=folder)
    compare("tune_plot.gnuplot", script)
    check(not os.path.exists(f"{folder}/it's.svg"), "a picture")
    rules = os.path.join(run.ARGS.source, "examples/tuner/cluster.rules")
    shutil.copy(rules, folder)
    by_rules, _ = tune("plot", *logs, "--script", "-o", "a.svg", "--rules", "cluster.rules",
                       folder=folder)
    check("'chosen by the rules'" in by_rules, by_rules)
    curves = {name: rows.splitlines()
              for name, rows in re.findall(r"^\$(\w+) << EOD\n(.*?)^EOD$", by_rules, re.M | re.S)}
    tree, own = curves["c0_2"], curves["c7_3"]
    check(tree[0].startswith("1024 ") and tree[11].startswith("2097152 "), tree)
    check(curves["chosen"] == tree[:11] + own[11:], "tree up to 1M, NCCL's choice beyond")
    refused("nothing of what is asked for", "plot", *logs, "-o", "a.svg", "--nodes", "77",
            folder=folder)
    if shutil.which("gnuplot") is None:
        print("gnuplot is not installed: nothing was drawn")
        return
    tune("plot", *logs, "-o", "it's.svg", folder=folder)
    root = xml.etree.ElementTree.parse(f"{folder}/it's.svg").getroot()
    text = " ".join(root.itertext())
    for word in ("ring/simple", "tree/simple", "NCCL's choice", "2M"):
        check(word in text, f"{word} is not in the picture")
    check(glob.glob(f"{folder}/*.part") == [], "half a picture")
    _, err = tune("plot", *logs, "-o", "none/a.svg", folder=folder, status=2)
    check("gnuplot did not draw" in err, err)


def no_gnuplot(folder):
    logs = fitted(folder)
    _, err = tune("plot", *logs, "-o", "a.svg", folder=folder, status=69, PATH=folder)
    check("gnuplot-nox" in err and "--script" in err, err)
    check(not os.path.exists(f"{folder}/a.svg"), "a picture")


def lint(folder):
    write(folder)
    out, _ = tune("lint", "cluster.rules", folder=folder)
    digest = re.search(r"^export SEXTANT_TUNER_DIGEST=([0-9a-f]{16})$", out, re.M)
    check(digest is not None, out)
    found = document("lint", f"{folder}/cluster.rules")
    check(found["digest"] == digest.group(1), str(found))
    write(folder, RULES.replace("proto=ll128", "proto=ll129"), "bad.rules")
    _, err = tune("lint", "bad.rules", folder=folder, status=1)
    compare("tune_lint_bad.txt", err)
    write(folder, ODD, "odd.rules")
    out, _ = tune("lint", "odd.rules", folder=folder, status=1)
    narrow(out)
    compare("tune_lint_odd.txt", out)
    found = document("lint", f"{folder}/odd.rules", status=1)["found"]
    check([(row["line"], row["kind"]) for row in found] ==
          [(2, "hole"), (4, "hidden"), (7, "overlap"), (9, "hole"), (11, "impossible")], str(found))


CASES = {"help": help_texts, "misuse": misuse, "estimate": estimate, "explain": explain,
         "explain_planted": explain_planted, "lint": lint, "fit": fit, "plot": plot,
         "no_gnuplot": no_gnuplot}

if __name__ == "__main__":
    sys.exit(run.main(CASES, __doc__))
