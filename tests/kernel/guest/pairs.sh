#!/bin/bash
# `sextant doctor pairs` between rxa and rxb: the wire as it is; then with a wrong neighbour on one
# end, so that what rxa sends over IPv4 is lost and what it is sent arrives. Another address helps.
#
# usage: pairs.sh SEXTANT
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

# meet STATE FINDING [SETTING...]: the state of the one pair in rxa's report, and a finding that must
# be there ("none": no certain one).
meet()
{
	local state=$1 finding=$2 where

	shift 2
	start_rank 1 rxb env "$@" "$sextant" doctor pairs --listen=127.0.0.1:0 --json
	until where=$(grep -o 'sextant doctor pairs 127.0.0.1:[0-9]*' /tmp/rank1.log); do
		rank_runs 1
		sleep 0.1
	done
	start_rank 0 rxa env "$@" "$sextant" doctor pairs "${where##* }" --json
	end_ranks
	sed '/^sextant/d' /tmp/rank0.log | python3 -c '
import json, sys
state, finding = sys.argv[1:]
document = json.load(sys.stdin)
pair = document["pairs"][0]
assert (pair["here"], pair["there"], pair["state"]) == ("rxa:1", "rxb:1", state), pair
assert state != "good" or min(pair["out"]["mbps"], pair["in"]["mbps"]) > 0, pair
assert finding in [row["id"] for row in document["findings"]] + ["none"], document["findings"]
' "$state" "$finding"
}

wrong_neighbour()
{
	ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:ff dev va
}

sextant=$1
before=$(wire_packets)
meet good none
expect_packets "$before" 1000
trap wire_neighbours EXIT
wrong_neighbour
meet silent pairs-one-way NCCL_IB_ADDR_RANGE=10.9.0.0/24
grep -q 'rxa:1 -> rxb:1' /tmp/rank0.log
grep -q 'rxb:1 <- rxa:1' /tmp/rank1.log
meet good pairs-late
wire_neighbours
expect_nothing_left
