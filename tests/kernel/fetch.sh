#!/bin/bash
# Fetches a distribution kernel without installing it, and prints the folder that holds
# vmlinuz, modules/ and modules/order (the order in which to load them).
#
# The folder is named for the package and its version, and made once: about 20 MB are kept of the
# 100 MB that are downloaded.
#
# usage: fetch.sh CACHE_FOLDER
set -euo pipefail

# In the order of preference. Debian 12's default kernel (6.1) is the fallback, Ubuntu's the last.
packages=${SEXTANT_KERNEL_PACKAGE:-linux-image-6.12-amd64 linux-image-amd64 linux-image-generic}

# What the guest loads, dependencies aside. crc32_generic is a run-time need of rdma_rxe that
# modules.dep does not know and newer kernels no longer have; so it may be missing.
wanted="virtio_pci 9pnet_virtio 9p overlay veth ib_uverbs rdma_ucm rdma_rxe"
wanted_if_there="crc32_generic"

die()
{
	echo "fetch.sh: $*" >&2
	exit 1
}

need()
{
	command -v "$1" >/dev/null || die "$1 is missing: install $2"
}

# depends PACKAGE: the kernel packages that it depends on, one a line.
depends()
{
	apt-cache depends "$1" 2>/dev/null |
		sed -nE 's/^ *Depends: (linux-(image|binary|modules|modules-extra)-[0-9][^ ]*)$/\1/p'
}

# parts META: the packages that hold the image and the modules, one a line.
parts()
{
	local first second

	first=$(depends "$1")
	for second in $first; do
		echo "$second"
		depends "$second"
	done | sort -u
}

# choose: sets meta and version to the first package that apt knows.
choose()
{
	local p

	for p in $packages; do
		version=$(apt-cache policy "$p" 2>/dev/null | sed -n 's/^ *Candidate: //p')
		if [ -n "$version" ] && [ "$version" != "(none)" ]; then
			meta=$p
			return 0
		fi
	done
	return 1
}

# unpack_module FILE FOLDER: copies a module, uncompressed.
unpack_module()
{
	local name

	name=$(basename "$1")
	case $name in
	*.ko.xz) xz -dc "$1" >"$2/${name%.xz}" ;;
	*.ko.zst) zstd -qdc "$1" >"$2/${name%.zst}" ;;
	*.ko.gz) gzip -dc "$1" >"$2/${name%.gz}" ;;
	*) cp "$1" "$2/$name" ;;
	esac
}

# module_files ROOT VERSION NAME: its file and the files it depends on, in loading order.
module_files()
{
	modprobe -d "$1" -S "$2" --show-depends "$3" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
}

# pack_modules ROOT VERSION FOLDER: copies the wanted modules and writes their order.
pack_modules()
{
	local m file

	mkdir "$3"
	for m in $wanted_if_there $wanted; do
		if ! modprobe -d "$1" -S "$2" --show-depends "$m" >/dev/null 2>&1; then
			case " $wanted_if_there " in
			*" $m "*) continue ;;
			esac
			die "kernel $2 has no module $m (cloud kernels do not); set" \
				"SEXTANT_KERNEL_PACKAGE to a kernel package that has it"
		fi
		module_files "$1" "$2" "$m"
	done | awk '!seen[$0]++' >"$3/files"
	while read -r file; do
		unpack_module "$file" "$3"
		basename "$file" | sed -E 's/\.(xz|zst|gz)$//' >>"$3/order"
	done <"$3/files"
	rm "$3/files"
}

# unpack FOLDER PACKAGE...: downloads the packages and unpacks them into FOLDER/root.
unpack()
{
	local work=$1 deb

	shift
	echo "fetching $*" >&2
	(cd "$work" && apt-get download "$@" >log 2>&1) ||
		die "apt-get download failed (no network, or old package lists: run apt-get update):" \
			"$(tail -n 5 "$work/log")"
	for deb in "$work"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$work/root"
	done
	[ -e "$work/root/lib" ] || ln -s usr/lib "$work/root/lib"
}

# fetch FOLDER: leaves what the guest needs of the chosen kernel in FOLDER.
fetch()
{
	local work=$1/work root=$1/work/root version image
	local -a list

	mkdir -p "$root"
	mapfile -t list < <(parts "$meta")
	[ ${#list[@]} -gt 0 ] || die "apt knows no kernel image behind $meta: run apt-get update"
	unpack "$work" "${list[@]}"
	version=$(find "$root"/lib/modules/ -mindepth 2 -maxdepth 2 -name kernel |
		sed -n '1s,.*/\([^/]*\)/kernel$,\1,p')
	image=$(find "$root" -name "vmlinuz*" -type f | head -n 1)
	[ -n "$version" ] || die "no modules in ${list[*]}"
	[ -n "$image" ] || die "no kernel image in ${list[*]}"
	depmod -b "$root" "$version"
	cp "$image" "$1/vmlinuz"
	pack_modules "$root" "$version" "$1/modules"
	rm -rf "$work"
}

# newest_kept: the folder fetched last, if there is one.
newest_kept()
{
	find "$cache" -path "*/modules/order" -printf '%T@ %h\n' 2>/dev/null |
		sort -n | sed -n '$s,^[^ ]* \(.*\)/modules$,\1,p'
}

cache=${1:?usage: fetch.sh CACHE_FOLDER}
[ "$(uname -m)" = x86_64 ] || die "the kernel tier runs on x86_64 only, this is $(uname -m)"

if ! choose; then
	kept=$(newest_kept) || true
	[ -n "$kept" ] || die "apt knows none of: $packages. Run apt-get update (as root)"
	echo "apt knows none of: $packages; continuing with $kept" >&2
	echo "$kept"
	exit 0
fi

kept=$cache/${meta}_${version//[^A-Za-z0-9.+~-]/_}
if [ ! -e "$kept/modules/order" ]; then
	need apt-get apt
	need dpkg-deb dpkg
	need depmod kmod
	need xz xz-utils
	mkdir -p "$cache"
	fresh=$(mktemp -d "$cache/.fetch.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	fetch "$fresh"
	chmod 755 "$fresh"
	# Another run may have been faster; its folder holds the same.
	mv -T "$fresh" "$kept" 2>/dev/null || [ -e "$kept/modules/order" ]
fi
echo "$kept"
