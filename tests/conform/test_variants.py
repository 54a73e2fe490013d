"""`sextant conform` on the fake net plugin: an honest one passes in every version, and one that
breaks a single rule fails in the check of that rule and in no other.

Usage: test_variants.py SEXTANT FAKE_PLUGIN VARIANTS CASE
VARIANTS is the program that lists the ways in which the plugin can be broken.
"""
import concurrent.futures
import functools
import json
import os
import resource
import subprocess
import sys

SEXTANT, FAKE, VARIANTS, CASE = sys.argv[1:5]
# Touches 6 GiB of address space, which takes from seconds to a minute.
HUGE = "message.3gib"
# A third of the time of all checks together.
SLOW = "message.sizes"
VERSIONS = range(6, 13)
# Most of a run is waiting.
AT_ONCE = 3


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@functools.cache
def list_checks():
    """(name, first version) of each check, in order."""
    rows = [line.split() for line in lines_of(SEXTANT, "conform", "--list")]
    return [(row[0], int(row[1].removeprefix("v"))) for row in rows]


def list_variants():
    """(name, version to see it in, deed) of each variant, in order."""
    rows = [line.split("\t") for line in lines_of(VARIANTS)]
    return [(name, int(abi), deed) for name, abi, deed in rows]


def conform(*options, ranks=1, broken=None):
    """Runs to its end; answers (status, {version: {check: (verdict, seen)}}, stderr)."""
    environment = {**os.environ}
    for name in ("SXT_FAKE_FAULT", "SXT_FAKE_BREAK"):
        environment.pop(name, None)
    if broken:
        environment["SXT_FAKE_BREAK"] = broken
    done = subprocess.run([SEXTANT, "conform", "--plugin", FAKE, "--ranks", str(ranks),
                           "--json", *options], env=environment, capture_output=True, text=True)
    verdicts = {}
    if done.stdout:
        for version in json.loads(done.stdout)["versions"]:
            verdicts[version["abi"]] = {check["name"]: (check["verdict"], check["seen"])
                                        for check in version["checks"]}
    return done.returncode, verdicts, done.stderr


def all_but(*names):
    """Options for all checks but these."""
    return [word for name in names for word in ("--skip", name)]


def complain(problems):
    if problems:
        sys.exit("\n".join(problems))


def case_variants():
    """One variant per check, and nothing else."""
    checks, variants = list_checks(), list_variants()
    if [name for name, _ in checks] != [name for name, _, _ in variants]:
        missing = {name for name, _ in checks} - {name for name, _, _ in variants}
        strange = {name for name, _, _ in variants} - {name for name, _ in checks}
        sys.exit(f"the lists differ: checks without a variant: {sorted(missing)}; variants "
                 f"without a check: {sorted(strange)}; otherwise their order")
    complain([f"{name}: a check from v{since} on, a variant for v{abi}"
              for (name, since), (_, abi, _) in zip(checks, variants) if abi < since])


def case_honest():
    """No check fails in any version, and each applies in some."""
    status, verdicts, err = conform("--abi", "all", *all_but(HUGE))
    problems = [f"v{abi} {name}: {verdict}: {seen}" for abi in verdicts
                for name, (verdict, seen) in verdicts[abi].items() if verdict == "fail"]
    if status != 0:
        problems.append(f"exit status {status}: {err}")
    if sorted(verdicts) != list(VERSIONS):
        problems.append(f"checked are the versions {sorted(verdicts)}")
    problems += [f"{name}: applies to no version" for name, _ in list_checks()
                 if name != HUGE
                 and all(verdicts[abi][name][0] != "ok" for abi in verdicts)]
    complain(problems)


def case_ranks():
    """No check fails with the two ends in two processes."""
    status, verdicts, err = conform("--abi", "12", *all_but(HUGE, SLOW), ranks=2)
    if status != 0:
        sys.exit(f"exit status {status}: {verdicts} {err}")


def case_huge():
    """A message of 3 GiB, in one version."""
    status, verdicts, err = conform("--abi", "12", "--check", HUGE, "--timeout", "250")
    if status != 0 or verdicts[12][HUGE][0] != "ok":
        sys.exit(f"exit status {status}, {verdicts}, {err}")


def judge(name, abi, deed):
    """What is wrong with what is said of a broken variant; None if nothing is."""
    # The variant that refuses the huge message does so at once.
    options = all_but(*{HUGE, SLOW} - {name})
    status, verdicts, err = conform("--abi", str(abi), *options, broken=name)
    failed = {check: seen for check, (verdict, seen) in verdicts.get(abi, {}).items()
              if verdict == "fail"}
    if status == 1 and list(failed) == [name]:
        return None
    return f"broken {name} (v{abi}: {deed}): exit status {status}, failed: {failed} {err}"


def case_broken():
    """Each variant fails in exactly its check."""
    variants = list_variants()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        complain([problem for problem in pool.map(lambda row: judge(*row), variants) if problem])


def case_unknown():
    """A variant that is not in the list is no honest plugin."""
    status, _, err = conform(broken="nonsense")
    if status != 69 or "is no variant" not in err:
        sys.exit(f"exit status {status}: {err}")


# Some variants crash; nobody wants their memory.
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
globals()["case_" + CASE]()
