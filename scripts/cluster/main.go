// Kubernetes, etcd and a DNS server as one program: the first argument says which of its parts runs.
//
// One program is linked once, and its parts share most of their code.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"google.golang.org/grpc"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": manager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kube-proxy":              proxy.NewProxyCommand,
	}
	if len(os.Args) < 2 {
		fail("usage: kubernetes coredns|csi-registrar|etcd|kubectl|kubelet|kube-apiserver|kube-controller-manager|kube-proxy|kube-scheduler …")
	}
	name := os.Args[1]
	os.Args = os.Args[1:]
	switch {
	case name == "coredns" && len(os.Args) == 2:
		serveNames(os.Args[1])
	case name == "csi-registrar" && len(os.Args) == 4:
		registerDriver(os.Args[1], os.Args[2], os.Args[3])
	case name == "etcd":
		etcdmain.Main(os.Args)
	case name == "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	case parts[name] != nil:
		os.Exit(cli.Run(parts[name]()))
	default:
		fail(fmt.Sprintf("kubernetes: there is no part %q", name))
	}
}

// registerDriver has the kubelet find a CSI driver, which it does by a socket in its registry. The driver of the tests cannot do it
// itself: the kubelet asks with its socket's path as the authority, which Rust's HTTP/2 library refuses.
func registerDriver(driver, socket, registry string) {
	path := filepath.Join(registry, driver+"-reg.sock")
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		fail(err.Error())
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, &registrar{driver: driver, socket: socket})
	if err := server.Serve(listener); err != nil {
		fail(err.Error())
	}
}

type registrar struct {
	registration.UnimplementedRegistrationServer
	driver, socket string
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	versions := []string{"1.0.0"}
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.socket, SupportedVersions: versions}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		fail(status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// serveNames runs CoreDNS with this Corefile. CoreDNS' own main program would link every plugin that there is.
func serveNames(file string) {
	contents, err := os.ReadFile(file)
	if err != nil {
		fail(err.Error())
	}
	server, err := caddy.Start(caddy.CaddyfileInput{Contents: contents, Filepath: file, ServerTypeName: "dns"})
	if err != nil {
		fail(err.Error())
	}
	server.Wait()
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}
