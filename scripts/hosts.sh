#!/usr/bin/env bash
# Hosts for tests: namespaces of this kernel on one bridge, each with its own sshd, host key, /tmp, /run, /root and /var/lib.
#
# usage: scripts/hosts.sh up N DIRECTORY       makes N hosts, at most 99, which stay until `down`
#        scripts/hosts.sh hold N DIRECTORY     makes them, says `up`, and removes them when its input ends
#        scripts/hosts.sh down DIRECTORY       ends all that runs on them, and removes them
#        scripts/hosts.sh status DIRECTORY     says which of them run
#        scripts/hosts.sh enter I DIRECTORY COMMAND…   runs a command on host I without ssh
#
# `ssh -F DIRECTORY/ssh_config host1` reaches the first, and `host1-slow` is the same host 50 ms away. DIRECTORY/host1/pid has the
# pid of its first process, and when that ends, so does everything else there. DIRECTORY/host1/link is the outer end of its link.
# Programs in its /run/host/bin come first in its PATH. Its users `no-shell` and `lost-shell` have no shell, and `no-key` has no key.
# `stranger` is the first host, with a key that it does not know, and `nowhere` has an address that nobody has.
#
# All this needs root. The namespaces have no names, so that the kernel removes them together with their last process.
set -euo pipefail
shopt -s nullglob

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The addresses of benchmarks (RFC 2544) clash with no network in use; each group of hosts takes a /24 of them.
NETWORKS=198.18
DELAY_MS=25
# How often to check for a host that should be there, and the pause in between.
TRIES=1200
PAUSE=0.05

