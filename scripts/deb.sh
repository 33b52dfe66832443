#!/usr/bin/env bash
# Builds a Debian package with plumb, its manual pages and its shell completions.
#
# usage: scripts/deb.sh [--plumb FILE] [OUT.deb]
#
#   --plumb FILE   the program; target/release/plumb if absent. Line tables for debuggers are left out, most of its size
#   OUT.deb        target/deb/plumb_VERSION_ARCHITECTURE.deb if absent
#
# The package depends on the libraries that the program is linked with. The same program and commit give the same package. The last lines
# are its digest, its size and what it depends on. An image for the same build: scripts/image.sh --plumb /usr/bin/plumb.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
umask 022

fail() { printf 'deb: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

plumb=target/release/plumb out=
while [ $# -gt 0 ]; do
    case $1 in
        --plumb) plumb=${2:-}; shift 2 || usage ;;
        -*) usage ;;
        *) out=$1; shift; [ $# -eq 0 ] || usage ;;
    esac
done
for tool in dpkg-deb dpkg-shlibdeps strip; do
    command -v "$tool" >/dev/null || fail "there is no $tool: apt-get install dpkg-dev binutils"
done
[ -x "$plumb" ] || fail "there is no $plumb: build it with \`cargo build --release -p plumb-cli\`, or name another"

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
architecture=$(dpkg --print-architecture)
[ -n "$out" ] || out=target/deb/plumb_${version}_$architecture.deb
# dpkg-deb writes no time later than this.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$(dirname "$out")" "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/doc/plumb"

put_program() {
    strip --strip-debug --remove-section=.comment -o "$root/usr/bin/plumb" "$plumb"
    chmod 755 "$root/usr/bin/plumb"
    "$root/usr/bin/plumb" version >/dev/null || fail "$plumb does not run"
}

put_texts() {
    local shell
    "$root/usr/bin/plumb" man "$root/usr/share/man/man1"
    gzip -9n "$root"/usr/share/man/man1/*.1
    for shell in bash:bash-completion/completions/plumb zsh:zsh/vendor-completions/_plumb fish:fish/vendor_completions.d/plumb.fish; do
        mkdir -p "$root/usr/share/$(dirname "${shell#*:}")"
        "$root/usr/bin/plumb" completions "${shell%%:*}" >"$root/usr/share/${shell#*:}"
    done
    gzip -9nc CHANGELOG.md >"$root/usr/share/doc/plumb/changelog.gz"
    copyright >"$root/usr/share/doc/plumb/copyright"
}

# https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
copyright() {
    cat <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Plumbline
Comment: The program contains these libraries from the Rust registry, each under its own licence:
$(libraries)

Files: *
Copyright: The Plumbline maintainers
License: Apache-2.0
 On Debian systems the text of this licence is in /usr/share/common-licenses/Apache-2.0.
TEXT
}

# Prints a line for each linked library: name, version, licence.
libraries() {
    cargo tree --locked --package plumb-cli --edges normal --prefix none --format ' {p}: {l}' | grep -v '^ plumb-' |
        sed 's/ (proc-macro)//; s/ (\*)$//' | LC_ALL=C sort -u
}

depends() {
    mkdir -p "$work/debian"
    printf 'Source: plumb\n\nPackage: plumb\nArchitecture: any\n' >"$work/debian/control"
    (cd "$work" && dpkg-shlibdeps -O -e "$root/usr/bin/plumb" 2>"$work/log") | sed -n 's/^shlibs:Depends=//p'
}

put_control() {
    local libraries size
    libraries=$(depends)
    [ -n "$libraries" ] || fail "dpkg-shlibdeps found no package of the program's libraries: $(tail -1 "$work/log")"
    # In KiB, summed over the files, so that it does not depend on this file system.
    size=$(find "$root/usr" -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
    cat >"$root/DEBIAN/control" <<CONTROL
Package: plumb
Version: $version
Architecture: $architecture
Maintainer: The Plumbline maintainers <maintainers@plumbline.dev>
Installed-Size: $size
Depends: $libraries
Recommends: ca-certificates, iproute2, nftables
Suggests: apache2-utils, caddy, fio, haproxy, iperf3, libisal2, nghttp2-client, nginx, openssh-client, openvswitch-switch, qemu-system, qperf, sockperf, wrk
Section: utils
Priority: optional
Description: proves what one change does to an infrastructure data path
 Plumbline builds a system with and without a change, drives both with its own
 load in random order, block by block, and gives a verdict on each claim about
 them, with evidence that the change was in effect.
CONTROL
    (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
}

put_program
put_texts
put_control
dpkg-deb --root-owner-group --uniform-compression -Zxz --build "$root" "$work/plumb.deb" >/dev/null
mv "$work/plumb.deb" "$out"
printf '%s sha256:%s, %d KB\nDepends: %s\n' "$out" "$(sha256sum "$out" | cut -d' ' -f1)" "$(($(stat -c %s "$out") / 1000))" \
    "$(dpkg-deb --field "$out" Depends)"
