#!/bin/bash
# After all tests nothing holds the devices: no queue pair but the driver's own, and the devices and
# the driver can go. Must be the last test.
set -eu

rdma resource show
left=$(rdma resource show qp | grep -vw 'type GSI' || true)
if [ -n "$left" ]; then
	echo "queue pairs left behind:"
	echo "$left"
	exit 1
fi
rdma link del rxa
rdma link del rxb
rmmod rdma_rxe
