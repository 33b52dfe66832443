#!/usr/bin/env bash
# A node of the test cluster: a container runtime, a kubelet and a proxy. It is the first process in namespaces of its own and has a root
# file system of its own, so that what pods leave on their node is in the cluster's directory. `cluster.sh` starts it.
#
# usage: node.sh DIRECTORY NUMBER PROGRAM RUNTIME IMAGES
set -euo pipefail
directory=$1 number=$2 program=$3 runtime=$4 images=$5
name=node$number root=$directory/node$number/root address=''
# The place in a node of the machine's files: the same in every cluster.
OPT=/opt/plumb-cluster
# shellcheck source-path=SCRIPTDIR source=addresses.sh
. "$(dirname "${BASH_SOURCE[0]}")/addresses.sh"

# Shows the node one of the machine's directories or files, read-only.
show() {
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
}

make_root() {
    local path
    mkdir -p "$root"/{dev,etc/cni/net.d,mnt,opt/cni/bin,proc,root,run,sys,tmp,usr,"$OPT"/{runtime,images,keys}} \
        "$root"/var/{lib/{kubelet,containerd,cni},log/{pods,containers,cluster},tmp}
    chmod 1777 "$root"/{tmp,var/tmp}
    ln -sfn /run "$root/var/run"
    mount --bind "$root" "$root"
    # On systems with a merged /usr, these are links into it.
    for path in /bin /sbin /lib*; do
        if [ -L "$path" ]; then
            ln -sfn "$(readlink "$path")" "$root$path"
        else
            mkdir -p "$root$path"
            show "$path" "$path"
        fi
    done
    for path in alternatives group ld.so.cache nsswitch.conf os-release passwd protocols services; do
        [ ! -e "/etc/$path" ] || cp -a "/etc/$path" "$root/etc"
    done
    echo "$name" >"$root/etc/hostname"
    printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >"$root/etc/hosts"
    echo "nameserver $CONTROL" >"$root/etc/resolv.conf"
    printf '%032d\n' "$number" >"$root/etc/machine-id"
    (
        umask 077
        cp "$directory/keys"/{ca.crt,"$name".crt,"$name".key,"$name".kubeconfig,proxy.kubeconfig} "$root$OPT/keys"
    )
    show /usr /usr
    show "$runtime" "$OPT/runtime"
    show "$images" "$OPT/images"
    touch "$root$OPT/kubernetes"
    show "$program" "$OPT/kubernetes"
    mount --bind "$directory/logs" "$root/var/log/cluster"
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t tmpfs -o mode=755 run "$root/run"
    mkdir -p "$root"/run/{containerd,lock,netns,settings}
}

mount_control_groups() {
    local kinds path=$root/sys/fs/cgroup
    mount -t tmpfs -o mode=755 cgroup "$path"
    while read -r kinds; do
        mkdir -p "$path/${kinds#name=}"
        mount -t cgroup -o "${kinds/#name=/none,name=}" cgroup "$path/${kinds#name=}"
        [[ $kinds != *,* ]] || (cd "$path" && for kind in ${kinds//,/ }; do ln -s "$kinds" "$kind"; done)
    done < <(sed -n 's/^[1-9][0-9]*:\([^:]*\):.*/\1/p' /proc/self/cgroup)
}

# The kubelet sets these for the whole machine unless they are set already. Bind-mounted files make them look
# set.
answer_settings() {
    local setting file
    for setting in kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxbytes=25000000 kernel/keys/root_maxkeys=1000000 \
        vm/overcommit_memory=1 vm/panic_on_oom=0; do
        file=/run/settings/${setting//[\/=]/-}
        echo "${setting#*=}" >"$root$file"
        mount --bind "$root$file" "$root/proc/sys/${setting%=*}"
    done
}

# Shares `/` within the node, so that mounts that CSI drivers make in their pods appear on the node.
enter_root() {
    cd "$root"
    pivot_root . mnt
    cd /
    umount --lazy /mnt
    mount --make-rshared /
}

make_network() {
    local other=$((3 - number))
    hostname "$name"
    ip link set lo up
    until_true ip link show eth0
    ip address add "$address/24" dev eth0
    ip link set eth0 up
    ip route add "$(node_pods "$other")" via "$(node_address "$other")"
    echo 1 >/proc/sys/net/ipv4/ip_forward
    cat >/etc/cni/net.d/10-test.conflist <<CONFIG
{ "cniVersion": "1.0.0", "name": "test", "plugins": [
    { "type": "ptp", "ipam": {
        "type": "host-local", "ranges": [[{ "subnet": "$(node_pods "$number")" }]], "routes": [{ "dst": "0.0.0.0/0" }] } } ] }
CONFIG
}

write_configs() {
    # Without CAP_SYS_RESOURCE, the kernel refuses a negative oom_score_adj.
    cat >"$OPT/containerd.toml" <<CONFIG
version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "plumb.test/plumb:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$OPT/runtime/usr/sbin/runc"
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$OPT/runtime/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
CONFIG
    cat >"$OPT/kubelet.yaml" <<CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: { anonymous: { enabled: false }, x509: { clientCAFile: $OPT/keys/ca.crt }, webhook: { enabled: true } }
authorization: { mode: Webhook }
tlsCertFile: $OPT/keys/$name.crt
tlsPrivateKeyFile: $OPT/keys/$name.key
clusterDomain: cluster.local
clusterDNS: [$DNS_SERVICE]
resolvConf: /etc/resolv.conf
evictionHard: { memory.available: 100Mi, nodefs.available: 100Mi, imagefs.available: 100Mi }
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 10
syncFrequency: 10s
CONFIG
    cat >"$OPT/proxy.yaml" <<CONFIG
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: $name
clientConnection: { kubeconfig: $OPT/keys/proxy.kubeconfig }
clusterCIDR: $PODS
conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s }
CONFIG
}

start_runtime() {
    local image
    containerd --config "$OPT/containerd.toml" >>"/var/log/cluster/$name-containerd" 2>&1 &
    until_true ctr version
    # The disk of a restarted node has them already.
    [ ! -e /var/lib/containerd/has-images ] || return 0
    for image in "$OPT"/images/*.tar; do ctr -n k8s.io images import "$image"; done
    touch /var/lib/containerd/has-images
}

start_kubelet() {
    "$OPT/kubernetes" kubelet --config "$OPT/kubelet.yaml" --kubeconfig "$OPT/keys/$name.kubeconfig" --hostname-override "$name" \
        --node-ip "$address" >>"/var/log/cluster/$name-kubelet" 2>&1 &
    echo $! >/run/kubelet.pid
}

address=$(node_address "$number")
drop_copies
make_root
mount_control_groups
answer_settings
enter_root
export PATH=$OPT/runtime/usr/bin:$PATH
make_network
write_configs
start_runtime
until_true answers "https://$CONTROL:6443/readyz"
start_kubelet
"$OPT/kubernetes" kube-proxy --config "$OPT/proxy.yaml" >>"/var/log/cluster/$name-proxy" 2>&1 &
# The first process of a PID namespace must reap orphans. A line in the pipe makes it start a killed kubelet
# again.
mkfifo /run/wanted
exec 3<>/run/wanted
while read -r _ <&3; do
    kill -0 "$(cat /run/kubelet.pid)" 2>/dev/null || start_kubelet
done