say() { printf 'hosts: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# Tries a command until it succeeds.
until_true() {
    local try
    for ((try = 0; try < TRIES; try++)); do
        ! "$@" 2>/dev/null || return 0
        sleep "$PAUSE"
    done
    return 1
}

# Whether this pid still belongs to this directory: the kernel reuses pids.
is_ours() { tr '\0' '\n' 2>/dev/null <"/proc/$1/cmdline" | grep -qxF -- "$directory"; } 2>/dev/null

# The pids of `unshare` in front of each host. Each takes its host with it.
fronts() {
    local file pid
    for file in "$directory"/host*/front; do
        pid=$(cat "$file")
        ! is_ours "$pid" || echo "$pid"
    done
}

# Takes a free /24 by giving the bridge an address in it. The lock keeps two groups of hosts from the same one.
make_bridge() {
    local bridge=$1 try third
    exec 9>/run/plumb-hosts.lock
    flock 9
    for ((try = 0; try < 256; try++)); do
        third=$((($$ + try) % 256))
        [ -z "$(ip -4 route show root "$NETWORKS.$third.0/24")" ] || continue
        echo "$bridge" >"$directory/bridge"
        ip link add "$bridge" type bridge
        ip addr add "$NETWORKS.$third.254/24" dev "$bridge"
        ip link set "$bridge" up
        network=$NETWORKS.$third
        exec 9>&-
        return
    done
    fail "every network of $NETWORKS.0.0/16 is in use"
}

make_config() {
    local i=$1 host=$directory/host$1
    mkdir "$host"
    ssh-keygen -q -t ed25519 -N '' -C "host$i" -f "$host/key"
    cp "$directory/client.pub" "$host/authorized_keys"
    # Users without a working shell, and one whom no key lets in.
    {
        cat /etc/passwd
        echo "no-shell:x:64001:64001::/tmp:/bin/false"
        echo "lost-shell:x:64002:64002::/tmp:/opt/there-is-no-such-shell"
        echo "no-key:x:64003:64003::/tmp:/bin/sh"
    } >"$host/passwd"
    {
        cat /etc/shadow
        printf '%s:*:20000:0:99999:7:::\n' no-shell lost-shell no-key
    } >"$host/shadow"
    chmod 600 "$host/shadow"
    cat >"$host/sshd_config" <<CONFIG
ListenAddress $network.$i
HostKey /run/host/key
AuthorizedKeysFile /run/host/authorized_keys
PidFile none
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin yes
SetEnv PATH=/run/host/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
MaxStartups 100
Match User no-key
    AuthorizedKeysFile none
CONFIG
    printf '%s %s\n' "$network.$i" "$(cut -d' ' -f1,2 "$host/key.pub")" >>"$directory/known_hosts"
    cat >>"$directory/ssh_config" <<CONFIG
Host host$i host$i-slow
    HostName $network.$i
Host host$i-slow
    ProxyCommand python3 $HERE/delay.py $DELAY_MS %h %p
CONFIG
}

# Writes the pid of the only child of `unshare` to a file.
first_process() {
    local child
    # The file does not end with a line break.
    child=$(cat "/proc/$1/task/$1/children")
    [ -n "$child" ] && echo "${child% }" >"$2"
}

start_host() {
    local i=$1 host=$directory/host$1 front
    # Closes all files of the caller: a reader that waits for their end would wait for the host's end.
    env -i PATH="$PATH" setsid unshare --net --mount --propagation private --uts --ipc --pid --fork --kill-child --mount-proc \
        bash "$HERE/hosts.sh" inside "$i" "$directory" "$network" </dev/null >"$host/log" 2>&1 9>&- &
    front=$!
    disown
    echo "$front" >"$host/front"
    until_true first_process "$front" "$host/pid" || fail "host$i does not begin"
    ip link add "$link$i" type veth peer name eth0 netns "$(cat "$host/pid")"
    ip link set "$link$i" master "$(cat "$directory/bridge")" up
    echo "$link$i" >"$host/link"
}

# The work of a host's first process. sshd replaces it, and then reaps orphans.
inside() {
    local i=$1 network=$3 device target kind rest
    # A copied mount keeps a device in use that was unmounted here.
    while read -r device target kind rest; do
        [[ $device != /dev/loop* && $kind != fuse* ]] || umount --lazy "$target" || true
    done </proc/self/mounts
    hostname "host$i"
    ip link set lo up
    until_true ip link show eth0 >/dev/null
    ip addr add "$network.$i/24" dev eth0
    ip link set eth0 up
    ip route add default via "$network.254"
    mount --bind "$directory/host$i" /mnt
    mount --bind "$directory/host$i/passwd" /etc/passwd
    mount --bind "$directory/host$i/shadow" /etc/shadow
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/sshd /run/host/bin
    cp /mnt/{key,authorized_keys,sshd_config} /run/host
    umount /mnt
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    mount -t tmpfs -o mode=700 tmpfs /root
    mount -t tmpfs -o mode=755 tmpfs /var/lib
    cd /
    exec /usr/sbin/sshd -D -e -f /run/host/sshd_config
}

up() {
    local count=$1 i
    [ "$(id -u)" -eq 0 ] || fail "this needs root"
    [ -x /usr/sbin/sshd ] || fail "there is no sshd: scripts/install-tools.sh tests"
    mkdir -p "$directory"
    [ ! -e "$directory/ssh_config" ] || fail "$directory has hosts already"
    trap 'code=$?; trap - EXIT; down; exit $code' EXIT
    trap 'exit 1' HUP INT TERM
    network='' link=plh$$-
    make_bridge "plb$$"
    ssh-keygen -q -t ed25519 -N '' -C client -f "$directory/client"
    ssh-keygen -q -t ed25519 -N '' -C stranger -f "$directory/stranger"
    cat >"$directory/ssh_config" <<CONFIG
Host stranger
    HostName $network.1
    IdentityFile $directory/stranger
Host nowhere
    HostName $network.253
Host * !stranger
    IdentityFile $directory/client
Host *
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile $directory/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
CONFIG
    for ((i = 1; i <= count; i++)); do make_config "$i"; done
    printf 'Host *\n    User root\n' >>"$directory/ssh_config"
    for ((i = 1; i <= count; i++)); do start_host "$i"; done
    for ((i = 1; i <= count; i++)); do
        until_true ssh -F "$directory/ssh_config" "host$i" true || {
            cat "$directory/host$i/log" >&2
            fail "host$i does not answer"
        }
    done
}

down() {
    local pid bridge
    for pid in $(fronts); do kill -KILL "$pid" 2>/dev/null || true; done
    for pid in $(fronts); do until_true test ! -e "/proc/$pid"; done
    for file in "$directory"/host*/link; do
        # It has gone with its host, unless something holds the host's network.
        ! ip link show "$(cat "$file")" >/dev/null 2>&1 || ip link delete "$(cat "$file")" 2>/dev/null || true
    done
    if [ -e "$directory/bridge" ]; then
        bridge=$(cat "$directory/bridge")
        ip link delete "$bridge" 2>/dev/null || ! ip link show "$bridge" >/dev/null 2>&1 || fail "$bridge stays"
    fi
    rm -rf "$directory"/host[0-9]* "$directory"/{ssh_config,known_hosts,client,client.pub,stranger,stranger.pub,bridge}
}

status() {
    local host pid
    for host in "$directory"/host[0-9]*; do
        pid=$(cat "$host/front" 2>/dev/null || echo 0)
        if is_ours "$pid"; then echo "$(basename "$host") runs, pid $(cat "$host/pid")"; else echo "$(basename "$host") is gone"; fi
    done
}

enter() {
    local pid
    pid=$(cat "$directory/host$1/pid")
    shift 2
    exec nsenter --target "$pid" --net --mount --uts --ipc --pid --wd=/ "$@"
}

command=${1:-}
case $command in
    up | hold)
        [ $# -eq 3 ] && [[ $2 =~ ^[1-9][0-9]?$ ]] || usage
        directory=$(realpath -m "$3")
        up "$2"
        if [ "$command" = hold ]; then
            echo up
            cat >/dev/null
            exit
        fi
        trap - EXIT
        ;;
    down | status)
        [ $# -eq 2 ] || usage
        directory=$(realpath -m "$2")
        "$command"
        ;;
    enter | inside)
        [ $# -ge 3 ] || usage
        directory=$(realpath -m "$3")
        "$command" "${@:2}"
        ;;
    *) usage ;;
esac
