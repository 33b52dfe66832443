#!/usr/bin/env bash
# A Kubernetes cluster for tests: two nodes, each in namespaces of this machine, and a control plane beside them.
#
# usage: scripts/cluster.sh build                        gets what is missing into the cache: Kubernetes from Go's module proxy (5
#                                                        minutes on 2 cores), a container runtime and the test image from Debian
#        scripts/cluster.sh ready                        says by its exit code whether the cache has all of it
#        scripts/cluster.sh up DIRECTORY                 makes the cluster, which stays until `down`; DIRECTORY/kubeconfig reaches it
#        scripts/cluster.sh hold DIRECTORY               makes it, says `up`, and removes it when its input ends
#        scripts/cluster.sh down DIRECTORY               ends all that runs in it, and removes it
#        scripts/cluster.sh status DIRECTORY             says which of its parts run
#        scripts/cluster.sh kubectl DIRECTORY WORD…      kubectl's command line, as the administrator
#        scripts/cluster.sh load DIRECTORY IMAGE.tar     gives an image to both nodes
#        scripts/cluster.sh kill DIRECTORY node1|kubelet1|…    ends a node with all in it, or its kubelet alone
#        scripts/cluster.sh start DIRECTORY node1|kubelet1|…   starts it again
#
# The cache is $PLUMB_CLUSTER_CACHE, or ~/.cache/plumb-cluster. A machine has one cluster at a time, as its addresses and ports are
# always the same: 10.88.0.0/24 for nodes, 10.244.0.0/16 for pods, 10.96.0.0/16 for Services, port 6443 for the API server. Nodes get
# images from the cache alone (`plumb.test/plumb:1` has the programs that experiments drive) and from `load`, never from a network.
#
# All this needs root and cgroup v1. Kubernetes is one program here, so that it is linked once; `scripts/cluster/main.go` is all of it.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VERSION=1.35.4
GO_MIN=1.25
GO_OWN=1.26.3
CACHE=${PLUMB_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plumb-cluster}
PROGRAM=$CACHE/kubernetes-$VERSION
RUNTIME=$CACHE/runtime
IMAGES=$CACHE/images
TEST_IMAGE=plumb.test/plumb:1
LOCK=/run/plumb-cluster.lock
BRIDGE=plumb-nodes
HOST=10.88.0.1
CGROUPS=(cpu cpuacct cpuset memory devices freezer blkio pids systemd unified)
# How often something is looked for that should be there, and the pause between.
TRIES=1200
PAUSE=0.1

