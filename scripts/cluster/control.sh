#!/usr/bin/env bash
# The control plane of the test cluster: etcd, the API server, its controllers, the scheduler and DNS. It is the first process in
# namespaces of its own, so nothing but the nodes and this machine reaches it. `cluster.sh` starts it.
#
# usage: control.sh DIRECTORY PROGRAM
set -euo pipefail
directory=$1 program=$2
keys=$directory/keys logs=$directory/logs
# shellcheck source-path=SCRIPTDIR source=addresses.sh
. "$(dirname "${BASH_SOURCE[0]}")/addresses.sh"

part() {
    local name=$1
    shift
    "$program" "$@" >"$logs/$name" 2>&1 &
}

start_etcd() {
    part etcd etcd --name test --data-dir "$directory/control/etcd" --unsafe-no-fsync \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster test=http://127.0.0.1:2380
    until_true answers http://127.0.0.1:2379/health
}

start_api() {
    part apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --secure-port 6443 \
        --advertise-address "$CONTROL" --tls-cert-file "$keys/apiserver.crt" --tls-private-key-file "$keys/apiserver.key" \
        --client-ca-file "$keys/ca.crt" --kubelet-client-certificate "$keys/admin.crt" --kubelet-client-key "$keys/admin.key" \
        --kubelet-certificate-authority "$keys/ca.crt" --kubelet-preferred-address-types InternalIP \
        --service-account-key-file "$keys/accounts.pub" --service-account-signing-key-file "$keys/accounts.key" \
        --service-account-issuer https://kubernetes.default.svc.cluster.local --service-cluster-ip-range "$SERVICES" \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
        --enable-priority-and-fairness=false --default-not-ready-toleration-seconds 5 --default-unreachable-toleration-seconds 5
    until_true answers "https://$CONTROL:6443/readyz"
}

start_controllers() {
    # With the default request limits, Jobs begin slowly.
    part manager kube-controller-manager --kubeconfig "$keys/manager.kubeconfig" --bind-address 127.0.0.1 \
        --authentication-kubeconfig "$keys/manager.kubeconfig" --authorization-kubeconfig "$keys/manager.kubeconfig" \
        --leader-elect=false --use-service-account-credentials --root-ca-file "$keys/ca.crt" \
        --service-account-private-key-file "$keys/accounts.key" --cluster-signing-cert-file "$keys/ca.crt" \
        --cluster-signing-key-file "$keys/ca.key" --node-monitor-period 1s --node-monitor-grace-period 20s --kube-api-qps 200 \
        --kube-api-burst 400
    part scheduler kube-scheduler --kubeconfig "$keys/scheduler.kubeconfig" --bind-address 127.0.0.1 --leader-elect=false \
        --authentication-kubeconfig "$keys/scheduler.kubeconfig" --authorization-kubeconfig "$keys/scheduler.kubeconfig"
}

# DNS runs here and not in a pod, so it needs no image and survives its node.
start_dns() {
    cat >"$directory/control/Corefile" <<CONFIG
.:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa {
        kubeconfig $keys/dns.kubeconfig
    }
    cache 5
}
CONFIG
    part dns coredns "$directory/control/Corefile"
}

drop_copies
mount -t proc proc /proc
hostname control
ip link set lo up
until_true ip link show eth0
ip address add "$CONTROL/24" dev eth0
ip link set eth0 up
until_true make_routes
mkdir -p "$directory/control"
start_etcd
start_api
start_controllers
start_dns
# The first process of a PID namespace must reap orphans.
while :; do wait -n || sleep 1; done
