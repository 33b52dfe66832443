# shellcheck shell=bash disable=SC2034 # Those that read this file use what it sets.
# The addresses of the test cluster, which never change. `cluster.sh` and the scripts in its machines read
# this file. The cluster takes the upper half of the addresses for benchmarks (RFC 2544), which clash with no
# network in use; `hosts.sh` takes the lower half.

NETWORK=198.19
# The machines: this one on the bridge, the control plane, node 1 and node 2.
HOST=$NETWORK.0.1
CONTROL=$NETWORK.0.10
node_address() { echo "$NETWORK.0.$((10 + $1))"; }
# Pods: a /24 for each node.
PODS=$NETWORK.64.0/18
node_pods() { echo "$NETWORK.$((64 + $1)).0/24"; }
SERVICES=$NETWORK.128.0/18
API_SERVICE=$NETWORK.128.1
DNS_SERVICE=$NETWORK.128.10

# How often to check for something that should be there, and the pause in between.
TRIES=1200
PAUSE=0.1

# Tries a command until it succeeds.
until_true() {
    local try
    for ((try = 0; try < TRIES; try++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep "$PAUSE"
    done
    return 1
}

# Unmounts copies: a machine begins with a copy of this machine's mounts, and a copy keeps a device in use
# that was unmounted here.
drop_copies() {
    local device target kind rest
    while read -r device target kind rest; do
        [[ $device != /dev/loop* && $kind != fuse* ]] || umount --lazy "$target" || true
    done </proc/self/mounts
}

answers() { curl --silent --fail --insecure --max-time 2 "$1"; }

# Sets the routes to pods and Services on a machine that is not a node. Services are reached through the first
# node.
make_routes() {
    local number
    for number in 1 2; do ip route replace "$(node_pods "$number")" via "$(node_address "$number")"; done
    ip route replace "$SERVICES" via "$(node_address 1)"
}
