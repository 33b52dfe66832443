#!/usr/bin/env bash
# Builds a container image from Debian's packages, without a container engine: plumb and the programs that experiments drive.
#
# usage: scripts/image.sh [--name NAME:TAG] [--plumb FILE | --without-plumb] [OUT.tar]
#
#   --name NAME:TAG   the image's name; plumb:VERSION if absent
#   --plumb FILE      the program; target/release/plumb if absent
#   --without-plumb   leave it out: plumb copies itself into pods whose image lacks its build
#   OUT.tar           an OCI archive for `ctr images import`, `podman load`, `docker load`, `skopeo copy oci-archive:…`;
#                     target/image/plumb.tar if absent
#
# The image runs as any user, by default as 65532, and needs no capability, but for experiments that do. The same packages, program and
# commit give the same image. The last lines are its digest, its size, and its packages with their versions, which OUT.packages also has.
# This needs `mmdebstrap` of Debian, and root or user namespaces.
# shellcheck disable=SC2016 # Hooks expand when they run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGES=(
    apache2-utils ca-certificates fio haproxy iperf3 iproute2 libisal2 libssl3 nftables nghttp2-client nginx-light openssl qperf
    sockperf wrk
)

fail() { printf 'image: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^# shellcheck/{/^# shell/d;/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
name=plumb:$version plumb=target/release/plumb out=target/image/plumb.tar
while [ $# -gt 0 ]; do
    case $1 in
        --name) [[ ${2:-} == *:* ]] || usage; name=$2; shift 2 ;;
        --plumb) plumb=${2:-}; shift 2 || usage ;;
        --without-plumb) plumb=; shift ;;
        -*) usage ;;
        *) out=$1; shift; [ $# -eq 0 ] || usage ;;
    esac
done
export PATH=$PATH:/usr/sbin:/sbin
command -v mmdebstrap >/dev/null || fail "there is no mmdebstrap: apt-get install mmdebstrap"
[ -z "$plumb" ] || [ -x "$plumb" ] || fail "there is no $plumb: build it with \`cargo build --release -p plumb-cli\`, or name another"

# The program needs the C library of the system that built it, or a newer one.
# shellcheck disable=SC1091
suite=$(. /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}" || true)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
mkdir -p "$(dirname "$out")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
hooks=(--customize-hook='chroot "$1" dpkg-query -W >"'"$work"'/packages"')
# What differs from one installation to the next, or is of no use without a person.
hooks+=(--customize-hook='rm -rf "$1"/var/cache/* "$1"/var/log/* "$1"/var/lib/apt/lists/* "$1"/etc/machine-id')
if [ -n "$plumb" ]; then
    hooks+=(--customize-hook="install -m 755 '$(realpath "$plumb")' \"\$1\"/usr/local/bin/plumb")
fi
# Its mounts end with it, also when it is killed. Without root it has user namespaces of its own.
alone=()
[ "$(id -u)" -ne 0 ] || alone=(unshare --mount --propagation private)
TMPDIR=$work "${alone[@]}" mmdebstrap --quiet --variant=essential --include="$(IFS=,; echo "${PACKAGES[*]}")" \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    "${hooks[@]}" "${suite:-bookworm}" "$work/root.tar" >&2
digest=$(python3 scripts/cluster/oci.py "$name" "$work/image.tar" "$work/root.tar")
mv "$work/image.tar" "$out"
mv "$work/packages" "$out.packages"
printf '%s %s\n%s, %d MB\n' "$name" "$digest" "$out" "$(($(stat -c %s "$out") / 1000000))"
cat "$out.packages"
