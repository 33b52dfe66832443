#!/usr/bin/env bash
# Installs the missing tools that building, running, testing or linting this project needs, and leaves the others alone.
#
# usage: scripts/install-tools.sh GROUP...
#
#   build    a C compiler, OpenSSL's headers, and Rust: all that `cargo build` needs
#   systems  the systems under test: HAProxy, nginx, Caddy, QEMU, ISA-L, nft, Open vSwitch, and libcrypto_mb where the CPU can run it; a
#            variant that needs a missing one is skipped
#   tests    the tools that tests and benchmarks drive and compare with: ab, wrk, h2load, nghttpd, openssl, curl, python3, ip, ssh,
#            nsenter, losetup, zstd, lz4, gzip, igzip, libdeflate-gzip, qperf, sockperf, iperf3, qemu-io, qemu-nbd, nbdcopy, nbdinfo,
#            nbdkit, fio, qemu-storage-daemon, mkfs.ext4 and Postgres
#   nextest  cargo-nextest, which runs the tests
#   lab      what the tests of the laboratory need: sshd; chromium with its driver, and axe-core from npm's registry into
#            ~/.cache/plumb-tests; nginx, HAProxy and curl of Debian 13 in /opt/plumb-tests; the test cluster (scripts/cluster.sh),
#            whose Kubernetes is built from Go's module proxy into ~/.cache/plumb-cluster, with a Go that is fetched there where the
#            machine's is too old; csi-sanity and csi-provisioner
#   lint     git, rustfmt, clippy, cargo-deny, and mdbook, which builds docs/
#
# apt installs Debian packages, as root or through sudo. When a tool of a group stays missing, the script exits with 1 and says
# what to install by hand.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# The oldest Rust that the workspace supports, and the versions that `deny.toml`, `docs/book.toml` and
# `.config/nextest.toml` were tested with.
RUST_MIN=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
CARGO_DENY=0.20.2
MDBOOK=0.5.4
NEXTEST=0.9.151
# The version of csi-sanity that the CSI driver passes, and that of csi-provisioner in deploy/csi.
CSI_SANITY=v5.6.0
CSI_PROVISIONER=v6.4.0
# The accessibility checker for the pages; it is not a part of the program.
AXE_CORE=4.11.0
AXE_FILE=$HOME/.cache/plumb-tests/node_modules/axe-core/axe.min.js
# Programs that speak HTTP/3, beside this machine's. Systems under test run as another user, to whom a home may be closed.
DEBIAN13=/opt/plumb-tests/debian13
POLICY=/usr/sbin/policy-rc.d

say() { printf 'install-tools: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        # Without a terminal nobody can type a password.
        if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
    else
        return 1
    fi
}

# libcrypto_mb needs these instructions.
cpu_has_ifma() { grep -qw avx512ifma /proc/cpuinfo 2>/dev/null; }

# Debian's package with QEMU for this machine's own architecture.
qemu_package() {
    case $(uname -m) in
        x86_64) echo qemu-system-x86 ;;
        aarch64) echo qemu-system-arm ;;
        *) echo qemu-system-misc ;;
    esac
}

# Debian keeps the server's programs out of PATH.
has_postgres() { have postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }

# Whether the loader finds a shared library of this name.
has_library() { ldconfig -p | grep -qw "$1"; }

missing=()

# want PACKAGE PROBE...: notes the Debian package when the probe fails.
want() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

