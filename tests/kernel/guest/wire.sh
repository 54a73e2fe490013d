# shellcheck shell=bash
# Shared by the guest's tests: what the wire carried, and programs in pairs.

# wire_packets: packets sent by both ends so far.
wire_packets()
{
	local va vb

	va=$(cat /sys/class/net/va/statistics/tx_packets)
	vb=$(cat /sys/class/net/vb/statistics/tx_packets)
	echo "$((va + vb))"
}

# expect_packets BEFORE LEAST: the wire carried at least that many packets since.
expect_packets()
{
	local sent

	sent=$(($(wire_packets) - $1))
	echo "the wire carried $sent packets"
	if [ "$sent" -lt "$2" ]; then
		echo "expected at least $2: the data went another way"
		return 1
	fi
}

# wait_for_listener PORT PID: until PORT is listened on, or PID is gone.
wait_for_listener()
{
	while kill -0 "$2" 2>/dev/null; do
		[ -z "$(ss -Hltn "sport = :$1")" ] || return 0
		sleep 0.1
	done
	echo "the server ended before it listened on port $1"
	return 1
}
