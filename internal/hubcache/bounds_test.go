package hubcache

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/packed"
)

// largest returns the largest records that the CustomResourceDefinitions permit, about.
func largest() (*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpoints) {
	meta := metav1.ObjectMeta{
		Namespace: "clusterset-member-b", Name: "web.shop",
		Labels:      map[string]string{api.LabelCluster: "b", api.LabelManagedBy: api.ManagedByExporter, api.LabelExportedName: "web", api.LabelExportedNamespace: "shop", "team": "red"},
		Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-31T00:00:00Z", "note": "by a human"},
	}
	s := &clustersetv1alpha1.ExportedService{ObjectMeta: *meta.DeepCopy(), Spec: clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: "shop", ServiceName: "web", Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.NewTime(time.Unix(1.7e9, 0)),
		ExportedLabels: map[string]string{}, ExportedAnnotations: map[string]string{},
	}}
	e := &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: *meta.DeepCopy(), Spec: clustersetv1alpha1.ExportedEndpointsSpec{
		ServiceNamespace: "shop", ServiceName: "web", AddressType: discoveryv1.AddressTypeIPv6,
	}}
	e.Name += ".x-0"
	protocol, zone, host := strings.Repeat("a", 317), strings.Repeat("华", 63), strings.Repeat("h", 63)
	for i := range api.MaxPorts {
		name, number, target := fmt.Sprintf("%s%03d", host[:60], i), int32(i+1), intstr.FromString(host) //nolint:gosec // small
		s.Spec.Ports = append(s.Spec.Ports, clustersetv1alpha1.ServicePort{Name: name, Port: number, AppProtocol: &protocol, TargetPort: &target})
		e.Spec.Ports = append(e.Spec.Ports, clustersetv1alpha1.EndpointPort{Name: &name, Port: &number, AppProtocol: &protocol})
	}
	for i := range api.MaxExportedKeys {
		s.Spec.ExportedLabels[fmt.Sprintf("%s%03d", protocol[:314], i)] = host
		s.Spec.ExportedAnnotations[fmt.Sprintf("%03d", i)] = strings.Repeat("x", clustersetv1alpha1.MaxExportedAnnotationBytes/api.MaxExportedKeys-3)
		s.Spec.ExportTo = append(s.Spec.ExportTo, host)
	}
	for i := range api.MaxExportedEndpoints {
		endpoint := clustersetv1alpha1.Endpoint{Hostname: &host, Zone: &zone}
		for j := range api.MaxExportedAddresses {
			endpoint.Addresses = append(endpoint.Addresses, fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%02x%02x", i, j))
		}
		e.Spec.Endpoints = append(e.Spec.Endpoints, endpoint)
	}
	return s, e
}

func TestRecordsWithinTheBoundsAreKept(t *testing.T) {
	s, e := largest()
	for _, o := range []client.Object{s, e} {
		got := o.DeepCopyObject()
		bound(got)
		if !equality.Semantic.DeepEqual(got, o) {
			t.Errorf("%T is changed", o)
		}
	}
}

// Of endpoints that can't be imported, a cache keeps a few. Rule C53 of docs/spec/control-plane.md.
func TestFewUselessEndpointsAreKept(t *testing.T) {
	addresses := func(all ...string) *clustersetv1alpha1.ExportedEndpoints {
		e := &clustersetv1alpha1.ExportedEndpoints{Spec: clustersetv1alpha1.ExportedEndpointsSpec{AddressType: discoveryv1.AddressTypeIPv6}}
		for _, a := range all {
			e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: strings.Fields(a)})
		}
		return e
	}
	useless := slices.Repeat([]string{"10.0.0.1", "::ffff:10.0.0.1", "a:b", "fe80::1"}, maxUseless/4)
	for _, test := range []struct{ is, want []string }{
		{[]string{"fd00::1", "10.0.0.2 fd00::2"}, []string{"fd00::1", "10.0.0.2 fd00::2"}},
		{useless, useless},
		{slices.Concat(useless, useless), useless},
		{slices.Concat(useless, []string{"fd00::1", "10.0.0.1", "10.0.0.2 fd00::2"}, useless), slices.Concat(useless, []string{"fd00::1", "10.0.0.2 fd00::2"})},
	} {
		got := addresses(test.is...)
		bound(got)
		if !equality.Semantic.DeepEqual(got, addresses(test.want...)) {
			t.Errorf("of %q: got %+v, want %q", test.is, got, test.want)
		}
	}
}

// Rule C58 of docs/spec/control-plane.md.
func TestRecordsOfNoUseCountMore(t *testing.T) {
	size := func(addresses ...string) int {
		e := &clustersetv1alpha1.ExportedEndpoints{Spec: clustersetv1alpha1.ExportedEndpointsSpec{AddressType: discoveryv1.AddressTypeIPv4}}
		for _, a := range addresses {
			e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{a}})
		}
		return sizeOfRecord(e)
	}
	if useful, useless := size("10.0.0.1", "fd00::1"), size("fd00::1", "fd00::2"); useless < 30*useful {
		t.Errorf("a useful record counts %d, a useless one %d", useful, useless)
	}
	if none, one := size(), size("10.0.0.1"); none > one {
		t.Errorf("a record without endpoints counts %d, one with an endpoint %d", none, one)
	}
}