note_missing() {
    case $1 in
        build)
            want build-essential have c++
            want pkg-config have pkg-config
            want libssl-dev pkg-config --exists openssl
            want ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
            if ! rust_is_new_enough && ! have rustup; then want curl have curl; fi
            ;;
        systems)
            want haproxy have haproxy
            want nginx have nginx
            # The third ingress that speaks h2: unlike the other two it is written in Go, with its own HTTP and TLS.
            want caddy have caddy
            want libisal2 has_library libisal.so.2
            want nftables have nft
            want openvswitch-switch have ovs-vswitchd
            want "$(qemu_package)" have "qemu-system-$(uname -m)"
            ! cpu_has_ifma || want python3-pip python3 -m pip --version
            ;;
        tests)
            want apache2-utils have ab
            want wrk have wrk
            want nghttp2-client have h2load
            want nghttp2-server have nghttpd
            want openssl have openssl
            want curl have curl
            want python3 have python3
            want iproute2 have ip
            want openssh-client have ssh
            want util-linux have nsenter
            want fio have fio
            want qperf have qperf
            want sockperf have sockperf
            want iperf3 have iperf3
            want nbdkit have nbdkit
            want qemu-utils have qemu-nbd
            want libnbd-bin have nbdcopy
            want qemu-system-common have qemu-storage-daemon
            want e2fsprogs have mkfs.ext4
            want postgresql has_postgres
            want mount have losetup
            want zstd have zstd
            want lz4 have lz4
            want gzip have gzip
            want isal have igzip
            want libdeflate-tools have libdeflate-gzip
            ;;
        nextest) ;;
        lab)
            want openssh-server have sshd
            want chromium have chromium
            want chromium-driver have chromedriver
            [ -e "$AXE_FILE" ] || want npm have npm
            want curl have curl
            want python3 have python3
            want openssl have openssl
            want iproute2 have ip
            want util-linux have nsenter
            want nftables have nft
            want libseccomp2 has_library libseccomp.so.2
            want mmdebstrap have mmdebstrap
            ;;
        lint) want git have git ;;
        *) fail "there is no group \`$1\`; the groups are build, systems, tests, nextest, lab and lint" ;;
    esac
}

# Debian starts a service as soon as its package is installed. Experiments start HAProxy, nginx, Caddy and Open
# vSwitch themselves, on free ports. As services they would take port 80 and use CPU beside a measurement.
# Tests start sshd themselves, and a service would open the machine to the network. No service therefore
# starts while this script installs packages, and none of the new ones starts at boot. A policy of the
# administrator stays.
forbid_service_starts() {
    [ ! -e "$POLICY" ] || return 0
    printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin "$POLICY"
    trap allow_service_starts EXIT
}

allow_service_starts() {
    [ -n "$(trap -p EXIT)" ] || return 0
    trap - EXIT
    as_root rm -f "$POLICY"
}

disable_new_services() {
    have systemctl || return 0
    local package service now=()
    [ ! -d /run/systemd/system ] || now=(--now)
    for package in haproxy nginx caddy nftables openvswitch-switch openssh-server postgresql; do
        service=${package/openssh-server/ssh}
        case " ${missing[*]} " in
            *" $package "*) as_root systemctl disable ${now[@]+"${now[@]}"} "$service" >/dev/null 2>&1 || true ;;
        esac
    done
}

