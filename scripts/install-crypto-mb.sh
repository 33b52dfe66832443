#!/usr/bin/env bash
# Installs Intel's libcrypto_mb, which does eight RSA or elliptic-curve operations in one pass on CPUs with
# AVX-512 IFMA. The device `multibuffer` needs it. An installation of the same version stays as it is.
#
# usage: scripts/install-crypto-mb.sh [DIRECTORY]
#
# It comes from PyPI as two wheels: ipp-crypto has the library, and intel-cmplr-lib-rt has the libraries of Intel's
# compiler that it needs. The script takes only five libraries out of them and touches no Python environment. With
# PLUMB_CRYPTO_MB=DIRECTORY `plumb` finds it in a directory other than the default.
set -euo pipefail

DIRECTORY=${1:-/usr/local/lib/plumbline/crypto-mb}
# The version that the known-answer tests were run with.
VERSION=2026.2.0
# Each library comes after those that it needs.
LIBRARIES=(libintlc.so.5 libimf.so libsvml.so libirng.so libcrypto_mb.so)

say() { printf 'install-crypto-mb: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

is_complete() {
    local library
    for library in "${LIBRARIES[@]}"; do [ -s "$DIRECTORY/$library" ] || return 1; done
    [ "$(cat "$DIRECTORY/VERSION" 2>/dev/null)" = "$VERSION" ]
}

as_root() {
    if [ "$(id -u)" -eq 0 ] || [ -w "$(existing_parent "$DIRECTORY")" ]; then
        "$@"
    elif have sudo; then
        # Without a terminal nobody can type a password.
        if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
    else
        fail "$DIRECTORY cannot be written; run this as root or name another directory"
    fi
}

existing_parent() {
    local path=$1
    until [ -e "$path" ]; do path=$(dirname "$path"); done
    printf '%s' "$path"
}

# A pip that can download: the user's, or the one inside Python's own ensurepip, which Debian puts into python3-venv.
find_pip() {
    local work=$1
    if have python3 && python3 -m pip --version >/dev/null 2>&1; then
        PIP=(python3 -m pip)
    elif have pip3; then
        PIP=(pip3)
    elif have python3 && python3 -m venv "$work/venv" >/dev/null 2>&1; then
        PIP=("$work/venv/bin/pip")
    else
        fail "there is no pip here; install Debian's package python3-pip (or python3-venv) and try again"
    fi
}

# Python's own zipfile reads a wheel, so the script does not need unzip.
extract() {
    python3 - "$1" "$2" "${LIBRARIES[@]}" <<'PYTHON'
import os, sys, zipfile
wheels, target, names = sys.argv[1], sys.argv[2], set(sys.argv[3:])
for wheel in sorted(os.listdir(wheels)):
    if not wheel.endswith(".whl"):
        continue
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
        for entry in archive.namelist():
            name = os.path.basename(entry)
            if name in names or (name == "LICENSE.txt" and "dist-info" in entry):
                if name == "LICENSE.txt":
                    name = "LICENSE." + wheel.split("-")[0]
                with open(os.path.join(target, name), "wb") as out:
                    out.write(archive.read(entry))
                names.discard(name)
if names:
    sys.exit("the wheels have no " + ", ".join(sorted(names)))
PYTHON
}

main() {
    case $(uname -m) in
        x86_64) ;;
        *) fail "libcrypto_mb is for x86-64 only, and this is $(uname -m)" ;;
    esac
    if is_complete; then
        say "libcrypto_mb $VERSION is in $DIRECTORY already"
        return
    fi
    local work
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    mkdir "$work/wheels" "$work/out"
    find_pip "$work"
    say "downloading libcrypto_mb $VERSION from PyPI"
    "${PIP[@]}" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --dest "$work/wheels" "ipp-crypto==$VERSION" "intel-cmplr-lib-rt==$VERSION" >&2 ||
        fail "pip could not download ipp-crypto and intel-cmplr-lib-rt; try again, or install Debian's libcrypto-mb12"
    extract "$work/wheels" "$work/out" || fail "the wheels are not as expected"
    printf '%s\n' "$VERSION" >"$work/out/VERSION"
    as_root install -d -m 755 "$DIRECTORY"
    # VERSION comes last, so that an interrupted installation does not count as complete.
    as_root install -m 644 "$work"/out/lib* "$work"/out/LICENSE.* "$DIRECTORY"
    as_root install -m 644 "$work/out/VERSION" "$DIRECTORY"
    say "installed libcrypto_mb $VERSION in $DIRECTORY"
    grep -qw avx512ifma /proc/cpuinfo || say "this CPU has no AVX-512 IFMA: \`multibuffer\` will be skipped here"
}

main "$@"
