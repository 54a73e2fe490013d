#!/bin/bash
# The link goes down for good while data flows, with NCCL_IB_TIMEOUT=14: within a minute of the
# guest's time both ranks end with ncclRemoteError, and whoever saw the path fail says so in one
# WARN with status, port, both queue pairs and both GIDs.
#
# usage: linkdown.sh SEXTANT PLUGIN ABI
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

limit_s=60
bench=("$1" bench --plugin "$2" --abi "$3" --pattern sendrecv
	-b 64K -e 64K -n 1000000 -w 1 -c 0 --timeout 100)

link_back()
{
	kill -9 "${ranks[@]}" 2>/dev/null || true
	ip link set vb up
	wire_neighbours
}

trap link_back EXIT
export NCCL_IB_TIMEOUT=14
start_rank 0 rxa "${bench[@]}"
start_rank 1 rxb "${bench[@]}"
wait_for_traffic 100 || {
	end_ranks
	exit 1
}
began=$(now_ms)
ip link set vb down
while { rank_runs 0 || rank_runs 1; } &&
	[ "$(($(now_ms) - began))" -lt "$((limit_s * 1000))" ]; do
	sleep 0.1
done
took=$(($(now_ms) - began))
kill -9 "${ranks[@]}" 2>/dev/null || true
end_ranks
echo "both ranks ended $took ms after the link went down"
[ "${rank_status[*]}" = "2 2" ]
gid='10\.9\.0\.[12]'
warn="WARN [a-z]+\.c:[0-9]+ NET/Sextant : rx[ab]: (sending to|receiving from) .* failed, .*status [0-9]+, .*"
warn+="port rx[ab]:1, qp 0x[0-9a-f]+ -> 0x[0-9a-f]+, gid $gid -> $gid"
seen=0
for number in 0 1; do
	log=/tmp/rank$number.log
	grep -q ncclRemoteError "$log"
	cnt=$(grep -Ec "$warn" "$log" || true)
	seen=$((seen + cnt))
	# A rank has two connections, and says it once of each.
	[ "$cnt" -le 2 ]
	[ "$(grep -E "$warn" "$log" | grep -Eo '(sending to|receiving from)' | sort | uniq -d)" = "" ]
done
[ "$seen" -ge 1 ]
expect_nothing_left