say() { printf 'cluster: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# Tries a command until it succeeds.
until_true() {
    local try
    for ((try = 0; try < TRIES; try++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep "$PAUSE"
    done
    return 1
}

# Whether a pid that was written down still is what it was of this directory: pids are used again.
is_ours() { [ -n "$1" ] && tr '\0' '\n' 2>/dev/null <"/proc/$1/cmdline" | grep -qF -- "$directory"; } 2>/dev/null
pid_of() { cat "$directory/pids/$1" 2>/dev/null || true; }
runs() { is_ours "$(pid_of "$1")"; }
kubectl() { "$PROGRAM" kubectl --kubeconfig "$directory/kubeconfig" "$@"; }

# ---- what it is made of ----

go_is_new_enough() {
    local version
    version=$("${1:-go}" env GOVERSION 2>/dev/null) || return 1
    printf '%s\n' "$GO_MIN" "${version#go}" | sort -V -C
}

# A Go toolchain, from the module proxy where the machine's is missing or too old: https://go.dev/ref/mod#module-proxy
find_go() {
    local own=$CACHE/go-$GO_OWN/bin/go machine archive
    for go in go /usr/local/go/bin/go "$own"; do
        ! go_is_new_enough "$go" || return 0
    done
    machine=$(uname -m)
    machine=${machine/x86_64/amd64} machine=${machine/aarch64/arm64}
    say "getting Go $GO_OWN"
    archive=$(mktemp)
    curl --silent --show-error --fail --retry 3 -o "$archive" \
        "https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go$GO_OWN.linux-$machine.zip" || fail "Go's module proxy does not answer"
    rm -rf "$CACHE/go.new"
    python3 -m zipfile -e "$archive" "$CACHE/go.new"
    rm -f "$archive"
    mv "$CACHE"/go.new/golang.org/toolchain@* "$CACHE/go-$GO_OWN"
    # The archive has no modes.
    chmod -R +x "$CACHE/go-$GO_OWN/bin" "$CACHE/go-$GO_OWN/pkg/tool"
    go=$own
    go_is_new_enough "$go" || fail "Go $GO_OWN does not run"
}

# The program, with every staging module replaced by its published version.
build_program() {
    [ ! -x "$PROGRAM" ] || return 0
    local go=go work sources staging=v0.${VERSION#1.} package=k8s.io/component-base/version
    find_go
    say "building Kubernetes $VERSION, which takes some minutes"
    work=$(mktemp -d)
    cp "$HERE/cluster/main.go" "$work"
    (
        cd "$work"
        export GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0
        sources=$("$go" mod download -json "k8s.io/kubernetes@v$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
        {
            printf 'module kubernetes\n\ngo %s.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$GO_MIN" "$VERSION"
            sed -n 's#^\t\(k8s.io/[a-z0-9-]*\) => ./staging/.*#\t\1 => \1 '"$staging"'#p' "$sources/go.mod"
            printf ')\n'
        } >go.mod
        "$go" mod tidy -e >/dev/null 2>tidy.log || { tail -3 tidy.log >&2; exit 1; }
        "$go" build -trimpath -o "$PROGRAM.new" -ldflags "-s -w -X $package.gitVersion=v$VERSION -X $package.gitMajor=1 \
            -X $package.gitMinor=35 -X $package.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=v$VERSION" . \
            2>build.log || { tail -3 build.log >&2; exit 1; }
    ) || { rm -rf "$work"; fail "Kubernetes could not be built"; }
    rm -rf "$work"
    mv "$PROGRAM.new" "$PROGRAM"
}

# Debian's container runtime, unpacked and not installed, so that no service starts.
unpack_runtime() {
    [ ! -d "$RUNTIME" ] || return 0
    local work package
    say "getting containerd, runc and the network plugins"
    work=$(mktemp -d)
    chmod 755 "$work"
    (cd "$work" && apt-get download -q containerd runc containernetworking-plugins >/dev/null 2>&1) ||
        fail "Debian's packages of containerd, runc and containernetworking-plugins could not be downloaded"
    rm -rf "$RUNTIME.new"
    for package in "$work"/*.deb; do dpkg -x "$package" "$RUNTIME.new"; done
    rm -rf "$work"
    mv "$RUNTIME.new" "$RUNTIME"
}

# The image of the tests, which also serves as the sandbox of pods.
build_image() {
    local image
    find_image
    [ ! -e "$image" ] || return 0
    say "building the test image"
    mkdir -p "$IMAGES"
    "$HERE/image.sh" --without-plumb --name "$TEST_IMAGE" "$IMAGES/image.new" >/dev/null 2>&1 || fail "scripts/image.sh failed"
    rm -f "$IMAGES"/plumb-*.tar
    rm -f "$IMAGES/image.new.packages"
    mv "$IMAGES/image.new" "$image"
}

# Which image that is: the one that the scripts make now.
find_image() {
    local recipe
    recipe=$(cat "$HERE/image.sh" "$HERE/cluster/oci.py" | sha256sum | cut -c1-12)
    image=$IMAGES/plumb-$recipe.tar
}

ready() {
    local image
    find_image
    [ -x "$PROGRAM" ] && [ -d "$RUNTIME" ] && [ -e "$image" ]
}

build() {
    mkdir -p "$CACHE"
    exec 8>"$CACHE/lock"
    flock 8
    unpack_runtime
    build_image
    build_program
    exec 8>&-
}

# ---- identities ----

certificate() {
    local name=$1 subject=$2 names=${3:-}
    openssl ecparam -genkey -name prime256v1 -noout -out "$name.key"
    openssl req -new -key "$name.key" -subj "$subject" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$name.crt" -extfile <(
        printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n'
        [ -z "$names" ] || echo "subjectAltName=$names"
    ) 2>/dev/null
}

kubeconfig() {
    local name=$1 server=$2 keys=$directory/keys
    cat >"$directory/$name.kubeconfig" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{ name: test, cluster: { server: "$server", certificate-authority: $keys/ca.crt } }]
users: [{ name: $name, user: { client-certificate: $keys/$name.crt, client-key: $keys/$name.key } }]
contexts: [{ name: test, context: { cluster: test, user: $name } }]
current-context: test
CONFIG
}

make_identities() {
    local node names
    (
        umask 077
        mkdir -p "$directory/keys"
        cd "$directory/keys"
        openssl ecparam -genkey -name prime256v1 -noout -out ca.key
        openssl req -x509 -new -key ca.key -days 30 -subj /CN=plumb-test -out ca.crt \
            -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
        openssl genrsa -out accounts.key 2048 2>/dev/null
        openssl rsa -in accounts.key -pubout -out accounts.pub 2>/dev/null
        names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
        certificate apiserver /CN=kube-apiserver "IP:127.0.0.1,IP:$HOST,IP:10.96.0.1,$names"
        certificate admin /O=system:masters/CN=admin
        certificate manager /CN=system:kube-controller-manager
        certificate scheduler /CN=system:kube-scheduler
        certificate proxy /CN=system:kube-proxy
        for node in 1 2; do certificate "node$node" "/O=system:nodes/CN=system:node:node$node" "DNS:node$node,IP:10.88.0.1$node"; done
        for name in admin manager scheduler; do kubeconfig "$name" https://127.0.0.1:6443; done
        for name in proxy node1 node2; do kubeconfig "$name" "https://$HOST:6443"; done
    )
    mv "$directory/admin.kubeconfig" "$directory/kubeconfig"
}

# ---- its parts ----

# Starts a part in the background. Nothing of the caller's may stay open in it: what waits for its end would wait for the part's.
part() {
    local name=$1
    shift
    env -i PATH="$PATH" HOME="$directory" setsid "$@" >>"$directory/logs/$name" 2>&1 </dev/null 8>&- 9>&- &
    echo $! >"$directory/pids/$name"
    disown
}

answers() { curl --silent --fail --insecure --max-time 2 "$1"; }

start_control_plane() {
    local keys=$directory/keys
    part etcd "$PROGRAM" etcd --name test --data-dir "$directory/etcd" --unsafe-no-fsync \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster test=http://127.0.0.1:2380
    until_true answers http://127.0.0.1:2379/health || fail "etcd does not answer: $(tail -1 "$directory/logs/etcd")"
    part apiserver "$PROGRAM" kube-apiserver --etcd-servers http://127.0.0.1:2379 --secure-port 6443 --bind-address 0.0.0.0 \
        --advertise-address "$HOST" --tls-cert-file "$keys/apiserver.crt" --tls-private-key-file "$keys/apiserver.key" \
        --client-ca-file "$keys/ca.crt" --kubelet-client-certificate "$keys/admin.crt" --kubelet-client-key "$keys/admin.key" \
        --kubelet-certificate-authority "$keys/ca.crt" --kubelet-preferred-address-types InternalIP \
        --service-account-key-file "$keys/accounts.pub" --service-account-signing-key-file "$keys/accounts.key" \
        --service-account-issuer https://kubernetes.default.svc.cluster.local --service-cluster-ip-range 10.96.0.0/16 \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
        --enable-priority-and-fairness=false --default-not-ready-toleration-seconds 5 --default-unreachable-toleration-seconds 5
    until_true kubectl get --raw /readyz || fail "the API server is not ready: $(tail -1 "$directory/logs/apiserver")"
    # Without more queries each second, Jobs begin slowly.
    part manager "$PROGRAM" kube-controller-manager --kubeconfig "$directory/manager.kubeconfig" \
        --authentication-kubeconfig "$directory/manager.kubeconfig" --authorization-kubeconfig "$directory/manager.kubeconfig" \
        --bind-address 127.0.0.1 --leader-elect=false --use-service-account-credentials --root-ca-file "$keys/ca.crt" \
        --service-account-private-key-file "$keys/accounts.key" --cluster-signing-cert-file "$keys/ca.crt" \
        --cluster-signing-key-file "$keys/ca.key" --node-monitor-period 1s --node-monitor-grace-period 20s --kube-api-qps 200 \
        --kube-api-burst 400
    part scheduler "$PROGRAM" kube-scheduler --kubeconfig "$directory/scheduler.kubeconfig" --bind-address 127.0.0.1 \
        --authentication-kubeconfig "$directory/scheduler.kubeconfig" --authorization-kubeconfig "$directory/scheduler.kubeconfig" \
        --leader-elect=false
    until_true kubectl get serviceaccount default || fail "the controllers do not work: $(tail -1 "$directory/logs/manager")"
}

# Writes down the only child of `unshare`.
first_process() {
    local child
    # The file has no end of line.
    child=$(cat "/proc/$1/task/$1/children")
    [ -n "$child" ] && echo "${child% }" >"$2"
}
is_elsewhere() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
is_ready() { kubectl get node "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True; }

start_node() {
    local name=$1 number=${1#node} kind first
    mkdir -p "$directory/$name"
    # In a group of its own for each controller, which is the root that the node sees.
    for kind in "${CGROUPS[@]}"; do
        [ -d "/sys/fs/cgroup/$kind" ] || continue
        mkdir -p "/sys/fs/cgroup/$kind/plumb-$name"
        [ "$kind" != cpuset ] || for file in cpus mems; do
            cat "/sys/fs/cgroup/cpuset/cpuset.$file" >"/sys/fs/cgroup/cpuset/plumb-$name/cpuset.$file"
        done
    done
    part "$name" bash "$HERE/cluster/node.sh" enter "$directory" "$number" "$PROGRAM" "$RUNTIME" "$IMAGES"
    until_true first_process "$(pid_of "$name")" "$directory/$name/pid" || fail "$name does not begin"
    first=$(cat "$directory/$name/pid")
    until_true is_elsewhere "$first" || fail "$name has no network of its own"
    ip link add "plumb-$name" type veth peer name eth0 netns "$first"
    ip link set "plumb-$name" master "$BRIDGE" up
    ip route replace "10.244.$number.0/24" via "10.88.0.1$number"
    # This machine reaches Services through the first node.
    [ "$number" != 1 ] || ip route replace 10.96.0.0/16 via 10.88.0.11
}

end_node() {
    local name=$1 kind pid
    pid=$(pid_of "$name")
    ! is_ours "$pid" || kill -KILL "$pid"
    until_true test ! -e "/proc/${pid:-0}/ns" || true
    rm -f "$directory/pids/$name"
    ip link delete "plumb-$name" 2>/dev/null || true
    for kind in "${CGROUPS[@]}"; do
        [ ! -d "/sys/fs/cgroup/$kind/plumb-$name" ] || until_true remove_group "/sys/fs/cgroup/$kind/plumb-$name" || true
    done
    rm -rf "${directory:?}/$name"
}
remove_group() { find "$1" -depth -type d -exec rmdir {} +; }

# ---- commands ----

up() {
    local node
    [ "$(id -u)" -eq 0 ] || fail "this needs root"
    [ -d /sys/fs/cgroup/memory ] || fail "this needs cgroup v1, and this machine has none"
    [ ! -e "$directory/kubeconfig" ] || fail "$directory has a cluster already"
    exec 9>>"$LOCK"
    flock --nonblock 9 || fail "there is another cluster on this machine, in $(cat "$LOCK")"
    if [ -s "$LOCK" ] && [ -e "$(cat "$LOCK")/kubeconfig" ]; then
        fail "there is another cluster on this machine: scripts/cluster.sh down $(cat "$LOCK")"
    fi
    build
    mkdir -p "$directory/logs" "$directory/pids"
    # shellcheck disable=SC2154 # The trap itself sets it.
    trap 'code=$?; trap - EXIT; down; exit $code' EXIT
    trap 'exit 1' HUP INT TERM
    echo "$directory" >"$LOCK"
    ip link add "$BRIDGE" type bridge
    ip address add "$HOST/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
    make_identities
    start_control_plane
    for node in node1 node2; do start_node "$node"; done
    for node in node1 node2; do
        until_true is_ready "$node" || fail "$node does not become ready: $(tail -1 "$directory/logs/$node-kubelet")"
    done
}

down() {
    local part pid
    for part in node1 node2; do end_node "$part"; done
    for part in scheduler manager apiserver etcd; do
        pid=$(pid_of "$part")
        ! is_ours "$pid" || { kill -KILL "$pid"; until_true test ! -e "/proc/$pid/ns" || true; }
    done
    ip route delete 10.96.0.0/16 2>/dev/null || true
    ip link delete "$BRIDGE" 2>/dev/null || true
    rm -rf "$directory"/{keys,logs,pids,etcd,kubeconfig,*.kubeconfig}
    rmdir "$directory" 2>/dev/null || true
    [ "$(cat "$LOCK" 2>/dev/null)" != "$directory" ] || : >"$LOCK"
}

status() {
    local part all=0
    for part in etcd apiserver manager scheduler node1 node2; do
        if runs "$part"; then echo "$part runs, pid $(pid_of "$part")"; else echo "$part is gone"; all=1; fi
    done
    return $all
}

in_node() {
    local name=$1
    shift
    nsenter --target "$(cat "$directory/$name/pid")" --all --wd=/ "$@"
}

kubelet() {
    local number=${1#kubelet}
    case $2 in
        kill) in_node "node$number" pkill -KILL -F /run/kubelet.pid ;;
        start) in_node "node$number" bash -c 'touch /run/kubelet.wanted' ;;
    esac
}

load() {
    local node
    for node in node1 node2; do
        in_node "$node" "$RUNTIME/usr/bin/ctr" -n k8s.io images import - <"$1" >/dev/null
    done
}

command=${1:-}
[[ $command = build || $command = ready || $# -ge 2 ]] || usage
directory=$(realpath -m "${2:-.}")
case $command in
    build | ready) "$command" ;;
    up | hold)
        up
        if [ "$command" = hold ]; then
            echo up
            cat >/dev/null
            exit
        fi
        trap - EXIT
        ;;
    down | status) "$command" ;;
    kubectl) kubectl "${@:3}" ;;
    load) load "$3" ;;
    kill | start)
        case ${3:-} in
            node[12]) if [ "$command" = kill ]; then end_node "$3"; else start_node "$3"; fi ;;
            kubelet[12]) kubelet "$3" "$command" ;;
            *) usage ;;
        esac
        ;;
    *) usage ;;
esac
