package exporter_test

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/kube"
)

// world is a hub and one member, beijing. Its exporter has only the credentials that join gave it.
type world struct {
	*testing.T
	hub, member *kube.ControlPlane
	onHub       client.Client
	here        client.Client
	kubeconfig  []byte
}

func newWorld(t *testing.T, mcsCRDs ...[]byte) *world {
	t.Helper()
	t.Parallel()
	planes := kube.StartAll(t, nil, nil)
	w := &world{T: t, hub: planes[0], member: planes[1]}
	w.member.Apply(t, mcsCRDs...)
	if err := join.InstallHubCRDs(t.Context(), join.At(w.hub.Config())); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.kubeconfig, err = join.Join(t.Context(), join.At(w.hub.Config()), join.Options{Cluster: "beijing"}); err != nil {
		t.Fatal(err)
	}
	if w.onHub, err = connect.NewClient(w.hub.Config()); err != nil {
		t.Fatal(err)
	}
	scheme := connect.NewScheme()
	if err := mcs.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if w.here, err = client.New(w.member.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	w.member.Apply(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"))
	return w
}

// run runs the exporter until stop is called or the test ends.
func (w *world) run() (stop func()) {
	w.Helper()
	mgr, err := manager.New(w.member.Config(), manager.Options{Scheme: w.here.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		w.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(w.kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	hub, err := connect.NewHub(config, store.Options{Cluster: "beijing"})
	if err != nil {
		w.Fatal(err)
	}
	known := nodes.New()
	known.Set(context.Background(), nodes.Node{Name: "n", At: topology.Location{Zone: "b"}}, nodes.Node{Name: "o", At: topology.Location{Zone: "a"}})
	_, err = exporter.Setup(mgr, hub, exporter.Options{Cluster: "beijing", HeartbeatInterval: time.Second, Version: "v1.2.3", Nodes: known})
	if err != nil {
		w.Fatal(err)
	}
	if err := mgr.Add(manager.RunnableFunc(hub.Store.Start)); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("exporter: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

//go:embed testdata/service.txt
var webService string

// noFinalizers is a policy that admits no finalizers on records.
//
//go:embed testdata/no-finalizers.yaml
var noFinalizers []byte

const webExport = `{apiVersion: multicluster.x-k8s.io/%[2]s, kind: ServiceExport, metadata: {namespace: shop, name: %[1]s}}`

func manifest(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }

// named returns the key of web, in namespace shop, or of other/web.
func named(name string) types.NamespacedName {
	if namespace, name, other := strings.Cut(name, "/"); other {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// awaitRecords waits until the hub has that many endpoints for the service. -1 means that it isn't exported.
func (w *world) awaitRecords(name string, endpoints int) {
	w.Helper()
	kube.Eventually(w, func() error {
		got := -1
		var service clustersetv1alpha1.ExportedService
		err := w.onHub.Get(w.Context(), types.NamespacedName{Namespace: "clusterset-member-beijing", Name: name + ".shop"}, &service)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && service.Exports() {
			got = 0
		}
		var list clustersetv1alpha1.ExportedEndpointsList
		if err := w.onHub.List(w.Context(), &list, client.MatchingLabels{api.LabelExportedName: name}); err != nil {
			return err
		}
		for _, e := range list.Items {
			got += len(e.Spec.Endpoints)
		}
		if got != endpoints {
			return fmt.Errorf("%d endpoints of %s on the hub, want %d", got, name, endpoints)
		}
		return nil
	})
}

// awaitCondition waits until the ServiceExport has all of these conditions, each given as "Type=Status/Reason".
func (w *world) awaitCondition(name string, want ...string) {
	w.Helper()
	kube.Eventually(w, func() error {
		export := &mcsv1beta1.ServiceExport{}
		if err := w.here.Get(w.Context(), named(name), export); err != nil {
			return err
		}
		for _, c := range want {
			kind, rest, _ := strings.Cut(c, "=")
			got := meta.FindStatusCondition(export.Status.Conditions, kind)
			if got == nil || string(got.Status)+"/"+got.Reason != rest {
				return fmt.Errorf("%s: want %s, got %+v", name, c, export.Status.Conditions)
			}
		}
		return nil
	})
}

func (w *world) lease() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, w.onHub.Get(w.Context(), types.NamespacedName{Namespace: "clusterset-member-beijing", Name: api.HeartbeatLease}, lease)
}

func (w *world) report() (*clustersetv1alpha1.MemberReport, error) {
	report := &clustersetv1alpha1.MemberReport{}
	key := types.NamespacedName{Namespace: "clusterset-member-beijing", Name: clustersetv1alpha1.MemberReportName}
	return report, w.onHub.Get(w.Context(), key, report)
}
