#!/usr/bin/env python3
"""Run a gate on planted violations: it must fail, and say exactly what is expected.

usage: expect.py EXPECTED COMMAND...
"""
import difflib
import subprocess
import sys


def main():
    expected_path, command = sys.argv[1], sys.argv[2:]
    with open(expected_path, encoding="utf-8") as file:
        expected = file.read().splitlines()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    got = done.stdout.splitlines()
    if done.returncode != 1:
        print(f"exit status {done.returncode}, wanted 1: the gate let the violation through")
    for row in difflib.unified_diff(expected, got, "expected", "got", lineterm=""):
        print(row)
    if not expected:
        print(f"{expected_path} is empty")
    sys.exit(0 if done.returncode == 1 and got == expected and expected else 1)


main()
