#!/usr/bin/env bash
# Runs the built-in experiment `haproxy-qat` in a separate Debian 13, which has Intel's qatengine as a package.
#
# usage: scripts/try-debian13.sh [DIRECTORY] [-- ARGUMENTS OF plumb run…]
#
# On a machine without a QAT device, and with a CPU that is not Intel's, the engine loads, says that it is available, and
# does nothing. Both variants with it then end void, with the reason. The exit code is that of `plumb run`, here 4.
#
# PLUMB in the environment names a program that is already built, for a C library that is not newer than Debian 13's.
#
# debootstrap makes DIRECTORY (target/debian13 by default) the first time, and later runs use it again. This needs root, some
# 700 MB, and Debian's archive. CI does not run it: the tests have their own engine, which does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'try-debian13: %s\n' "$*" >&2; }
fail() { say "$*"; exit 5; }

root=target/debian13
if [ $# -gt 0 ] && [ "$1" != -- ]; then root=$1; shift; fi
if [ "${1:-}" = -- ]; then shift; fi
[ "$(id -u)" -eq 0 ] || fail "this needs root, for debootstrap and chroot"

plumb=${PLUMB:-}
if [ -z "$plumb" ]; then
    # The program is linked with this machine's C library, so it also runs on a newer Debian.
    cargo build --release --package plumb-cli >&2
    plumb="${CARGO_TARGET_DIR:-target}/release/plumb"
fi

if [ ! -e "$root/.complete" ]; then
    command -v debootstrap >/dev/null || fail "debootstrap is missing; on Debian: apt-get install debootstrap"
    say "making a Debian 13 in $root"
    mkdir -p "$root"
    debootstrap --variant=minbase --include=ca-certificates trixie "$root" >&2
    # Installing a package must not start its service.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # debootstrap leaves this file out, and it holds `localhost`.
    printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
    DEBIAN_FRONTEND=noninteractive chroot "$root" \
        apt-get install -q -y --no-install-recommends haproxy openssl qatengine libcrypto-mb11 >&2
    touch "$root/.complete"
fi

# Runs in a private mount namespace, so that nothing stays mounted however the run ends.
install -m 755 "$plumb" "$root/usr/local/bin/plumb"
exec unshare --mount --propagation private bash -c '
    root=$1
    shift
    for directory in proc sys dev; do mount --rbind "/$directory" "$root/$directory"; done
    exec chroot "$root" /bin/sh -c "cd /root && exec plumb run haproxy-qat \"\$@\"" sh "$@"
' bash "$root" "${@---quick}"
