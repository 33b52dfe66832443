# shellcheck shell=bash disable=SC2154 # `cluster.sh` sets `directory`.
# The identities of the test cluster: one authority, a certificate for each part, and a kubeconfig for each
# client. `cluster.sh` reads this file. A kubeconfig includes its keys, so it can be copied.

# certificate NAME SUBJECT [SUBJECT_ALTERNATIVE_NAMES]
certificate() {
    openssl ecparam -genkey -name prime256v1 -noout -out "$1.key"
    openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" -extfile <(
        printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n'
        [ -z "${3:-}" ] || echo "subjectAltName=$3"
    ) 2>/dev/null
}

# client NAME SUBJECT [SUBJECT_ALTERNATIVE_NAMES]: a certificate and NAME.kubeconfig.
client() {
    certificate "$@"
    cat >"$1.kubeconfig" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{ name: test, cluster: { server: "https://$CONTROL:6443", certificate-authority-data: $(base64 -w0 ca.crt) } }]
users: [{ name: $1, user: { client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key") } }]
contexts: [{ name: test, context: { cluster: test, user: $1 } }]
current-context: test
CONFIG
}

make_keys() {
    (
        umask 077
        mkdir -p "$directory/keys"
        cd "$directory/keys" || exit
        openssl ecparam -genkey -name prime256v1 -noout -out ca.key
        openssl req -x509 -new -key ca.key -days 30 -subj /CN=plumb-test -out ca.crt \
            -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
        openssl ecparam -genkey -name prime256v1 -noout -out accounts.key
        openssl ec -in accounts.key -pubout -out accounts.pub 2>/dev/null
        certificate apiserver /CN=kube-apiserver \
            "IP:127.0.0.1,IP:$CONTROL,IP:$API_SERVICE,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
        client admin /O=system:masters/CN=admin
        client dns /O=system:masters/CN=dns
        client manager /CN=system:kube-controller-manager
        client scheduler /CN=system:kube-scheduler
        client proxy /CN=system:kube-proxy
        for number in 1 2; do
            client "node$number" "/O=system:nodes/CN=system:node:node$number" "DNS:node$number,IP:$NETWORK.0.$((10 + number))"
        done
    )
}
