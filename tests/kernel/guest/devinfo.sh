#!/bin/bash
# Both ends of the wire are RoCE v2 devices that are up, seen through the stock libibverbs.
set -eu

for dev in rxa rxb; do
	info=$(ibv_devinfo -v -d "$dev")
	echo "$info"
	grep -q 'state:.*PORT_ACTIVE' <<<"$info"
	grep -q 'active_mtu:.*4096' <<<"$info"
	grep -q 'GID\[ *1\]:.*::ffff:10\.9\.0\.[12], RoCE v2' <<<"$info"
done
