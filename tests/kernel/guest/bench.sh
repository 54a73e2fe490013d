#!/bin/bash
# `sextant bench` between two processes, the first on rxa and the second on rxb, over the stock
# libibverbs, with the data checked.
#
# usage: bench.sh SEXTANT PLUGIN PATTERN ABI [VARIABLE=VALUE...]
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

sextant=$1 plugin=$2 pattern=$3 abi=$4
shift 4
# 0 B to 512 KiB, little enough for an emulated processor.
bench=("$sextant" bench --plugin "$plugin" --abi "$abi" --pattern "$pattern"
	-b 0 -e 1M -f 16 -n 1 -w 1 -c 1)

before=$(wire_packets)
start_rank 1 rxb "$@" "${bench[@]}"
start_rank 0 rxa "$@" "${bench[@]}"
end_ranks
[ "${rank_status[*]}" = "0 0" ]
# 512 KiB three times (warm-up, iteration and check) make 384 packets of 4096 bytes.
expect_packets "$before" 384
# With and without a setting: RoCE v2 over IPv4, not the link-local entry before it.
grep -q 'port sxt_rxa: RoCE v2, .* GID index 1 10\.9\.0\.1 ' /tmp/rank0.log
grep -q 'port sxt_rxb: RoCE v2, .* GID index 1 10\.9\.0\.2 ' /tmp/rank1.log
expect_nothing_left
