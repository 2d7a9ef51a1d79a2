package fleet

import (
	"context"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// Binaries are the paths of both programs.
type Binaries struct {
	Clusterset, CoreDNS string
}

// Command is a command of the clusterset CLI, without this process's environment. It ends with this process, and with ctx.
func (b Binaries) Command(ctx context.Context, home string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.Clusterset, args...) //nolint:gosec // our own binary
	cmd.Env = bareEnvironment(home)
	cmd.SysProcAttr = WithoutOrphans()
	return cmd
}

// Cluster is an API server with administrator's access to it.
type Cluster struct {
	Name   string
	Plane  *kube.ControlPlane // nil before Launch
	Client client.Client

	dir string // the fleet's
}

// Launch starts the control plane. Its data and logs go to a folder of the cluster's name. The caller must call Stop, unless
// Launch fails.
func (c *Cluster) Launch(ctx context.Context, opts ...kube.Option) (err error) {
	if c.Plane, err = kube.Launch(ctx, filepath.Join(c.dir, c.Name), opts...); err != nil {
		return err
	}
	c.Client, err = client.New(c.Plane.Config(), client.Options{Scheme: scheme})
	return err
}

// Stop stops the control plane, if it was launched.
func (c *Cluster) Stop() {
	if c.Plane != nil {
		c.Plane.Stop()
	}
}

// scheme knows every kind that the processes of a fleet read and write.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clustersetv1alpha1.AddToScheme, fabedgev1alpha1.AddToScheme, mcsv1beta1.Install,
	} {
		utilruntime.Must(add(s))
	}
	return s
}()
