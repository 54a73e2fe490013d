#!/usr/bin/env bash
# From a fresh Debian 12 (or Ubuntu 24.04) to an all-reduce over RDMA verbs: installs what is
# missing, builds, and runs 4 processes on 2 hosts of the software HCA through the plugin, with
# every byte checked. Needs no RDMA hardware, no kernel module and no GPU.
set -euo pipefail

cd "$(dirname "$0")/.."

packages=(build-essential cmake ninja-build pkg-config libibverbs-dev libjansson-dev
	libarchive-dev libmicrohttpd-dev libncurses-dev libgsl-dev)
missing=()
for package in "${packages[@]}"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
		missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
	as_root=()
	[ "$(id -u)" -eq 0 ] || as_root=(sudo)
	echo "== install ${missing[*]}"
	"${as_root[@]}" apt-get update -qq
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends "${missing[@]}"
fi

echo "== build"
cmake --preset release -DSEXTANT_WERROR=OFF -DBUILD_TESTING=OFF -B build/quickstart >/dev/null
cmake --build build/quickstart --parallel "$(nproc)"

echo "== all-reduce, 4 processes on 2 hosts"
sextant=build/quickstart/cli/sextant
"$sextant" soft run -- "$sextant" bench --ranks 4 --hosts 2 --pattern all_reduce \
	-b 8 -e 16M -f 4 -c 1
