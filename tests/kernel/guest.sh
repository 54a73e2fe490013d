#!/bin/bash
# Runs in the guest, as root: sets up two rxe devices on the ends of a veth pair, runs the tests
# listed in OUT/list, and writes the results to OUT/results.tap and the output to OUT/NAME.log.
#
# A line of the list: NAME SECONDS COMMAND [ARGUMENT...]
#
# usage: guest.sh OUT
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C
out=$1
# shellcheck source=guest/wire.sh
. "$(dirname "$0")/guest/wire.sh"

# What the kernel says when it, and not the test, is wrong.
kernel_fault='BUG:|kernel BUG|WARNING:|Call Trace|soft lockup|Oops|general protection'

# The wire, in one network namespace: before 7.x rxe works in the first one only. Routes need no
# policy, since rxe asks for one out of its own interface; but each end must take a packet from
# an address that is also local, and neither may answer for the other.
# 4500 bytes of MTU give the devices an active_mtu of 4096.
wire_up()
{
	ip link set lo up &&
		echo 1 >/proc/sys/net/ipv4/conf/all/accept_local &&
		echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad &&
		ip link add va address 02:00:00:00:00:0a type veth \
			peer name vb address 02:00:00:00:00:0b &&
		ip link set va mtu 4500 up &&
		ip link set vb mtu 4500 up &&
		ip addr add 10.9.0.1/24 dev va &&
		ip addr add 10.9.0.2/24 dev vb &&
		wire_neighbours &&
		rdma link add rxa type rxe netdev va &&
		rdma link add rxb type rxe netdev vb
}

# kernel_faults FROM_LINE: what the kernel said since then, if it is a fault.
kernel_faults()
{
	dmesg | tail -n "+$1" | grep -E -B2 -A25 "$kernel_fault"
}

say()
{
	echo "$*" | tee -a "$out/results.tap"
}

# run_one NUMBER NAME SECONDS COMMAND...
run_one()
{
	local number=$1 name=$2 limit=$3 log=$out/$2.log lines began rc

	shift 3
	lines=$(($(dmesg | wc -l) + 1))
	began=$(date +%s%N)
	timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null
	rc=$?
	case $rc in
	124 | 137) echo "guest: no end after $limit s" >>"$log" ;;
	esac
	if kernel_faults "$lines" >>"$log"; then
		echo "guest: the kernel reported a fault, see above" >>"$log"
		rc=1
	fi
	local took=$((($(date +%s%N) - began) / 10000000))
	took=$(printf '%d.%02d s' $((took / 100)) $((took % 100)))
	if [ "$rc" -eq 0 ]; then
		say "ok $number - $name # $took"
	else
		say "not ok $number - $name # $took, exit status $rc"
	fi
}

echo "guest: $(uname -r), $(nproc) processors, up after $(cut -d' ' -f1 /proc/uptime) s"
ulimit -l unlimited
ulimit -n 65536
hostname sextant-guest
if ! wire_up; then
	echo "guest: setting up the rxe devices failed"
	exit 1
fi

number=0
say "TAP version 13"
say "1..$(wc -l <"$out/list")"
while read -r -a line <&3; do
	number=$((number + 1))
	run_one "$number" "${line[@]}"
done 3<"$out/list"

dmesg >"$out/dmesg.log"
if kernel_faults 1; then
	echo "guest: the kernel reported a fault, see above and dmesg.log"
	exit 1
fi
echo "guest: finished"
touch "$out/finished"
