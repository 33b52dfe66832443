// Kubernetes, etcd and a DNS server as one program: the first argument says which of its parts runs.
//
// One program is linked once, and its parts share most of their code.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
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
		fail("usage: kubernetes coredns|etcd|kubectl|kubelet|kube-apiserver|kube-controller-manager|kube-proxy|kube-scheduler …")
	}
	name := os.Args[1]
	os.Args = os.Args[1:]
	switch {
	case name == "coredns" && len(os.Args) == 2:
		serveNames(os.Args[1])
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
