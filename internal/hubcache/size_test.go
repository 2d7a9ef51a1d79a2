package hubcache

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/packed"
)

// Rule C58 of docs/spec/control-plane.md counts records by sizeOfRecord. It may say too much, but not too little: a thief would take what isn't
// counted.
func TestSizeIsThatOfTheHeap(t *testing.T) {
	meta := func(i int) metav1.ObjectMeta {
		name := fmt.Sprintf("web-%d", i)
		return metav1.ObjectMeta{
			Namespace: api.MemberNamespace("thief"), Name: name + ".shop", UID: "0123456789abcdef0123456789abcdef0123", ResourceVersion: fmt.Sprint(100000 + i),
			Labels: map[string]string{
				api.LabelManagedBy: "exporter", api.LabelCluster: "thief", api.LabelExportedNamespace: "shop", api.LabelExportedName: name,
			},
		}
	}
	text := func(i int, words string) string { return strings.Clone(fmt.Sprintf("%d%s", i, words)) }
	endpoints := func(i, n, addresses, words int) *clustersetv1alpha1.ExportedEndpoints {
		o := &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: meta(i), Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: text(0, "shop"), ServiceName: text(i, "web"), AddressType: discoveryv1.AddressTypeIPv4,
		}}
		for j := range n {
			e := clustersetv1alpha1.Endpoint{}
			for k := range addresses {
				e.Addresses = append(e.Addresses, fmt.Sprintf("10.%d.%d.%d", k, i%250, j))
			}
			if words > 0 {
				host, zone := text(j, strings.Repeat("h", words)), text(j, strings.Repeat("z", words))
				e.Hostname, e.Zone = &host, &zone
			}
			o.Spec.Endpoints = append(o.Spec.Endpoints, e)
		}
		return o
	}
	service := func(i int, change func(*clustersetv1alpha1.ExportedServiceSpec)) *clustersetv1alpha1.ExportedService {
		o := &clustersetv1alpha1.ExportedService{ObjectMeta: meta(i), Spec: clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: text(0, "shop"), ServiceName: text(i, "web")}}
		change(&o.Spec)
		return o
	}
	for what, record := range map[string]func(i int) metav1.Object{
		"a plain service": func(i int) metav1.Object { return service(i, func(*clustersetv1alpha1.ExportedServiceSpec) {}) },
		"many ports": func(i int) metav1.Object {
			return service(i, func(s *clustersetv1alpha1.ExportedServiceSpec) {
				for j := range 100 {
					s.Ports = append(s.Ports, clustersetv1alpha1.ServicePort{Name: text(j, "port"), Port: int32(j + 1), Protocol: corev1.ProtocolTCP})
				}
			})
		},
		"many labels": func(i int) metav1.Object {
			return service(i, func(s *clustersetv1alpha1.ExportedServiceSpec) {
				s.ExportedLabels = map[string]string{}
				for j := range 64 {
					s.ExportedLabels[text(j, "example.com/label")] = text(j, "v")
				}
			})
		},
		"annotations": func(i int) metav1.Object {
			return service(i, func(s *clustersetv1alpha1.ExportedServiceSpec) {
				s.ExportedAnnotations = map[string]string{"example.com/note": text(i, strings.Repeat("x", 15<<10))}
			})
		},
		"no endpoint":           func(i int) metav1.Object { return endpoints(i, 0, 0, 0) },
		"ten endpoints":         func(i int) metav1.Object { return endpoints(i, 10, 1, 0) },
		"a hundred endpoints":   func(i int) metav1.Object { return endpoints(i, 100, 1, 0) },
		"many addresses":        func(i int) metav1.Object { return endpoints(i, 100, 4, 0) },
		"host names and zones":  func(i int) metav1.Object { return endpoints(i, 100, 1, 60) },
		"short names and zones": func(i int) metav1.Object { return endpoints(i, 100, 1, 1) },
	} {
		const n = 400
		store, counted := packed.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}), 0
		before := inUse()
		for i := range n {
			o := record(i)
			bound(o)
			if err := store.Add(o); err != nil {
				t.Fatal(err)
			}
			counted += sizeOfRecord(o)
		}
		took := int(inUse() - before)
		runtime.KeepAlive(store)
		t.Logf("%s: %d bytes of the heap, counted as %d", what, took/n, counted/n)
		if took > counted*9/8 { // allocations are rounded up
			t.Errorf("%s: takes %d bytes of the heap, and is counted as %d", what, took/n, counted/n)
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A List of a namespace costs nothing for the records of other clusters: each heartbeat makes two.
func TestAListOfANamespaceReadsNothingElse(t *testing.T) {
	k := newKind(nil, nil, schema.GroupVersionResource{}, &clustersetv1alpha1.ExportedService{})
	close(k.synced)
	c := &Cache{members: newKind(nil, nil, schema.GroupVersionResource{}, &clustersetv1alpha1.MemberCluster{}), records: []*kind{k}}
	add := func(cluster string, n int) {
		for i := range n {
			o := &clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: fmt.Sprint("web", i), ResourceVersion: "1"}}
			if err := k.store.Add(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("b", 10)
	list := func() {
		var found clustersetv1alpha1.ExportedServiceList
		err := c.List(t.Context(), &found, client.InNamespace(api.MemberNamespace("b")), client.UnsafeDisableDeepCopy)
		if err != nil || len(found.Items) != 10 {
			t.Fatalf("got %d records, want 10 (%v)", len(found.Items), err)
		}
	}
	alone := testing.AllocsPerRun(10, list)
	add("a", 1000)
	if among := testing.AllocsPerRun(10, list); among > alone+50 {
		t.Errorf("a list of a namespace takes %v allocations among a thousand other records, %v without them", among, alone)
	}
}
