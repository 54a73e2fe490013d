#!/bin/bash
# `sextant conform` between two processes, the first on rxa and the second on rxb, over the stock
# libibverbs.
#
# usage: conform.sh SEXTANT PLUGIN ABI
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

# rxe keeps a table of 16 bytes per page in one piece of memory, so the kernel warns of 3 GiB.
conform=("$1" conform --plugin "$2" --abi "$3" --timeout 60 --skip message.3gib)

before=$(wire_packets)
start_rank 1 rxb "${conform[@]}"
start_rank 0 rxa "${conform[@]}"
end_ranks
[ "${rank_status[*]}" = "0 0" ]
expect_packets "$before" 100
expect_nothing_left
