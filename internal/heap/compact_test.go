package heap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

func decoded(t *testing.T, i int) []any {
	t.Helper()
	labels := map[string]string{"multicluster.kubernetes.io/source-cluster": "beijing", "multicluster.kubernetes.io/service-name": "web"}
	managed := []metav1.ManagedFieldsEntry{{Manager: "clusterset-exporter", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
	of := metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Labels: labels, ManagedFields: managed}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: of}
	global := &fabedgev1alpha1.GlobalService{ObjectMeta: of}
	for j := range 10 {
		ready, zone := true, "beijing-a"
		address := fmt.Sprintf("10.1.%d.%d", i%250, j)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, Zone: &zone,
		})
		global.Spec.Endpoints = append(global.Spec.Endpoints, fabedgev1alpha1.Endpoint{
			Addresses: []string{address}, Cluster: "beijing", Zone: zone, Region: "north",
		})
	}
	exported := &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: of}
	exported.Spec.Endpoints = clustersetv1alpha1.EndpointsOf(slice.Endpoints)
	all := []any{&discoveryv1.EndpointSlice{}, &fabedgev1alpha1.GlobalService{}, &clustersetv1alpha1.ExportedEndpoints{}}
	return decodedAs(t, all, slice, global, exported)
}

// decodedAs encodes objects and decodes them into all.
func decodedAs(t *testing.T, all []any, objects ...any) []any {
	t.Helper()
	for k, o := range objects {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, all[k]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestCompactChangesNothingElse(t *testing.T) {
	for _, o := range append(decoded(t, 1), various(t)...) {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Compact(o)
		if err != nil {
			t.Fatal(err)
		}
		m := got.(metav1.Object)
		if m.GetManagedFields() != nil {
			t.Errorf("%T keeps its managed fields", o)
		}
		m.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "clusterset-exporter", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}})
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, again) {
			t.Errorf("%T was\n%s\nand is\n%s", o, b, again)
		}
	}
	nothing := &discoveryv1.EndpointSlice{}
	if got, err := Compact(nothing.DeepCopy()); err != nil || !equality.Semantic.DeepEqual(got, nothing) || got.(*discoveryv1.EndpointSlice).Endpoints != nil {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	if got, err := Compact("a tombstone"); err != nil || got != "a tombstone" {
		t.Errorf("of what is no object: %v, %v", got, err)
	}
}

// various returns objects with all that an object may have.
func various(t *testing.T) []any {
	t.Helper()
	of := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", GenerateName: "we", UID: "0123", ResourceVersion: "17", Labels: map[string]string{},
		Annotations: map[string]string{"a": "1", "b": "", "c": "33"}, Finalizers: []string{"example.com/f"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "4567", Controller: new(true)}, {Name: "other"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "clusterset-exporter", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
	}
	for i := range small + 1 {
		of.Labels[fmt.Sprint("label-", i)] = "x"
	}
	hints := func(zone string) *discoveryv1.EndpointHints {
		return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: of, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}, {Name: new(""), AppProtocol: new("h2c")}, {}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1", "10.0.0.2"}, Hostname: new("a"), Zone: new("z1"), NodeName: new("n1"), Hints: hints("z1"), Conditions: discoveryv1.EndpointConditions{Serving: new(false)}},
			{Addresses: []string{"10.0.0.3"}, Zone: new("z1"), Hints: hints("z1")},
			{Addresses: []string{}, Hostname: new("")},
			{Addresses: []string{"10.0.0.4"}, Zone: new("z1"), Hints: hints("z2")},
			{Addresses: []string{"10.0.0.5"}, Zone: new("z2")},
		},
	}
	record := &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: of, Spec: clustersetv1alpha1.ExportedEndpointsSpec{
		ServiceNamespace: "shop", ServiceName: "web", AddressType: discoveryv1.AddressTypeIPv4, Endpoints: clustersetv1alpha1.EndpointsOf(slice.Endpoints),
		Ports: []clustersetv1alpha1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolUDP), Port: new(int32(80))}},
	}}
	service := &clustersetv1alpha1.ExportedService{ObjectMeta: of, Spec: clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: "shop", ServiceName: "web", Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{"10.9.0.1", "fd00::1"},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, ExportTo: []string{"b"}, ExportedLabels: map[string]string{"team": "red"},
		Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: new("h2c")}, {Port: 81}},
	}}
	imported := &mcsv1beta1.ServiceImport{ObjectMeta: of, Spec: mcsv1beta1.ServiceImportSpec{
		Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.9.0.1"}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}, Status: mcsv1beta1.ServiceImportStatus{
		Clusters: []mcsv1beta1.ClusterStatus{{Cluster: "a"}, {Cluster: "b"}}, Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "all is well"}},
	}}
	global := &fabedgev1alpha1.GlobalService{ObjectMeta: of, Spec: fabedgev1alpha1.GlobalServiceSpec{
		Ports:     []fabedgev1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		Endpoints: []fabedgev1alpha1.Endpoint{{Addresses: []string{"10.0.0.1"}, Hostname: new("a"), Ready: new(false)}, {Cluster: "b"}},
	}}
	all := []any{&discoveryv1.EndpointSlice{}, &clustersetv1alpha1.ExportedEndpoints{}, &clustersetv1alpha1.ExportedService{}, &mcsv1beta1.ServiceImport{}, &fabedgev1alpha1.GlobalService{}}
	return decodedAs(t, all, slice, record, service, imported, global)
}

// Compact objects share labels and ports, and no version.
func TestCompactShares(t *testing.T) {
	var all []*discoveryv1.EndpointSlice
	for range 2 {
		o := decoded(t, 1)[0].(*discoveryv1.EndpointSlice)
		o.ResourceVersion, o.Ports = strings.Clone("1234"), []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}}
		if _, err := Compact(o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	a, b := all[0], all[1]
	if reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() || &a.Ports[0] != &b.Ports[0] {
		t.Error("equal labels and ports aren't shared")
	}
	if unsafe.StringData(a.ResourceVersion) == unsafe.StringData(b.ResourceVersion) {
		t.Error("two objects share the memory of their versions")
	}
	b.Endpoints[0].Addresses = append(b.Endpoints[0].Addresses, "10.9.9.9")
	if b.Endpoints[1].Addresses[0] == "10.9.9.9" {
		t.Error("a list that grows writes over the next one")
	}
	other := &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80)), Protocol: new(corev1.ProtocolUDP)}}}
	if _, err := Compact(other); err != nil || *other.Ports[0].Protocol != corev1.ProtocolUDP || a.Ports[0].Protocol != nil {
		t.Errorf("different ports became the same: %+v, %v", other.Ports, err)
	}
}

func TestCompactSaves(t *testing.T) {
	lives := func(transform func(any) (any, error)) (bytes uint64, kept []any) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 1000 {
			for _, o := range decoded(t, i) {
				o, err := transform(o)
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, o)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		return after.HeapAlloc - before.HeapAlloc, kept
	}
	whole, kept := lives(func(o any) (any, error) {
		o.(metav1.Object).SetManagedFields(nil)
		return o, nil
	})
	compact, less := lives(Compact)
	runtime.KeepAlive(kept)
	runtime.KeepAlive(less)
	t.Logf("3,000 objects of 10 endpoints: %d bytes decoded, %d compact", whole, compact)
	if compact*5 > whole*3 {
		t.Errorf("%d bytes decoded, %d compact: not two fifths less", whole, compact)
	}
}
