#!/bin/sh
# Reports one test of the last run: its output, and exit status 0 if it passed.
#
# usage: check.sh OUT NAME
set -eu

result=$(grep -E "^(not )?ok [0-9]+ - $2 " "$1/results.tap") || {
	echo "check.sh: no result of $2 in $1/results.tap: the machine did not get that far" >&2
	exit 1
}
echo "$result"
cat "$1/$2.log"
case $result in
ok*) ;;
*)
	exit 1
	;;
esac
