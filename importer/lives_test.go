//go:build !race

// This test counts bytes and objects of the heap, to which the race detector adds its own. To run it: make test-bounds.

package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// TestWhatLives bounds what an importer holds of each slice that it has imported, with its caches: docs/scale.md has the figures.
func TestWhatLives(t *testing.T) {
	const clusters, services, maxBytes, maxObjects = 40, 20, 7000, 70
	var before, after runtime.MemStats
	measure := func(m *runtime.MemStats) {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(m)
	}
	measure(&before)
	g := fleetOf(t, clusters, services)
	measure(&after)
	n := uint64(clusters * services)
	bytes, objects := (after.HeapAlloc-before.HeapAlloc)/n, (after.HeapObjects-before.HeapObjects)/n
	t.Logf("each of %d slices of ten endpoints takes %d bytes in %d objects", n, bytes, objects)
	if bytes > maxBytes || objects > maxObjects {
		t.Errorf("want no more than %d bytes in %d objects", maxBytes, maxObjects)
	}
	runtime.KeepAlive(g)
}

// fleetOf returns a rig that has imported the services of many clusters. Half of each cluster's are shared with nine others; every second one
// is headless. Objects are stored as a cache has them that decoded what an API server sent.
func fleetOf(t *testing.T, clusters, services int) *rig {
	g := newRig(Options{DataPath: desired.DataPathPods})
	for _, s := range []*shelf{g.hub, g.here} {
		s.transform = received
		for _, kind := range []client.Object{
			&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}, &discoveryv1.EndpointSlice{}, &corev1.Service{},
			&mcsv1beta1.ServiceImport{}, &fabedgev1alpha1.GlobalService{},
		} {
			if err := s.of(kind).AddIndexers(toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}); err != nil {
				t.Fatal(err)
			}
		}
	}
	each := func(put func(cluster, name string, kind mcsv1beta1.ServiceImportType, number int)) {
		for c := range clusters {
			for n := range services {
				name, kind := fmt.Sprintf("own-%d-%d", c, n), mcsv1beta1.ClusterSetIP
				if n < services/2 {
					name = fmt.Sprintf("shared-%d-%d", c/10, n)
				}
				if n%2 == 1 {
					kind = mcsv1beta1.Headless
				}
				put(fmt.Sprintf("cluster-%03d", c), name, kind, c)
			}
		}
	}
	labels := func(cluster, name string) map[string]string {
		return map[string]string{
			api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: cluster, api.LabelExportedNamespace: "shop", api.LabelExportedName: name,
		}
	}
	each(func(cluster, name string, kind mcsv1beta1.ServiceImportType, number int) {
		g.hub.put(memberAt(cluster, fmt.Sprint("zone-", number%5)))
		s := exportedBy(cluster, kind, number)
		s.Name, s.Spec.ServiceName, s.Labels = api.ExportedServiceName("shop", name), name, labels(cluster, name)
		g.hub.put(s)
	})
	each(func(cluster, name string, kind mcsv1beta1.ServiceImportType, number int) {
		e := endpointsOf(cluster, number, 0, 10)
		e.Name, e.Spec.ServiceName, e.Labels = api.ExportedEndpointsName("shop", name, name+"-abcde", 0), name, labels(cluster, name)
		for i := range e.Spec.Endpoints {
			if kind == mcsv1beta1.Headless {
				e.Spec.Endpoints[i].Hostname = new(fmt.Sprint("pod-", i))
			}
		}
		g.hub.put(e)
	})
	each(func(_, name string, _ mcsv1beta1.ServiceImportType, _ int) {
		g.imports(t, types.NamespacedName{Namespace: "shop", Name: name})
	})
	for _, kind := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
		delete(g.hub.kinds, reflect.TypeOf(kind)) // the store of the hub has only values
	}
	g.known.kept = slices.Collect(maps.Values(g.known.values))
	g.known.values = nil
	return g
}

// imports reconciles a service until there is nothing left to write.
func (g *rig) imports(t *testing.T, service types.NamespacedName) {
	t.Helper()
	for range 10 {
		g.here.writes = nil
		if _, err := g.Reconcile(context.Background(), reconcile.Request{NamespacedName: service}); err != nil {
			t.Fatal(err)
		}
		if len(g.here.writes) == 0 {
			g.here.bytes = 0
			return
		}
	}
	t.Fatalf("it doesn't come to an end: %v", g.here.writes)
}

// received returns an object as an API server's client decodes it.
func received(o client.Object) client.Object {
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "clusterset", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:ports":{},"f:endpoints":{}}}`)}})
	o.SetUID(types.UID(fmt.Sprintf("%036s", o.GetUID())))
	decoded := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	encoded, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(encoded, decoded)
	}
	if err != nil {
		panic(err)
	}
	return decoded
}
