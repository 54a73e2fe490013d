#!/usr/bin/env bash
# Installs what is missing, builds every way that matters and runs every tier of tests.
#
# usage: tests/run.sh [--no-install] [--soak] [--tier NAME]...
#
#   --no-install  leave the machine's packages alone
#   --soak        longer forms of the same tests: a hundred times the seeds of the property test,
#                 and the tier soak: every combination of what the driver can vary, about an hour
#   --tier NAME   only this tier, may be given again; one of those that the last lines list
#
# The last line is "N passed, N failed". Status 0: something ran and nothing failed.
# Written for Debian 12 and Ubuntu 24.04.
set -uo pipefail

cd "$(dirname "$0")/.." || exit 2

readonly PACKAGES=(
	build-essential cmake ninja-build pkg-config git python3 ca-certificates
	libibverbs-dev libjansson-dev libarchive-dev libmicrohttpd-dev libncurses-dev libgsl-dev libcmocka-dev
	gnuplot-nox libnuma-dev ibverbs-utils ibverbs-providers perftest valgrind shellcheck prometheus tmux
	clang libclang-rt-dev clang-format-14 clang-tidy-14
)
# The kernel tier boots a virtual machine: tests/kernel/README.md.
readonly KERNEL_PACKAGES=(
	qemu-system-x86 busybox-static kmod xz-utils zstd cpio iproute2 rdma-core rdmacm-utils
)
readonly TIERS=(lint unit soft fault torture fuzz perf asan tsan kernel)
readonly SOAK_TIERS=(soak) # after --soak only

jobs=$(nproc)
install=yes
known=("${TIERS[@]}")
wanted=()
passed=0
failed=0
report=()

usage()
{
	sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' tests/run.sh >&2
	exit 64
}

say()
{
	printf '\n== %s\n' "$*"
}

# missing PACKAGE...: those that are not installed.
missing()
{
	local package

	for package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			printf '%s\n' "$package"
	done
}

install_packages()
{
	local as_root=() packages

	mapfile -t packages < <(missing "${PACKAGES[@]}" "${KERNEL_PACKAGES[@]}")
	[ ${#packages[@]} -gt 0 ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || {
			echo "run.sh: not root and no sudo; as root: apt-get install ${packages[*]}" >&2
			return 1
		}
		as_root=(sudo)
	fi
	say "install ${packages[*]}"
	"${as_root[@]}" apt-get update -qq &&
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
			--no-install-recommends "${packages[@]}"
}

# build PRESET: configure and build once per run; a build that fails counts as a failed test.
build()
{
	local log=build/$1.log

	[ ! -e "build/$1.done" ] || return 0
	say "build $1"
	mkdir -p build
	if cmake --preset "$1" >"$log" 2>&1 &&
		cmake --build --preset "$1" --parallel "$jobs" >>"$log" 2>&1; then
		touch "build/$1.done"
		return 0
	fi
	tail -n 60 "$log"
	echo "run.sh: build $1 failed; all of it is in $log"
	failed=$((failed + 1))
	return 1
}

# attribute NAME FILE: a number from the head of a JUnit report.
attribute()
{
	sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1
}

# run_tests PRESET [CTEST OPTION...]: run and count.
run_tests()
{
	local preset=$1 junit rc total bad skipped
	shift

	build "$preset" || return
	junit=$PWD/build/$preset.junit.xml
	rm -f "$junit"
	ctest --test-dir "build/$preset" --output-on-failure --output-junit "$junit" \
		--no-tests=ignore "$@"
	rc=$?
	total=0 bad=0 skipped=0
	if [ -s "$junit" ]; then
		total=$(attribute tests "$junit")
		bad=$(attribute failures "$junit")
		skipped=$(($(attribute skipped "$junit") + $(attribute disabled "$junit")))
	fi
	# A test whose program is missing is "skipped" there, and no success here.
	if [ $rc -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
		total=$((total > 0 ? total : 1))
		skipped=$((skipped > 0 ? skipped - 1 : 0))
	fi
	passed=$((passed + total - bad - skipped))
	failed=$((failed + bad))
}

tier_lint()
{
	run_tests dev -L '^lint$' -j "$jobs"
	run_tests lint -R '^lint\.tidy'
}

tier_unit()
{
	run_tests dev -L '^unit$' -j "$jobs"
}

tier_soft()
{
	run_tests dev -L '^soft$'
}

tier_fault()
{
	run_tests dev -L '^fault$'
}

tier_torture()
{
	run_tests dev -L '^torture$' -j "$jobs"
}

tier_fuzz()
{
	run_tests dev -L '^fuzz$' -j "$jobs"
	run_tests fuzz -L '^fuzz$' -j "$jobs"
}

tier_perf()
{
	run_tests release -L '^perf$'
}

# Of the runs in which every two choices meet, sanitizers see each tenth.
readonly MOST_PAIRS='^soft\.pairwise\..*[1-9]$'

tier_asan()
{
	run_tests asan -L '^(unit|torture|fuzz)$' -j "$jobs"
	run_tests asan -L '^(soft|fault)$' -E "$MOST_PAIRS"
}

tier_tsan()
{
	run_tests tsan -L '^unit$' -j "$jobs"
	run_tests tsan -L '^(soft|fault)$' -E "$MOST_PAIRS"
}

# Every combination of which the soft tier has every two choices.
tier_soak()
{
	run_tests dev -L '^soak$'
}

# Alone on the machine: its time runs slower than ours.
tier_kernel()
{
	run_tests dev -L '^kernel$'
}

# run_tier NAME: the tier, and its row of the report.
run_tier()
{
	local start=$SECONDS passed_before=$passed failed_before=$failed

	say "tier $1"
	"tier_$1"
	report+=("$(printf '%-8s %7d %7d %7d s' "$1" $((passed - passed_before)) \
		$((failed - failed_before)) $((SECONDS - start)))")
}

while [ $# -gt 0 ]; do
	case $1 in
	--no-install) install=no ;;
	--soak)
		export SEXTANT_TEST_SOAK=1
		known+=("${SOAK_TIERS[@]}")
		;;
	--tier)
		if [[ $# -lt 2 || " ${known[*]} " != *" $2 "* ]]; then
			echo "run.sh: --tier takes one of: ${known[*]}" >&2
			exit 64
		fi
		wanted+=("$2")
		shift
		;;
	*) usage ;;
	esac
	shift
done
[ ${#wanted[@]} -gt 0 ] || wanted=("${known[@]}")

if [ $install = yes ] && ! install_packages; then
	echo "run.sh: packages are missing"
	failed=1
fi
rm -f build/*.done
for tier in "${wanted[@]}"; do
	run_tier "$tier"
done

say "tier      passed  failed    time (builds included)"
printf '%s\n' "${report[@]}"
printf 'all of it in %d min %d s\n' $((SECONDS / 60)) $((SECONDS % 60))
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
