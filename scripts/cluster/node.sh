#!/usr/bin/env bash
# A node of the test cluster: a container runtime, a kubelet and a proxy in namespaces of their own. `cluster.sh` starts it.
#
# usage: node.sh enter DIRECTORY NUMBER PROGRAM RUNTIME IMAGES
set -euo pipefail
command=$1 directory=$2 number=$3 program=$4 runtime=$5 images=$6
name=node$number home=$directory/node$number logs=$directory/logs
# The host's directories where a node's own lie over. The empty ones that are made for that are all that stays on the host.
OWN=(/var/lib/kubelet /var/lib/containerd /var/lib/cni /var/log/pods /var/log/containers /etc/cni /opt/cni)

enter() {
    local group
    for group in /sys/fs/cgroup/*/"plumb-$name"; do echo $$ >"$group/cgroup.procs"; done
    mkdir -p "${OWN[@]}"
    exec unshare --mount --net --uts --ipc --pid --fork --cgroup --kill-child=KILL --propagation private \
        bash "$0" inside "$directory" "$number" "$program" "$runtime" "$images"
}

mount_all() {
    local group setting
    mount --make-rprivate /
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    for group in cpu cpuacct cpuset memory devices freezer blkio pids; do
        mkdir "/sys/fs/cgroup/$group"
        mount -t cgroup -o "$group" cgroup "/sys/fs/cgroup/$group"
    done
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
    # The kubelet insists on settings of the whole machine: show it files that say so.
    mkdir -p "$home/sysctl"
    for setting in kernel/panic=10 kernel/panic_on_oops=1 vm/overcommit_memory=1; do
        echo "${setting#*=}" >"$home/sysctl/${setting//[\/=]/_}"
        mount --bind "$home/sysctl/${setting//[\/=]/_}" "/proc/sys/${setting%=*}"
    done
    mount -t tmpfs -o mode=755 run /run
    mkdir -p /run/netns /run/containerd /run/lock
    for group in "${OWN[@]}"; do
        mkdir -p "$home$group"
        mount --bind "$home$group" "$group"
    done
    mount --make-rshared /
}

make_network() {
    hostname "$name"
    ip link set lo up
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
    ip address add "10.88.0.1$number/24" dev eth0
    ip link set eth0 up
    ip route add default via 10.88.0.1
    ip route add "10.244.$((3 - number)).0/24" via "10.88.0.1$((3 - number))"
    sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.forwarding=1
    mkdir -p /etc/cni/net.d
    cat >/etc/cni/net.d/10-test.conflist <<CONFIG
{ "cniVersion": "1.0.0", "name": "test", "plugins": [
    { "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {
        "type": "host-local", "ranges": [[{ "subnet": "10.244.$number.0/24" }]], "routes": [{ "dst": "0.0.0.0/0" }] } },
    { "type": "portmap", "capabilities": { "portMappings": true } } ] }
CONFIG
}

write_configs() {
    # Without CAP_SYS_RESOURCE a negative oom_score_adj is refused.
    cat >"$home/containerd.toml" <<CONFIG
version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "plumb.test/plumb:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$runtime/usr/sbin/runc"
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$runtime/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
CONFIG
    cat >"$home/kubelet.yaml" <<CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: { anonymous: { enabled: false }, x509: { clientCAFile: $directory/keys/ca.crt }, webhook: { enabled: true } }
authorization: { mode: Webhook }
tlsCertFile: $directory/keys/$name.crt
tlsPrivateKeyFile: $directory/keys/$name.key
resolvConf: /etc/resolv.conf
evictionHard: { memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%" }
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 10
syncFrequency: 10s
CONFIG
    cat >"$home/proxy.yaml" <<CONFIG
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: $name
clientConnection: { kubeconfig: $directory/proxy.kubeconfig }
clusterCIDR: 10.244.0.0/16
conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s }
CONFIG
}

start_kubelet() {
    "$program" kubelet --config "$home/kubelet.yaml" --kubeconfig "$directory/$name.kubeconfig" --hostname-override "$name" \
        --node-ip "10.88.0.1$number" >>"$logs/$name-kubelet" 2>&1 &
    echo $! >/run/kubelet.pid
}

inside() {
    export PATH=$runtime/usr/bin:$PATH
    local image
    mount_all
    make_network
    write_configs
    containerd --config "$home/containerd.toml" >>"$logs/$name-containerd" 2>&1 &
    until ctr version >/dev/null 2>&1; do sleep 0.1; done
    for image in "$images"/*.tar; do ctr -n k8s.io images import "$image"; done
    start_kubelet
    "$program" kube-proxy --config "$home/proxy.yaml" >>"$logs/$name-proxy" 2>&1 &
    # This is the first process here, so it buries orphans, and starts a kubelet again that somebody killed.
    while :; do
        if [ -e /run/kubelet.wanted ]; then
            rm /run/kubelet.wanted
            start_kubelet
        fi
        sleep 0.2
    done
}

"$command"
