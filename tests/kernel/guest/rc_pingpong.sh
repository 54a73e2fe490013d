#!/bin/bash
# The stock ibv_rc_pingpong across the wire: the tier itself works before anything of ours runs.
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

# 100 round trips of 4096 bytes, one packet each way.
args=(-g 1 -m 4096 -n 100 -c)
before=$(wire_packets)
ibv_rc_pingpong -d rxb "${args[@]}" &
server=$!
wait_for_listener 18515 $server
ibv_rc_pingpong -d rxa "${args[@]}" 127.0.0.1
wait $server
expect_packets "$before" 200
expect_nothing_left
