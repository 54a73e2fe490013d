#!/bin/bash
# After all tests nothing holds the devices: no queue pair, completion queue or registration but the
# driver's own, and the devices and the driver can go. Must be the last test.
set -eu
# shellcheck source=wire.sh
. "$(dirname "$0")/wire.sh"

rdma resource show
expect_nothing_left
rdma link del rxa
rdma link del rxb
rmmod rdma_rxe
