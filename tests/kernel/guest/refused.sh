#!/bin/bash
# A user who may not open the device files: the plugin names them and says what to allow.
#
# usage: refused.sh SEXTANT PLUGIN ABI
set -eu

trap 'chmod 666 /dev/infiniband/uverbs*' EXIT
chmod 600 /dev/infiniband/uverbs*
# Where that user can read them, wherever the tree lies.
install -m 755 -D -t /tmp/refused "$1" "$2"
status=0
setpriv --reuid=65534 --regid=65534 --clear-groups "/tmp/refused/${1##*/}" bench \
	--plugin "/tmp/refused/${2##*/}" --abi "$3" \
	--ranks 2 --pattern sendrecv >/tmp/refused.log 2>&1 || status=$?
cat /tmp/refused.log
[ "$status" = 69 ]
grep -q 'HCA rxa is left out: opening it: Permission denied; .*/dev/infiniband/uverbs' \
	/tmp/refused.log