install_packages() {
    [ ${#missing[@]} -gt 0 ] || return 0
    local by_hand="install by hand: ${missing[*]} (these are Debian's names)"
    have apt-get || fail "there is no apt-get here; $by_hand"
    as_root true || fail "this needs root or sudo; $by_hand"
    say "installing ${missing[*]}"
    forbid_service_starts
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
    # An unreachable source does not stop the installation: the packages may come from the others.
    as_root "${apt[@]}" update >&2 || say "apt-get update failed, trying with the lists that there are"
    as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 || fail "apt-get failed; $by_hand"
    allow_service_starts
    disable_new_services
}

rust_is_new_enough() {
    local version
    version=$(cargo --version 2>/dev/null | awk '{ print $2 }') || return 1
    [ -n "$version" ] && printf '%s\n' "$RUST_MIN" "$version" | sort -V -C
}

install_rust() {
    ! rust_is_new_enough || return 0
    local by_hand="install Rust $RUST_MIN or newer by hand (https://rustup.rs) and try again"
    say "there is no Rust $RUST_MIN or newer here, installing it with rustup"
    if have rustup; then
        rustup toolchain install stable --profile minimal --component rustfmt --component clippy >&2 ||
            fail "rustup could not install the stable toolchain; $by_hand"
        # The override is for this checkout only: the user's default stays.
        rust_is_new_enough || rustup override set stable >&2
    else
        local script
        script=$(mktemp)
        curl --proto '=https' --tlsv1.2 --silent --show-error --fail --retry 3 https://sh.rustup.rs -o "$script" ||
            fail "https://sh.rustup.rs does not answer; $by_hand"
        # The script leaves the shell's start-up files alone: the Makefile finds ~/.cargo/bin without them.
        sh "$script" -y --no-modify-path --profile minimal --component rustfmt --component clippy >&2 ||
            fail "rustup's installer failed; $by_hand"
        rm -f "$script"
    fi
    hash -r
    rust_is_new_enough || fail "\`cargo\` is still $(cargo --version 2>&1); $by_hand"
}

install_lint() {
    if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
        rustup component add rustfmt clippy >&2 || fail "rustfmt and clippy are missing; install both by hand"
    fi
    cargo deny --version >/dev/null 2>&1 || build_tool cargo-deny "$CARGO_DENY"
    # Leaves out its web server, which is most of the code to compile.
    mdbook --version >/dev/null 2>&1 || build_tool mdbook "$MDBOOK" --no-default-features --features search
}

# Leaves out the part that updates the program itself.
install_nextest() {
    cargo nextest --version >/dev/null 2>&1 || build_tool cargo-nextest "$NEXTEST" --no-default-features --features default-no-update
}

# Builds csi-sanity, the conformance test of CSI drivers, and csi-provisioner, which asks a driver for the volumes of
# claims. Debian has packages of neither. They are installed beside cargo's programs, where the tests look for
# them. Without Go, their tests are skipped.
install_csi_tools() {
    install_go_tool csi-sanity github.com/kubernetes-csi/csi-test/v5 "$CSI_SANITY"
    install_go_tool csi-provisioner github.com/kubernetes-csi/external-provisioner/v6 "$CSI_PROVISIONER"
}

# install_go_tool NAME MODULE VERSION: builds MODULE/cmd/NAME in the module's own directory, because `go install`
# refuses a module with `replace` lines.
install_go_tool() {
    local name=$1 module=$2 version=$3 go directory bin=${CARGO_HOME:-$HOME/.cargo}/bin
    ! have "$name" || return 0
    for go in go /usr/local/go/bin/go "$HOME"/.cache/plumb-cluster/go-*/bin/go; do
        have "$go" || continue
        say "building $name $version"
        directory=$("$go" mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') || continue
        [ -d "$directory" ] && (cd "$directory" && CGO_ENABLED=0 GOFLAGS=-mod=readonly "$go" build -ldflags "-s -w" -o "$bin/" "./cmd/$name") >&2 &&
            return 0
    done
    say "$name could not be built; it needs Go 1.26 or newer (https://go.dev/dl)"
}

install_axe_core() {
    [ ! -e "$AXE_FILE" ] || return 0
    say "fetching axe-core $AXE_CORE"
    npm install --no-audit --no-fund --ignore-scripts --prefix "$HOME/.cache/plumb-tests" "axe-core@$AXE_CORE" >&2 ||
        fail "npm could not fetch axe-core; \`npm install --prefix ~/.cache/plumb-tests axe-core\` by hand shows why"
}

install_debian13() {
    [ ! -e "$DEBIAN13/bin" ] || return 0
    local program loader
    say "fetching nginx, HAProxy and curl of Debian 13"
    as_root rm -rf "$DEBIAN13"
    as_root mkdir -p "$DEBIAN13"/new &&
        as_root mmdebstrap --quiet --variant=extract --include=base-files,nginx,haproxy,curl trixie "$DEBIAN13/root" >&2 ||
        { say "Debian 13 could not be fetched; tests that need its programs will be skipped"; return 0; }
    loader=$(echo "$DEBIAN13"/root/usr/lib*/ld-linux-*)
    for program in sbin/nginx sbin/haproxy bin/curl; do
        printf '#!/bin/sh\nexec %s --library-path %s --argv0 %s %s "$@"\n' "$loader" "$(echo "$DEBIAN13"/root/usr/lib/*-linux-gnu)" \
            "${program#*/}" "$DEBIAN13/root/usr/$program" | as_root install -m 755 /dev/stdin "$DEBIAN13/new/${program#*/}"
    done
    as_root mv "$DEBIAN13/new" "$DEBIAN13/bin"
}

# build_tool NAME VERSION OPTION...: builds a program from the Rust registry. Such a program runs for a second and compiles for
# minutes, so it is compiled without optimisation: under a minute on 2 cores.
build_tool() {
    local name=$1 version=$2
    shift 2
    say "building $name $version"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_PANIC=abort \
        cargo install --quiet --locked "$name" --version "$version" "$@" >&2 ||
        fail "$name could not be built; \`cargo install --locked $name\` by hand shows why"
}

main() {
    [ $# -gt 0 ] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; }
    local group
    for group in "$@"; do note_missing "$group"; done
    install_packages
    for group in "$@"; do
        case $group in
            build) install_rust ;;
            systems) ! cpu_has_ifma || scripts/install-crypto-mb.sh ;;
            nextest) install_nextest ;;
            lint) install_lint ;;
            lab)
                scripts/cluster.sh build
                install_axe_core
                install_debian13
                # After the cluster, which may bring the Go that these need.
                install_csi_tools
                ;;
        esac
    done
}

main "$@"
