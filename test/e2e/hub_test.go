package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/join"
	testfleet "github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// cluster is an API server and the test's own unrestricted access to it.
type cluster struct {
	testing.TB // nil while the fleet is launched
	*testfleet.Cluster
}

// Name is the test's. The cluster has one too.
func (c *cluster) Name() string { return c.TB.Name() }

// apply applies manifests, each of one or many documents. Like the methods below it also works in a cleanup, when the test's
// context has ended.
func (c *cluster) apply(manifests ...string) {
	c.Helper()
	if err := c.Plane.ApplyContext(context.Background(), documents(manifests)); err != nil {
		c.Fatal(err)
	}
}

// remove deletes the objects that manifests name.
func (c *cluster) remove(manifests ...string) {
	c.Helper()
	if err := c.Plane.DeleteContext(context.Background(), documents(manifests)); err != nil {
		c.Fatal(err)
	}
}

// startAPIServer starts the API server again after plane.StopAPIServer or plane.KillAPIServer, on the same port.
func (c *cluster) startAPIServer() {
	c.Helper()
	if err := c.Plane.StartAPIServer(context.Background()); err != nil {
		c.Fatal(err)
	}
}

// get reads an object with the admin's rights.
func (c *cluster) get(namespace, name string, into client.Object) error {
	err := c.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, into)
	if err != nil {
		return fmt.Errorf("get %T %s/%s: %w", into, namespace, name, err)
	}
	return nil
}

// list reads objects with the admin's rights. It returns an error for kube.Eventually if that fails.
func (c *cluster) list(into client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(context.Background(), into, opts...); err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	return nil
}

// phaseIs returns nil if the MemberCluster, on the hub or its mirror, has that phase.
func (c *cluster) phaseIs(name string, want clustersetv1alpha1.MemberClusterPhase) error {
	var mc clustersetv1alpha1.MemberCluster
	if err := c.get("", name, &mc); err != nil {
		return err
	}
	if mc.Status.Phase != want {
		return fmt.Errorf("%s is %q at %s, want %q", name, mc.Status.Phase, c.Cluster.Name, want)
	}
	return nil
}

// hub is the hub: a bare API server, and beside it the process that watches heartbeats.
type hub struct {
	cluster
	*testfleet.Metrics // of the process
	process            *program
	base               *testfleet.Hub
	// options of the API server and its etcd.
	options []kube.Option
}

func newHub(base *testfleet.Hub) *hub {
	return &hub{cluster: cluster{Cluster: &base.Cluster}, Metrics: &base.Metrics, process: base.Process, base: base}
}

// hubReleaseEnv names the release of Kubernetes that hubs run, if it isn't that of the members (CLUSTERSET_KUBE_RELEASE).
const hubReleaseEnv = "CLUSTERSET_HUB_RELEASE"

func (h *hub) launch(ctx context.Context) error {
	release := kube.WithRelease(kube.Release(os.Getenv(hubReleaseEnv)))
	return h.Launch(ctx, append([]kube.Option{release}, h.options...)...)
}

// prepare installs the CRDs and rights that a hub needs.
func (h *hub) prepare(ctx context.Context) error {
	if err := join.InstallHubCRDs(ctx, h.Plane.Config()); err != nil {
		return err
	}
	return h.Plane.ApplyContext(ctx, rights("hub"))
}

func (h *hub) of(t testing.TB) *hub {
	mine := *h
	mine.TB = t
	return &mine
}

// restart restarts the hub process as kubectl rollout restart would, with other flags.
func (h *hub) restart(flags ...string) {
	h.Helper()
	running := h.process.Running()
	if code := h.process.Stop(); running && code != 0 {
		h.Errorf("hub: exit code %d\n%s", code, process.LogSince(h.process.Log, 0, 20))
	}
	h.start(flags...)
}

// kill kills the hub process.
func (h *hub) kill() { h.process.Kill() }

// start starts the hub process, with flags.
func (h *hub) start(flags ...string) {
	h.Helper()
	h.base.Flags = flags
	if err := h.process.Start(context.Background()); err != nil {
		h.Fatal(err)
	}
}

// records returns the names of a member's records on the hub, of both kinds.
func (h *hub) records(member string) (names []string, err error) {
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	in := client.InNamespace(api.MemberNamespace(member))
	err = errors.Join(h.list(&services, in), h.list(&endpoints, in))
	for i := range services.Items {
		names = append(names, services.Items[i].Name)
	}
	for i := range endpoints.Items {
		names = append(names, endpoints.Items[i].Name)
	}
	return names, err
}

// condition returns a condition of a MemberCluster, or nil.
func condition(conditions []metav1.Condition, name string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == name {
			return &conditions[i]
		}
	}
	return nil
}
