#!/bin/sh
# What `sextant soft show --json` would print after a message found its receiver unready.
cat <<'JSON'
{"hosts": [{"name": "a", "hcas": [{"name": "mlx5_0", "ports": [
  {"port": 1, "counters": {"out_of_buffer": 3, "rnr_nak": 0}}]}]}]}
JSON
