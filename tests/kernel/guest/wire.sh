# shellcheck shell=bash
# Shared by the guest's tests: the wire and what it carried, what the kernel holds for verbs
# programs, and programs in pairs.

# wire_neighbours: the ends know each other without asking. Taking a link down forgets that.
wire_neighbours()
{
	ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:0b dev va &&
		ip neigh replace 10.9.0.1 lladdr 02:00:00:00:00:0a dev vb
}

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

# expect_nothing_left: no program holds queue pairs, completion queues, registrations, protection
# domains or an open device: what is there is the driver's own.
expect_nothing_left()
{
	local left

	left=$(rdma resource show | grep -v ': pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 ' || true)
	[ -z "$left" ] && return 0
	echo "left behind:"
	echo "$left"
	rdma resource show qp
	rdma resource show mr
	return 1
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

# The two processes of a pair, and how they ended.
ranks=()
rank_status=()

# start_rank NUMBER DEVICE COMMAND [ARGUMENT...]: in the background, on that device alone.
start_rank()
{
	local number=$1 device=$2

	shift 2
	env RANK="$number" LOCAL_RANK="$number" WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 \
		MASTER_ADDR=127.0.0.1 MASTER_PORT="${MASTER_PORT:-29500}" \
		NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET NCCL_SOCKET_IFNAME=lo \
		NCCL_IB_HCA="=$device" "$@" >"/tmp/rank$number.log" 2>&1 &
	ranks[number]=$!
}

# rank_runs NUMBER: it has not ended yet.
rank_runs()
{
	kill -0 "${ranks[$1]}" 2>/dev/null
}

# end_ranks: waits for both and shows what they said.
end_ranks()
{
	local number

	for number in 0 1; do
		rank_status[number]=0
		wait "${ranks[$number]}" || rank_status[number]=$?
		echo "--- rank $number, exit status ${rank_status[$number]}:"
		cat "/tmp/rank$number.log"
	done
	echo "---"
}

# wait_for_traffic LEAST: until the wire carried that many more packets; both ranks still run.
wait_for_traffic()
{
	local before

	before=$(wire_packets)
	while rank_runs 0 && rank_runs 1; do
		[ "$(($(wire_packets) - before))" -lt "$1" ] || return 0
		sleep 0.1
	done
	echo "a rank ended before the wire carried $1 packets"
	return 1
}

# now_ms: for durations, which are shown more than judged.
now_ms()
{
	date +%s%3N
}
