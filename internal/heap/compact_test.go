package heap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	for k, o := range []any{slice, global, exported} {
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
	for _, o := range decoded(t, 1) {
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
	if compact*4 > whole*3 {
		t.Errorf("%d bytes decoded, %d compact: not a quarter less", whole, compact)
	}
}
