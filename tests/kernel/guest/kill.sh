#!/bin/bash
# One of two ranks is killed while data flows: the other ends with an error that names it. Its
# rendezvous with the dead rank goes through a relay that stays, so it is the plugin that notices:
# by the side channel, or sooner by a write that finds the buffer or the queue pair gone.
#
# usage: kill.sh SEXTANT PLUGIN ABI
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

# SEXTANT_PEER_DEAD_SECONDS is 5; the rest is for an emulated processor on a busy host.
limit_s=20
bench=("$1" bench --plugin "$2" --abi "$3" --pattern sendrecv
	-b 64K -e 64K -n 1000000 -w 1 -c 0 --timeout 100)

"$(dirname "$0")/relay.py" 29501 29500 &
relay=$!
trap 'kill -9 "$relay" "${ranks[@]}" 2>/dev/null || true' EXIT
wait_for_listener 29501 $relay
start_rank 0 rxa "${bench[@]}"
MASTER_PORT=29501 start_rank 1 rxb "${bench[@]}"
wait_for_traffic 100 || {
	end_ranks
	exit 1
}

began=$(now_ms)
kill -9 "${ranks[1]}"
while rank_runs 0 && [ "$(($(now_ms) - began))" -lt "$((limit_s * 1000))" ]; do
	sleep 0.1
done
took=$(($(now_ms) - began))
if rank_runs 0; then
	echo "rank 0 still runs $took ms after rank 1 was killed; it is killed too"
	kill -9 "${ranks[0]}"
fi
end_ranks
echo "rank 0 ended $took ms after rank 1 was killed"
[ "${rank_status[0]}" -eq 2 ]
grep -Eq -e 'peer sextant-guest.* is gone: .*SEXTANT_PEER_DEAD_SECONDS' \
	-e 'WARN .*(sending to|receiving from) sextant-guest:[0-9]+ rxb: ' /tmp/rank0.log
expect_nothing_left
