"""Texts in this folder are what commands print: compared, and written anew when that is wanted."""
import os
import sys


def check(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


def path_of(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def write(name, text):
    with open(path_of(name), "w", encoding="utf-8") as file:
        file.write(text)


def read(name):
    with open(path_of(name), encoding="utf-8") as file:
        return file.read()


def compare(name, text, update=False):
    if update:
        write(name, text)
    check(text == read(name), f"differs from {name}:\n{text}")
