#!/usr/bin/env python3
"""The runs of `sextant bench` in which every two choices meet: a list, made and checked.

usage: pairwise.py make           print a list
       pairwise.py check FILE     is every allowed pair in it, in few enough runs?
       pairwise.py product        print every allowed combination

A line is: pattern, processes, ports, queue pairs per connection, interface version, largest size.
"""
import itertools
import sys

PATTERNS = ("sendrecv", "all_reduce:ring", "all_reduce:tree", "all_gather", "reduce_scatter",
            "alltoall", "ll")
PROCESSES = (2, 3, 4, 8)
PORTS = (1, 2, 4, 8)
QPS = (1, 4)
ABIS = (6, 7, 8, 9, 10, 11, 12)
CHOICES = (PATTERNS, PROCESSES, PORTS, QPS, ABIS)
RUNS_MAX = 60
LARGE = "256M"
LARGE_RUNS = 2
USUAL = "16M"
SEEDS = 40


def allowed(run):
    """makeVDevice came with v9 and takes 4 devices; v12 takes 8."""
    ports, abi = run[2], run[4]
    return ports == 1 or (abi >= 9 and ports <= 4) or abi >= 12


def all_runs():
    return [run for run in itertools.product(*CHOICES) if allowed(run)]


def pairs_of(run):
    return {(i, run[i], j, run[j]) for i, j in itertools.combinations(range(len(run)), 2)}


def mix(seed, number):
    """An order that is the same on every machine and in every version of Python."""
    mixed = (number * 2654435761 + seed * 40503 + 12345) & 0xffffffff
    mixed ^= mixed >> 15
    return mixed * 2246822519 & 0xffffffff


def cover(seed, runs, pairs):
    """Greedy: always the run with the most pairs that are missing."""
    order = sorted(range(len(runs)), key=lambda number: mix(seed, number))
    missing = set().union(*pairs)
    chosen = []
    while missing:
        best = max(order, key=lambda number: len(pairs[number] & missing))
        chosen.append(runs[best])
        missing -= pairs[best]
    return chosen


def make():
    runs = all_runs()
    pairs = [pairs_of(run) for run in runs]
    chosen = min((cover(seed, runs, pairs) for seed in range(SEEDS)), key=len)
    chosen.sort(key=lambda run: tuple(choice.index(value) for choice, value in zip(CHOICES, run)))
    # Large ones where they are cheap and where a message is cut most.
    large = [next(run for run in chosen if run[1] == 2 and run[2] == ports) for ports in (1, 8)]
    return [(*run, LARGE if run in large else USUAL) for run in chosen]


def read(path):
    with open(path, encoding="ascii") as file:
        for line in file:
            pattern, *numbers, size = line.split()
            yield (pattern, *map(int, numbers), size)


def check(path):
    lines = list(read(path))
    runs = [line[:-1] for line in lines]
    wrong = [run for run in runs if run not in all_runs()]
    missing = set().union(*map(pairs_of, all_runs())) - set().union(*map(pairs_of, runs))
    large = sum(line[-1] == LARGE for line in lines)
    for run in wrong:
        print(f"not allowed: {run}")
    for pair in sorted(missing, key=str):
        print(f"missing: {pair[1]} with {pair[3]}")
    if len(runs) > RUNS_MAX or large != LARGE_RUNS:
        print(f"{len(runs)} runs, expected {RUNS_MAX} at most; {large} of {LARGE}, expected "
              f"{LARGE_RUNS}")
    return bool(wrong or missing or len(runs) > RUNS_MAX or large != LARGE_RUNS)


def main():
    if sys.argv[1:] == ["make"]:
        for run in make():
            print(*run)
    elif sys.argv[1:] == ["product"]:
        for run in all_runs():
            print(*run, USUAL)
    elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        sys.exit(check(sys.argv[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