// An endpoint counts for each EndpointSlice that it may be in for the sake of another port. Rules D25 of docs/spec/data-path.md and C58.
func TestPortsCountForEachEndpoint(t *testing.T) {
	size := func(endpoints, ports int) int {
		e := &clustersetv1alpha1.ExportedEndpoints{Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			AddressType: discoveryv1.AddressTypeIPv4, Ports: make([]clustersetv1alpha1.EndpointPort, ports),
		}}
		for range endpoints {
			e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{"10.0.0.1"}})
		}
		return sizeOfRecord(e)
	}
	one := size(1, 0) - size(0, 0)
	for ports, want := range map[int]int{0: one, 1: one, 2: one + perPiece, 4: one + 3*perPiece, 5: one + 3*perPiece, 100: one + 3*perPiece} {
		if got := size(100, ports) - size(0, ports); got != 100*want {
			t.Errorf("with %d ports, 100 endpoints count %d, want %d", ports, got, 100*want)
		}
	}
}

// Whatever is in a record, a cache keeps little of it; and always who wrote it, and of which service it is. Rule
// C53 of docs/spec/control-plane.md.
func TestNobodysRecordsFillACache(t *testing.T) {
	long := strings.Repeat("x", 1200<<10)
	many := map[string]string{}
	for i := range 5000 {
		many[fmt.Sprint("example.com/", i)] = "x"
	}
	for name, change := range map[string]func(*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpoints){
		"exported annotations": func(s *clustersetv1alpha1.ExportedService, _ *clustersetv1alpha1.ExportedEndpoints) {
			s.Spec.ExportedAnnotations["a"] = long
		},
		"texts of endpoints": func(s *clustersetv1alpha1.ExportedService, e *clustersetv1alpha1.ExportedEndpoints) {
			s.Spec.Ports[0].AppProtocol, e.Spec.Endpoints[0].Zone, e.Spec.Ports[0].Name = &long, &long, &long
		},
		"many addresses": func(_ *clustersetv1alpha1.ExportedService, e *clustersetv1alpha1.ExportedEndpoints) {
			for i := range e.Spec.Endpoints {
				e.Spec.Endpoints[i].Addresses = strings.Fields(strings.Repeat("fd00::1 ", 500))
			}
		},
		"labels, annotations, owners and finalizers": func(s *clustersetv1alpha1.ExportedService, e *clustersetv1alpha1.ExportedEndpoints) {
			for _, o := range []client.Object{s, e} {
				maps.Copy(o.GetLabels(), many)
				maps.Copy(o.GetAnnotations(), map[string]string{"a": long, corev1.EndpointsLastChangeTriggerTime: long})
				o.SetFinalizers(strings.Fields(strings.Repeat("example.com/x ", 5000)))
				o.SetOwnerReferences([]metav1.OwnerReference{{Name: long}})
			}
		},
		"who manages what": func(s *clustersetv1alpha1.ExportedService, e *clustersetv1alpha1.ExportedEndpoints) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: metav1.NewFieldsV1(`{"f:` + long + `":{}}`)}}
			e.ManagedFields = s.ManagedFields
		},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 4
			store := packed.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil)
			before := live()
			for i := range n {
				for _, o := range hostile(t, change) {
					bound(o)
					o.SetName(fmt.Sprint(o.GetName(), i))
					if err := store.Add(o); err != nil {
						t.Fatal(err)
					}
				}
			}
			size := (live() - before) / n
			t.Logf("the two records take %d kB", size/1000)
			if size > 2*api.MaxRecord {
				t.Errorf("the two records take %d kB", size/1000)
			}
			for _, o := range store.List() {
				o := o.(client.Object)
				if o.GetLabels()[api.LabelCluster] != "b" || o.GetLabels()[api.LabelExportedName] != "web" {
					t.Fatalf("what is read is gone: %v, %d annotations", o.GetLabels(), len(o.GetAnnotations()))
				}
				if s, ok := o.(*clustersetv1alpha1.ExportedService); ok && (s.Spec.ServiceName != "web" || s.Spec.ServiceNamespace != "shop") {
					t.Fatal("nobody could tell of which service it is")
				}
			}
			runtime.KeepAlive(store)
		})
	}
}

// hostile returns the records as they are decoded.
func hostile(t *testing.T, change func(*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpoints)) []client.Object {
	t.Helper()
	s, e := largest()
	change(s, e)
	all := []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}}
	for i, o := range []client.Object{s, e} {
		content, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content, all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap is that large
}
