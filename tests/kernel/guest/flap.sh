#!/bin/bash
# The link goes down for a second while data flows. Either the run goes on, or both ranks end with
# an error that names port and reason; which of them depends on where the packets were. After it the
# devices serve new runs.
#
# usage: flap.sh SEXTANT PLUGIN ABI
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

bench=("$1" bench --plugin "$2" --abi "$3" --pattern sendrecv -b 64K -e 64K -w 1)

# flap: down for a second, and what a driver needs back that the kernel forgot.
flap()
{
	ip link set vb down
	sleep 1
	ip link set vb up
	wire_neighbours
}

trap 'kill -9 "${ranks[@]}" 2>/dev/null || true' EXIT
start_rank 0 rxa "${bench[@]}" -n 1000000 -c 0 --timeout 100
start_rank 1 rxb "${bench[@]}" -n 1000000 -c 0 --timeout 100
wait_for_traffic 100 || {
	end_ranks
	exit 1
}
flap
began=$(now_ms)
if wait_for_traffic 300; then
	echo "the run went on; it is ended now"
	kill -TERM "${ranks[@]}"
	end_ranks
else
	end_ranks
	echo "the run ended within $(($(now_ms) - began)) ms"
	[ "${rank_status[*]}" = "2 2" ]
	grep -Eq 'NET/Sextant : rx[ab]: (sending to|receiving from) .*; port 1 of rx[ab] went down' \
		/tmp/rank0.log /tmp/rank1.log
fi
grep -q 'port rxb:1: port error' /tmp/rank1.log
expect_nothing_left

start_rank 0 rxa "${bench[@]}" -n 2 -c 1
start_rank 1 rxb "${bench[@]}" -n 2 -c 1
end_ranks
[ "${rank_status[*]}" = "0 0" ]
expect_nothing_left
