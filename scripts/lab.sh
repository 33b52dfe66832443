#!/usr/bin/env bash
# The laboratory: one test cluster and three hosts, which exist while a command runs. All tests that the command runs share them.
#
# usage: scripts/lab.sh COMMAND WORD…
#
# PLUMB_LAB_CLUSTER names the cluster's directory (cluster.sh) for the command, and PLUMB_LAB_HOSTS that of the hosts (hosts.sh). A part
# that this machine cannot have is left out, and the tests that need it say why they are skipped.
#
# The exit code is the command's. INT, TERM and HUP go to the command, and so does the end of this script's parent. Both parts end with
# this script, even if it is killed: each notices that its input is closed.
set -euo pipefail
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'lab: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

[ $# -gt 0 ] || usage
# The kernel sends the signal when the parent ends.
if [ -z "${PLUMB_LAB_WATCHES_PARENT:-}" ]; then
    PLUMB_LAB_WATCHES_PARENT=1 exec setpriv --pdeathsig TERM bash "${BASH_SOURCE[0]}" "$@"
fi
unset PLUMB_LAB_WATCHES_PARENT

may_have_hosts() { [ "$(id -u)" -eq 0 ] && [ -x /usr/sbin/sshd ] && unshare --net --mount --pid --fork true; } 2>/dev/null
may_have_cluster() { may_have_hosts && [ -d /sys/fs/cgroup/memory ] && "$HERE/cluster.sh" ready; }

# begin PART SCRIPT WORD…: starts what holds a part until its input is closed. A session of its own keeps signals of the terminal away.
begin() {
    mkfifo "$lab/$1-input" "$lab/$1-says"
    setsid "${@:2}" <"$lab/$1-input" >"$lab/$1-says" 2>"$lab/$1-log" &
    holders+=("$!")
}

# Waits until a part is up.
await() {
    local line=
    read -r line <"$lab/$1-says" || true
    [ "$line" = up ] || fail "the $1 did not come up: $(cat "$lab/$1-log")"
}

end() {
    local pid code=$?
    trap - EXIT
    trap '' INT TERM HUP
    exec 6>&- 7>&-
    for pid in "${holders[@]}"; do wait "$pid" || say "$(cat "$lab"/*-log)"; done
    rm -rf "$lab"
    exit "$code"
}

lab=$(mktemp -d "${TMPDIR:-/tmp}/plumb-lab-XXXXXX")
holders=()
trap end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Both begin before either input is opened, so that neither inherits, and keeps open, the other's.
unset PLUMB_LAB_CLUSTER PLUMB_LAB_HOSTS
if may_have_cluster; then
    begin cluster "$HERE/cluster.sh" hold "$lab/cluster"
    export PLUMB_LAB_CLUSTER=$lab/cluster
fi
if may_have_hosts; then
    begin hosts "$HERE/hosts.sh" hold 3 "$lab/hosts"
    export PLUMB_LAB_HOSTS=$lab/hosts
fi
[ -z "${PLUMB_LAB_CLUSTER:-}" ] || exec 6>"$lab/cluster-input"
[ -z "${PLUMB_LAB_HOSTS:-}" ] || exec 7>"$lab/hosts-input"
[ -z "${PLUMB_LAB_CLUSTER:-}" ] || await cluster
[ -z "${PLUMB_LAB_HOSTS:-}" ] || await hosts

# Job control gives the command a process group, and leaves it SIGINT, which a shell's background commands otherwise ignore.
set -m
setpriv --pdeathsig TERM "$@" </dev/null 6>&- 7>&- &
command=$!
set +m
received=
pass_on() {
    received=$1
    kill -s "$1" -- "-$command" 2>/dev/null || true
}
for signal in HUP INT TERM; do
    # shellcheck disable=SC2064 # The signal is this one.
    trap "pass_on $signal" "$signal"
done
# A signal ends the `wait`, and not the command.
while :; do
    received='' code=0
    wait "$command" || code=$?
    [ -n "$received" ] || exit "$code"
done
