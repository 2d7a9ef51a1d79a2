package fleet

import (
	"context"
	"os/exec"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// Binaries are the paths of both programs.
type Binaries struct {
	Clusterset, CoreDNS string
}

// BinariesIn returns the paths of the binaries in a folder that [Build] has filled or will fill.
func BinariesIn(dir string) Binaries {
	return Binaries{Clusterset: filepath.Join(dir, "clusterset"), CoreDNS: filepath.Join(dir, "coredns")}
}

// Command returns a command of the clusterset CLI, without this process's environment. It ends when this process or ctx
// does.
func (b Binaries) Command(ctx context.Context, home string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.Clusterset, args...) //nolint:gosec // our own binary
	cmd.Env = bareEnvironment(home)
	cmd.SysProcAttr = process.WithoutOrphans()
	return cmd
}

// Cluster is an API server, with administrator's access to it.
type Cluster struct {
	Name   string
	Plane  *kube.ControlPlane // nil before Launch
	Client client.Client
	// Dir is the folder of the control plane's data and logs.
	Dir string
	// Address, if set, returns the URL at which a client reaches the API server. If nil, clients use the API server's own
	// URL.
	Address func(client string) (string, error)
}

// Launch starts the control plane. The caller must call Stop, unless Launch fails.
func (c *Cluster) Launch(ctx context.Context, opts ...kube.Option) (err error) {
	if c.Plane, err = kube.Launch(ctx, c.Dir, opts...); err != nil {
		return err
	}
	c.Client, err = client.New(c.Plane.Config(), client.Options{Scheme: Scheme})
	return err
}

// KubeconfigFor writes a kubeconfig for a program that acts as a user, and returns its path.
func (c *Cluster) KubeconfigFor(user string) (string, error) {
	path, err := c.Plane.KubeconfigFor(user)
	if err != nil || c.Address == nil {
		return path, err
	}
	address, err := c.Address(user)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", err
	}
	for _, server := range config.Clusters {
		server.Server = address
	}
	return path, clientcmd.WriteToFile(*config, path)
}

// Stop stops the control plane, if it was launched.
func (c *Cluster) Stop() {
	if c.Plane != nil {
		c.Plane.Stop()
	}
}

// Scheme knows every kind that the processes of a fleet read and write, and their definitions.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clustersetv1alpha1.AddToScheme, fabedgev1alpha1.AddToScheme, mcsv1beta1.Install,
	} {
		utilruntime.Must(add(s))
	}
	return s
}()
