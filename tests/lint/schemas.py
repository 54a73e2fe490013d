#!/usr/bin/env python3
"""Gate: every file in docs/schema/ is a JSON schema with a title, named for what it describes."""
import json

import source


def check(root, path):
    try:
        schema = json.loads(source.read(root, path))
    except json.JSONDecodeError as error:
        return [(path, error.lineno, f"no JSON: {error.msg}")]
    if not isinstance(schema, dict):
        return [(path, 1, "a schema is an object")]
    return [(path, 1, f'has no "{key}"') for key in ("$schema", "title") if key not in schema]


def main():
    args = source.options(__doc__)
    paths = [path for path in source.files(args.root, (".json",))
             if path.startswith("docs/schema/")]
    source.finish([row for path in paths for row in check(args.root, path)], len(paths))


main()
