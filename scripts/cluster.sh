#!/usr/bin/env bash
# A Kubernetes cluster for tests: a control plane and two nodes, each in namespaces of this machine, with DNS for Services.
#
# usage: scripts/cluster.sh build                  gets what is missing into the cache: Kubernetes from Go's module proxy (5 minutes on
#                                                  2 cores), a container runtime and the test image from Debian
#        scripts/cluster.sh ready                  says by its exit code whether the cache has all of it
#        scripts/cluster.sh up [DIRECTORY]         makes the cluster, which stays until `down`; DIRECTORY/kubeconfig reaches it
#        scripts/cluster.sh hold [DIRECTORY]       makes it once no other holder has one, says `up`, and removes it when its input ends;
#                                                  it ends with its holder
#        scripts/cluster.sh down [DIRECTORY]       ends all that runs in it, and removes it, also what is left of a killed one
#        scripts/cluster.sh status [DIRECTORY]     says which of its parts run, and whether its nodes are ready
#        scripts/cluster.sh kubectl DIRECTORY WORD…       kubectl's command line, as the administrator
#        scripts/cluster.sh load DIRECTORY IMAGE.tar      gives an image to both nodes
#        scripts/cluster.sh enter DIRECTORY node1 COMMAND…   runs a command on a node
#        scripts/cluster.sh kill DIRECTORY node1|kubelet1|…    ends a node with all that runs on it, or its kubelet alone
#        scripts/cluster.sh start DIRECTORY node1|kubelet1|…   starts it again; the node has its disk as it was
#
# DIRECTORY is /var/lib/plumb-cluster unless it is given. DIRECTORY/logs says what went wrong. The cache is $PLUMB_CLUSTER_CACHE, or
# ~/.cache/plumb-cluster. A machine has one cluster at a time, as its addresses are always the same, in 198.19.0.0/16. Nodes get
# images from the cache (`plumb.test/plumb:1` has the programs that experiments drive) and from `load`, never from a network. A node's
# file system is in DIRECTORY, and it sees the machine's devices. Ports of the host (`hostPort`) and NetworkPolicy do nothing here.
#
# Exit codes: 1 failed, 2 a wrong command line, 3 another cluster is up, 4 something is not built yet (`ready`).
#
# All this needs root and cgroup v1. Kubernetes is one program here, so that it is linked once.
set -euo pipefail
shopt -s nullglob
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DEFAULT=/var/lib/plumb-cluster
LOCK=/run/plumb-cluster.lock
BRIDGE=plumb-cluster
MACHINES=(control node1 node2)
GROUPS_ROOT=/sys/fs/cgroup

