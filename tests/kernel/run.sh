#!/bin/bash
# Boots one virtual machine (software emulation, stock kernel) that runs a list of tests on real
# kernel verbs, and reports. Exit status 0: the machine came to its end and the kernel reported no
# fault; how each test went is in OUT/results.tap, for check.sh.
#
# usage: run.sh OUT LIST        (a line of LIST: NAME SECONDS COMMAND [ARGUMENT...])
set -euo pipefail

out=${1:?usage: run.sh OUT LIST}
list=${2:?usage: run.sh OUT LIST}
here=$(cd "$(dirname "$0")" && pwd)
# Less than the ctest limit of 1800 s, so that the console is printed and not just cut off.
limit_s=1740

die()
{
	echo "run.sh: $*" >&2
	exit 1
}

# check_tools: everything that the tier needs, named at once.
check_tools()
{
	local tool missing=""

	for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static rdma:iproute2 \
		ibv_devinfo:ibverbs-utils ibv_rc_pingpong:ibverbs-utils rmmod:kmod; do
		command -v "${tool%%:*}" >/dev/null && continue
		case "$missing " in
		*" ${tool##*:} "*) ;;
		*) missing="$missing ${tool##*:}" ;;
		esac
	done
	[ -z "$missing" ] || die "missing:$missing. Install them: apt-get install$missing"
	if ldd "$(command -v busybox)" >/dev/null 2>&1; then
		die "busybox is linked dynamically: install busybox-static"
	fi
}

# make_initrd KERNEL_FOLDER: busybox, the modules and init.
make_initrd()
{
	local tree=$out/initrd

	mkdir -p "$tree/bin"
	cp "$(command -v busybox)" "$tree/bin/busybox"
	ln -s busybox "$tree/bin/sh"
	cp -r "$1/modules" "$tree/modules"
	install -m 755 "$here/init" "$tree/init"
	(cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null) >"$out/initrd.cpio"
	rm -rf "$tree"
}

# boot KERNEL_FOLDER: runs the machine to its end.
boot()
{
	local cpus

	# Two at least: two processes that poll on one processor take turns at the timer tick.
	cpus=$(nproc)
	cpus=$((cpus < 2 ? 2 : cpus > 4 ? 4 : cpus))
	# The watchdog limits are the guest's: a busy host stops its processors for seconds.
	timeout "$limit_s" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max \
		-smp "$cpus" -m 1024 -nodefaults -no-user-config -display none -serial stdio \
		-no-reboot -nic none -kernel "$1/vmlinuz" -initrd "$out/initrd.cpio" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable \
log_buf_len=4M watchdog_thresh=60 \
rcupdate.rcu_cpu_stall_timeout=120 guestcmd=$here/guest.sh" \
		-virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap" \
		-virtfs "local,path=$out,mount_tag=out,security_model=none" \
		</dev/null >"$out/console.log" 2>&1
}

cache_home=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
mkdir -p "$out"
out=$(cd "$out" && pwd)
case $out$here in
*[[:space:],]*) die "a blank or a comma in $out or $here is more than qemu's options can take" ;;
esac
# Nothing of an earlier run may pass for a result.
find "$out" -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +
check_tools
kernel=$("$here/fetch.sh" "${cache_home:-$out/cache}/sextant-kernel")
echo "kernel: $(basename "$kernel")"
make_initrd "$kernel"
cp "$list" "$out/list"

began=$SECONDS
rc=0
boot "$kernel" || rc=$?
echo "machine: $((SECONDS - began)) s, exit status $rc"
[ ! -e "$out/results.tap" ] || cat "$out/results.tap"
if [ ! -e "$out/finished" ]; then
	[ "$rc" -ne 124 ] || echo "run.sh: the machine was not done after $limit_s s" >&2
	echo "run.sh: the machine did not finish as it should; the last of its console:" >&2
	tail -n 60 "$out/console.log" >&2
	exit 1
fi
