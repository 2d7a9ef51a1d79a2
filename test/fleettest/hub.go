package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// Hub is the hub: a bare API server, with the process that watches heartbeats beside it.
type Hub struct {
	Cluster
	*fleet.Metrics // of the process
	Process        *fleet.Program
	Base           *fleet.Hub
	// Options are additional options of the API server and its etcd.
	Options []kube.Option
}

func newHub(base *fleet.Hub) *Hub {
	return &Hub{Cluster: Cluster{Cluster: &base.Cluster}, Metrics: &base.Metrics, Process: base.Process, Base: base}
}

// hubReleaseEnv names the Kubernetes release of hubs, if it differs from the members' release (CLUSTERSET_KUBE_RELEASE).
const hubReleaseEnv = "CLUSTERSET_HUB_RELEASE"

func (h *Hub) launch(ctx context.Context) error {
	release := kube.WithRelease(kube.Release(os.Getenv(hubReleaseEnv)))
	return h.Launch(ctx, append([]kube.Option{release}, h.Options...)...)
}

// Prepare installs the CRDs and rights that a hub needs.
func (h *Hub) Prepare(ctx context.Context) error {
	if err := join.InstallHubCRDs(ctx, join.At(h.Plane.Config())); err != nil {
		return err
	}
	namespace := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + api.SystemNamespace + "}}")
	return h.Plane.ApplyContext(ctx, namespace, fleet.Rights("hub"), fleet.Rights("hub-leader"))
}

// For returns the hub for a test.
func (h *Hub) For(t testing.TB) *Hub {
	mine := *h
	mine.TB = t
	return &mine
}

// Restart restarts the hub process with other flags, as kubectl rollout restart would.
func (h *Hub) Restart(flags ...string) {
	h.Helper()
	running := h.Process.Running()
	if code := h.Process.Stop(); running && code != 0 {
		h.Errorf("hub: exit code %d\n%s", code, process.LogSince(h.Process.Log, 0, 20))
	}
	h.Start(flags...)
}

// Kill kills the hub process.
func (h *Hub) Kill() { h.Process.Kill() }

// Start starts the hub process, with flags.
func (h *Hub) Start(flags ...string) {
	h.Helper()
	h.Base.Flags = flags
	if err := h.Process.Start(context.Background()); err != nil {
		h.Fatal(err)
	}
}

// BackUp stops the hub's etcd, copies it, starts it again, and returns a function that restores the copy. prepare may change
// the copy before the API server starts on it.
func (h *Hub) BackUp() (restore func(prepare func())) {
	h.Helper()
	data, copied := filepath.Join(h.Dir, "etcd"), filepath.Join(h.TempDir(), "etcd")
	stopped := func(do, prepare func()) {
		h.Helper()
		h.Plane.StopAPIServer()
		h.Plane.StopEtcd()
		do()
		if err := h.Plane.StartEtcd(context.Background()); err != nil {
			h.Fatal(err)
		}
		prepare()
		h.StartAPIServer()
	}
	check := func(err error) {
		h.Helper()
		if err != nil {
			h.Fatal(err)
		}
	}
	stopped(func() { check(os.CopyFS(copied, os.DirFS(data))) }, func() {})
	return func(prepare func()) {
		h.Helper()
		stopped(func() { check(errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(copied)))) }, prepare)
	}
}

// Records returns the names of a member's records on the hub, of both kinds, without those that are withdrawn.
func (h *Hub) Records(member string) (names []string, err error) {
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	in := client.InNamespace(api.MemberNamespace(member))
	err = errors.Join(h.List(&services, in), h.List(&endpoints, in))
	for i := range services.Items {
		if services.Items[i].Exports() {
			names = append(names, services.Items[i].Name)
		}
	}
	for i := range endpoints.Items {
		names = append(names, endpoints.Items[i].Name)
	}
	return names, err
}

// Recorded returns nil if the hub has records of the member's service and want is true, or has none and want is false.
func (f *Fleet) Recorded(member, ns, service string, want bool) error {
	names, err := f.Hub.Records(member)
	if err != nil {
		return err
	}
	has := slices.ContainsFunc(names, func(n string) bool {
		return n == api.ExportedServiceName(ns, service) || strings.HasPrefix(n, api.ExportedServiceName(ns, service)+".")
	})
	if has != want {
		return fmt.Errorf("%s has records of %s/%s on the hub: %v", member, ns, service, has)
	}
	return nil
}