say() { printf 'cluster: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# shellcheck source-path=SCRIPTDIR source=cluster/addresses.sh
. "$HERE/cluster/addresses.sh"
# shellcheck source-path=SCRIPTDIR source=cluster/build.sh
. "$HERE/cluster/build.sh"
# shellcheck source-path=SCRIPTDIR source=cluster/keys.sh
. "$HERE/cluster/keys.sh"

kubectl() { "$PROGRAM" kubectl --kubeconfig "$directory/kubeconfig" "$@"; }

# ---- machines ----

# Whether this pid still belongs to this directory: the kernel reuses pids.
is_ours() { tr '\0' '\n' <"/proc/$1/cmdline" | grep -qxF -- "$directory"; } 2>/dev/null

# The pid of the `unshare` in front of a machine, whose end also ends the machine. Prints nothing if it does
# not run.
front_of() {
    local pid
    pid=$(cat "$directory/$1/front" 2>/dev/null) && is_ours "$pid" && echo "$pid"
}

# The control groups of a machine, one for each kind. Their pids are the machine's, even after the `unshare`
# in front of it has ended.
groups_of() { printf '%s\n' "$GROUPS_ROOT"/*/"plumb-$1"; }
processes_of() {
    local group
    for group in "$GROUPS_ROOT"/*/"plumb-$1"; do find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null || true; done | sort -un
}
is_empty() { [ -z "$(processes_of "$1")" ]; }

make_groups() {
    local kind file
    for kind in "$GROUPS_ROOT"/*/; do
        # Two kinds that share a hierarchy have links to it.
        [ ! -L "${kind%/}" ] && [ -e "$kind/cgroup.procs" ] || continue
        mkdir -p "$kind/plumb-$1"
        for file in cpus mems; do
            # An empty set lets no process in.
            [ ! -e "$kind/cpuset.$file" ] || cat "$kind/cpuset.$file" >"$kind/plumb-$1/cpuset.$file"
        done
    done
}

remove_groups() {
    local group
    for group in $(groups_of "$1"); do find "$group" -depth -type d -exec rmdir {} + || return 1; done
}

# Writes the pid of the only child of `unshare` to a file.
first_process() {
    local child
    # The file does not end with a line break.
    child=$(cat "/proc/$1/task/$1/children")
    [ -n "$child" ] && echo "${child% }" >"$2"
}
is_elsewhere() { [ -e "/proc/$1/ns/net" ] && [ ! "/proc/$1/ns/net" -ef /proc/self/ns/net ]; }

# start_machine NAME SCRIPT WORD…: runs a script as the first process of a machine.
start_machine() {
    local name=$1 group groups front
    shift
    mkdir -p "$directory/$name" "$directory/logs"
    make_groups "$name"
    mapfile -t groups < <(groups_of "$name")
    (
        # Starts no process of its own here, because the first child must be the machine.
        for group in "${groups[@]}"; do echo "$BASHPID" >"$group/cgroup.procs"; done
        # Closes all files of the caller: a reader that waits for their end would wait for the machine's end.
        exec env -i PATH="$PATH" HOME=/root "${WITH_HOLDER[@]}" setsid unshare --mount --net --uts --ipc --pid --fork --cgroup \
            --kill-child=KILL --propagation private bash "$@" </dev/null >>"$directory/logs/$name" 2>&1 8>&- 9>&-
    ) &
    front=$!
    disown
    echo "$front" >"$directory/$name/front"
    until_true first_process "$front" "$directory/$name/pid" || fail "$name does not begin: $(tail -1 "$directory/logs/$name")"
    until_true is_elsewhere "$(cat "$directory/$name/pid")" || fail "$name has no network of its own"
    ip link add "plumb-$name" type veth peer name eth0 netns "$(cat "$directory/$name/pid")"
    ip link set "plumb-$name" master "$BRIDGE" up
}

start_node() { start_machine "$1" "$HERE/cluster/node.sh" "$directory" "${1#node}" "$PROGRAM" "$RUNTIME" "$IMAGES"; }

# Ends a machine and leaves its disk.
end_machine() {
    local name=$1 pid
    ! pid=$(front_of "$name") || kill -KILL "$pid" 2>/dev/null || true
    for pid in $(processes_of "$name"); do kill -KILL "$pid" 2>/dev/null || true; done
    until_true is_empty "$name" || fail "processes of $name do not end: $(processes_of "$name" | tr '\n' ' ')"
    until_true remove_groups "$name" || fail "$(groups_of "$name" | head -1) stays"
    # It goes with its machine, unless something holds the machine's network.
    ip link delete "plumb-$name" 2>/dev/null || true
    rm -f "$directory/$name"/{front,pid}
}

in_machine() {
    local name=$1 pid group
    shift
    pid=$(front_of "$name" >/dev/null && cat "$directory/$name/pid") || fail "$name does not run"
    (
        for group in $(groups_of "$name"); do echo "$BASHPID" >"$group/cgroup.procs"; done
        exec nsenter --target "$pid" --all --wdns=/ "$@"
    )
}

# ---- the cluster ----

# Allows one cluster at a time. `hold` keeps the lock while it runs; `up` writes its directory into the file.
take_turn() {
    local name left
    exec 9>>"$LOCK"
    if ! flock --nonblock 9; then
        say "there is another cluster on this machine, in $(cat "$LOCK"), which another process holds"
        [ "$command" = hold ] || exit 3
        flock 9
    fi
    left=$(cat "$LOCK")
    for name in "${MACHINES[@]}"; do
        is_empty "$name" || { say "there is another cluster on this machine: scripts/cluster.sh down $left"; exit 3; }
    done
    # Removes the leftovers of a killed cluster, which has no process any more.
    [ -z "$left" ] || (directory=$left remove)
    echo "$directory" >"$LOCK"
}

node_is_ready() { kubectl get node "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True; }

# DNS runs beside the nodes, so its Service names an address.
offer_dns() {
    kubectl apply -f - <<OBJECTS
apiVersion: v1
kind: Service
metadata: { name: kube-dns, namespace: kube-system }
spec:
  clusterIP: $DNS_SERVICE
  ports: [{ name: dns, port: 53, protocol: UDP }, { name: dns-tcp, port: 53, protocol: TCP }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: kube-dns, namespace: kube-system, labels: { kubernetes.io/service-name: kube-dns } }
addressType: IPv4
endpoints: [{ addresses: ["$CONTROL"] }]
ports: [{ name: dns, port: 53, protocol: UDP }, { name: dns-tcp, port: 53, protocol: TCP }]
OBJECTS
}

up() {
    local name
    [ "$(id -u)" -eq 0 ] || fail "this needs root"
    [ -d "$GROUPS_ROOT/memory" ] || fail "this needs cgroup v1, and this machine has none"
    build
    take_turn
    # shellcheck disable=SC2154 # The trap itself sets it.
    trap 'code=$?; trap - EXIT; remove_but_logs; exit $code' EXIT
    trap 'exit 1' HUP INT TERM
    rm -rf "$directory/logs"
    [ -z "$(ip -4 route show root "$NETWORK.0.0/16")" ] || fail "this machine uses $NETWORK.0.0/16 already: $(ip -4 route show root "$NETWORK.0.0/16" | head -1)"
    mkdir -p "$directory"
    ip link add "$BRIDGE" type bridge
    ip address add "$HOST/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
    make_keys
    mv "$directory/keys/admin.kubeconfig" "$directory/kubeconfig"
    start_machine control "$HERE/cluster/control.sh" "$directory" "$PROGRAM"
    for name in node1 node2; do start_node "$name"; done
    # The kernel accepts no route through the bridge until the bridge has a port.
    until_true make_routes || fail "cannot add routes to the nodes: $(make_routes 2>&1 | tail -1)"
    until_true answers "https://$CONTROL:6443/readyz" || fail "the API server is not ready: $(tail -1 "$directory/logs/apiserver")"
    until_true offer_dns || fail "the Service of DNS cannot be made: $(tail -1 "$directory/logs/apiserver")"
    until_true kubectl get serviceaccount default || fail "the controllers do not work: $(tail -1 "$directory/logs/manager")"
    for name in node1 node2; do
        until_true node_is_ready "$name" || fail "$name does not become ready: $(tail -1 "$directory/logs/$name-kubelet")"
    done
    until_true answers "http://$CONTROL:8181/ready" || fail "DNS is not ready: $(tail -1 "$directory/logs/dns")"
}

# Detaches the loop devices of killed pods, which the kernel keeps. They are found by the files that they
# show. A file in a container's own file system has the inode of the file below it, and a device without a
# major number.
detach_loops() {
    local device inode number
    number=$(mountpoint --fs-devno "$(stat -c %m "$directory")") || return 0
    while read -r device inode; do
        [ -z "$(find "$directory" -xdev -inum "$inode" -print -quit)" ] || losetup --detach "$device" || true
    done < <(losetup --list --noheadings --output NAME,BACK-INO,BACK-MAJ:MIN | awk -v number="$number" '$3 == number || $3 ~ /^0:/ { print $1, $2 }')
}

# Ends and removes the whole cluster. Each step tolerates that an earlier try has removed its part. The logs
# of a cluster that did not come up stay until `down`.
remove() {
    remove_but_logs
    rm -rf "$directory/logs"
    rmdir "$directory" 2>/dev/null || true
}
remove_but_logs() {
    local name
    for name in "${MACHINES[@]}"; do end_machine "$name"; done
    ip link delete "$BRIDGE" 2>/dev/null || ! ip link show "$BRIDGE" >/dev/null 2>&1 || fail "$BRIDGE stays"
    if [ -d "$directory" ]; then
        detach_loops
        rm -rf --one-file-system "$directory"/{control,node1,node2,keys,kubeconfig}
        rmdir "$directory" 2>/dev/null || true
    fi
    [ "$(cat "$LOCK" 2>/dev/null)" != "$directory" ] || : >"$LOCK"
}

down() {
    local name other
    other=$(cat "$LOCK" 2>/dev/null || true)
    # The machines of all clusters have the same names.
    [ -z "$other" ] || [ "$other" = "$directory" ] || fail "the cluster of this machine is in $other"
    remove
}

status() {
    local name front all=0
    for name in "${MACHINES[@]}"; do
        if ! front=$(front_of "$name"); then
            echo "$name is gone"
            all=1
        elif [ "$name" = control ] || node_is_ready "$name" 2>/dev/null; then
            echo "$name runs, pid $front"
        else
            echo "$name runs, pid $front, and is not ready"
            all=1
        fi
    done
    return $all
}

load() {
    local name
    [ -r "$1" ] || fail "there is no $1"
    for name in node1 node2; do
        in_machine "$name" "/opt/plumb-cluster/runtime/usr/bin/ctr" -n k8s.io images import - <"$1" >/dev/null ||
            fail "$name does not take $1"
    done
}

kubelet_is_gone() {
    # shellcheck disable=SC2016 # The node's shell expands it.
    ! in_machine "$1" bash -c 'kill -0 "$(cat /run/kubelet.pid)"' 2>/dev/null
}

# change kill|start NAME
change() {
    case $1-$2 in
        kill-node[12]) end_machine "$2" ;;
        start-node[12])
            ! front_of "$2" >/dev/null || fail "$2 runs already"
            start_node "$2"
            ;;
        kill-kubelet[12])
            # shellcheck disable=SC2016 # The node's shell expands it.
            in_machine "node${2#kubelet}" bash -c 'kill -KILL "$(cat /run/kubelet.pid)"' 2>/dev/null || fail "$2 does not run"
            # While the old kubelet exists, `start` takes it for running.
            until_true kubelet_is_gone "node${2#kubelet}" || fail "$2 does not end"
            ;;
        start-kubelet[12]) in_machine "node${2#kubelet}" bash -c 'echo >/run/wanted' ;;
        *) usage ;;
    esac
}

command=${1:-}
WITH_HOLDER=()
directory=$(realpath -m "${2:-$DEFAULT}")
case $command in
    build)
        [ $# -eq 1 ] || usage
        build
        ;;
    ready)
        [ $# -eq 1 ] || usage
        is_built || exit 4
        ;;
    up | hold)
        [ $# -le 2 ] || usage
        [ "$command" = up ] || WITH_HOLDER=(setpriv --pdeathsig KILL)
        up
        if [ "$command" = hold ]; then
            trap 'code=$?; trap - EXIT; remove; exit $code' EXIT
            echo up
            cat >/dev/null
            exit
        fi
        trap - EXIT
        ;;
    down | status)
        [ $# -le 2 ] || usage
        "$command"
        ;;
    kubectl)
        [ $# -ge 2 ] || usage
        kubectl "${@:3}"
        ;;
    load)
        [ $# -eq 3 ] || usage
        load "$3"
        ;;
    enter)
        [ $# -ge 4 ] || usage
        in_machine "${@:3}"
        ;;
    kill | start)
        [ $# -eq 3 ] || usage
        change "$command" "$3"
        ;;
    *) usage ;;
esac
