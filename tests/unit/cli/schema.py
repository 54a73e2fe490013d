#!/usr/bin/env python3
"""Run a command and check the JSON it prints against a schema.

usage: schema.py SCHEMA COMMAND...

Knows the keywords that docs/schema/ uses; an unknown one is an error, not a pass.
"""
import json
import subprocess
import sys

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
         "boolean": bool, "null": type(None)}
ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description", "examples", "default"}


def is_type(value, name):
    if isinstance(value, bool) and name != "boolean":
        return False
    return isinstance(value, TYPES[name])


class Checker:
    """Collects what is wrong, each with the place in the document."""

    def __init__(self, schema):
        self.root = schema
        self.errors = []

    def resolve(self, reference):
        node = self.root
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
        return node

    def check(self, value, schema, where="$"):
        if schema is False:
            self.errors.append(f"{where}: not allowed")
        if isinstance(schema, bool):
            return
        for keyword, argument in schema.items():
            if keyword in ANNOTATIONS:
                continue
            rule = getattr(self, "on_" + keyword.strip("$"), None)
            if rule is None:
                sys.exit(f"schema.py does not know the keyword {keyword}")
            rule(value, argument, where, schema)

    def on_ref(self, value, argument, where, _):
        self.check(value, self.resolve(argument), where)

    def on_type(self, value, argument, where, _):
        names = argument if isinstance(argument, list) else [argument]
        if not any(is_type(value, name) for name in names):
            self.errors.append(f"{where}: {value!r} is no {' or '.join(names)}")

    def on_const(self, value, argument, where, _):
        if value != argument:
            self.errors.append(f"{where}: {value!r} is not {argument!r}")

    def on_enum(self, value, argument, where, _):
        if value not in argument:
            self.errors.append(f"{where}: {value!r} is none of {argument}")

    def on_required(self, value, argument, where, _):
        for key in argument:
            if isinstance(value, dict) and key not in value:
                self.errors.append(f"{where}: has no {key}")

    def on_properties(self, value, argument, where, _):
        for key, schema in argument.items():
            if isinstance(value, dict) and key in value:
                self.check(value[key], schema, f"{where}.{key}")

    def on_additionalProperties(self, value, argument, where, schema):
        for key in value if isinstance(value, dict) else ():
            if key not in schema.get("properties", {}):
                self.check(value[key], argument, f"{where}.{key}")

    def on_items(self, value, argument, where, _):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            self.check(item, argument, f"{where}[{index}]")

    def on_minItems(self, value, argument, where, _):
        if isinstance(value, list) and len(value) < argument:
            self.errors.append(f"{where}: fewer than {argument} items")

    def on_minimum(self, value, argument, where, _):
        if is_type(value, "number") and value < argument:
            self.errors.append(f"{where}: {value} is below {argument}")

    def on_maximum(self, value, argument, where, _):
        if is_type(value, "number") and value > argument:
            self.errors.append(f"{where}: {value} is above {argument}")


def faults(path, document):
    """What is wrong with a document, which should name the schema of a file, by that."""
    with open(path, encoding="utf-8") as file:
        schema = json.load(file)
    checker = Checker(schema)
    checker.check(document, schema)
    if document.get("schema") != schema["title"]:
        checker.errors.append(f"$.schema: {document.get('schema')!r} is not {schema['title']!r}")
    return checker.errors


def main():
    done = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, text=True, check=True)
    errors = faults(sys.argv[1], json.loads(done.stdout))
    print("\n".join(errors))
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
