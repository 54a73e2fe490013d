#!/usr/bin/env bash
# Installs a build into an empty tree and uses it from there, with the build folder out of sight.
#
# usage: check.sh BUILD VERSION
set -euo pipefail

build=${1:?usage: check.sh BUILD VERSION}
version=${2:?usage: check.sh BUILD VERSION}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

fail()
{
	echo "install: $*" >&2
	find "$tree" -type f -o -type l >&2
	exit 1
}

# is WANTED GOT WHAT
is()
{
	[ "$1" = "$2" ] || fail "$3: wanted '$1', got '$2'"
}

cmake --install "$build" --prefix "$tree" >/dev/null
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$tree" -name sextant.pc)")
is "$version" "$(pkg-config --modversion sextant)" "version in sextant.pc"
lib=$(realpath "$(pkg-config --variable=plugindir sextant)")
is "$tree/lib" "${lib%/*-linux-gnu}" "plugindir in sextant.pc"
soft=$(realpath -m "$(pkg-config --variable=softdir sextant)")

is "sextant $version" "$("$tree/bin/sextant" --version)" "version of the command"
for file in "$lib/libnccl-net-sextant.so" "$soft/libibverbs.so.1" \
	"$lib/libsextant-soft-preload.so" "$lib/libsextant-telemetry.so.1" "$tree/share/doc/sextant/LICENSE"; do
	[ -e "$file" ] || fail "$file is not installed"
done
if readelf -d "$tree/bin/sextant" "$lib/libnccl-net-sextant.so" "$soft/libibverbs.so.1" |
	grep -E 'R(UN)?PATH'; then
	fail "a run path points out of the installed tree"
fi

# Two hosts with two devices each are built in.
devices=$(cd / && "$tree/bin/sextant" soft run -- ibv_devinfo -l)
grep -q '2 HCAs found' <<<"$devices" || fail "soft run from the installed tree says: $devices"

# A tool of somebody else builds against the reader library, with nothing of ours but its headers.
cat >"$tree/tool.c" <<'END'
#include <telemetry/reader.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct sxt_tele_file *files = NULL;
	size_t cnt = 0;

	if (argc != 2 || sxt_tele_list(argv[1], &files, &cnt) != 0)
		return 1;
	printf("%zu segments\n", cnt);
	free(files);
	return 0;
}
END
read -ra flags <<<"$(pkg-config --cflags --libs sextant-telemetry)"
(cd "$tree" && cc -std=c11 -Wall -Werror tool.c -o tool "${flags[@]}") || fail "a tool does not build"
is "0 segments" "$(LD_LIBRARY_PATH=$lib "$tree/tool" "$tree")" "a tool of the reader library"
