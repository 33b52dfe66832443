# shellcheck shell=bash
# The parts of the test cluster, and how to build them into the cache. `cluster.sh` reads this file. Each part
# is built under another name and renamed once it is complete, so that an interrupted build is never used.

CACHE=${PLUMB_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plumb-cluster}
PARTS=$HERE/cluster
# Kubernetes, etcd and CoreDNS, in the versions of go.mod.
PROGRAM=$CACHE/kubernetes-$(cat "$PARTS"/{go.mod,go.sum,main.go} | sha256sum | cut -c1-12)
# Debian's container runtime, unpacked but not installed, so that no service starts.
# shellcheck disable=SC1091
RUNTIME=$CACHE/runtime-$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")
# A directory with the test image, which also serves as the pods' sandbox image.
IMAGES=$CACHE/images-$(cat "$HERE/image.sh" "$PARTS/oci.py" | sha256sum | cut -c1-12)
TEST_IMAGE=plumb.test/plumb:1

# The oldest Go that go.mod allows, and one that is known to build it.
GO_MIN=$(sed -n 's/^go //p' "$PARTS/go.mod")
GO_OWN=1.26.8
declare -A GO_SHA256=(
    [amd64]=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7
    [arm64]=02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99
)
# How many days a part of an older version stays, as another checkout may use it.
KEEP_DAYS=30

is_built() { [ -x "$PROGRAM" ] && [ -d "$RUNTIME" ] && [ -d "$IMAGES" ]; }

build() {
    mkdir -p "$CACHE"
    exec 8>"$CACHE/lock"
    flock --nonblock 8 || { say "waiting for another build"; flock 8; }
    rm -rf "$CACHE"/*.new
    [ -d "$RUNTIME" ] || unpack_runtime
    [ -d "$IMAGES" ] || build_image
    [ -x "$PROGRAM" ] || build_program
    touch "$PROGRAM" "$RUNTIME" "$IMAGES"
    find "$CACHE" -mindepth 1 -maxdepth 1 ! -name lock -mtime "+$KEEP_DAYS" -exec rm -rf {} +
    exec 8>&-
}

unpack_runtime() {
    local work package packages=(containerd runc containernetworking-plugins)
    say "getting ${packages[*]}"
    work=$(mktemp -d)
    (
        cd "$work" || exit
        download() { apt-get -q -o APT::Sandbox::User=root download "${packages[@]}"; }
        # A fresh machine has no package lists.
        download || { apt-get -q update && download; }
    ) >"$CACHE/runtime.log" 2>&1 || fail "Debian's packages of ${packages[*]} could not be downloaded; $CACHE/runtime.log says more"
    for package in "$work"/*.deb; do dpkg -x "$package" "$RUNTIME.new"; done
    rm -rf "$work" "$CACHE/runtime.log"
    "$RUNTIME.new/usr/sbin/runc" --version >/dev/null || fail "runc does not run: apt-get install libseccomp2"
    mv "$RUNTIME.new" "$RUNTIME"
}

build_image() {
    say "building the test image"
    mkdir -p "$IMAGES.new"
    "$HERE/image.sh" --without-plumb --name "$TEST_IMAGE" "$IMAGES.new/plumb.tar" >"$CACHE/image.log" 2>&1 ||
        fail "scripts/image.sh failed; $CACHE/image.log says more"
    rm -f "$CACHE/image.log"
    mv "$IMAGES.new" "$IMAGES"
}

build_program() {
    local go version package=k8s.io/component-base/version
    find_go
    version=$(sed -n 's#^\tk8s.io/kubernetes v##p' "$PARTS/go.mod")
    say "building Kubernetes $version, which takes some minutes"
    (
        cd "$PARTS" || exit
        export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOWORK=off
        "$go" build -trimpath -buildvcs=false -o "$PROGRAM.new" -ldflags "-s -w -X $package.gitVersion=v$version -X $package.gitMajor=1 \
            -X $package.gitMinor=$(cut -d. -f2 <<<"$version") -X $package.gitTreeState=clean \
            -X k8s.io/client-go/pkg/version.gitVersion=v$version" .
    ) >"$CACHE/program.log" 2>&1 || fail "Kubernetes could not be built; $CACHE/program.log says more"
    rm -f "$CACHE/program.log"
    mv "$PROGRAM.new" "$PROGRAM"
}

go_is_new_enough() {
    local version
    version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
    printf '%s\n' "$GO_MIN" "${version#go}" | sort -V -C
}

# Sets `go`: the machine's, or a toolchain from Go's module proxy (https://go.dev/ref/mod#module-proxy) in the cache.
find_go() {
    local own=$CACHE/go-$GO_OWN machine proxy=${GOPROXY:-https://proxy.golang.org}
    for go in go /usr/local/go/bin/go "$own/bin/go"; do
        ! go_is_new_enough "$go" || return 0
    done
    machine=$(uname -m)
    machine=${machine/x86_64/amd64} machine=${machine/aarch64/arm64}
    [ -n "${GO_SHA256[$machine]:-}" ] || fail "there is no Go $GO_MIN or newer here: install it by hand (https://go.dev/dl)"
    say "getting Go $GO_OWN"
    curl --silent --show-error --fail --location --retry 3 -o "$CACHE/go.zip.new" \
        "${proxy%%[,|]*}/golang.org/toolchain/@v/v0.0.1-go$GO_OWN.linux-$machine.zip" || fail "Go's module proxy does not answer"
    sha256sum --check --status <<<"${GO_SHA256[$machine]}  $CACHE/go.zip.new" || fail "Go $GO_OWN for $machine is not what it should be"
    python3 -m zipfile -e "$CACHE/go.zip.new" "$CACHE/go.new"
    # The archive does not record file modes.
    chmod -R +x "$CACHE"/go.new/golang.org/toolchain@*/{bin,pkg/tool}
    mv "$CACHE"/go.new/golang.org/toolchain@* "$own"
    rm -rf "$CACHE"/go{,.zip}.new
    go=$own/bin/go
    go_is_new_enough "$go" || fail "Go $GO_OWN does not run"
}
