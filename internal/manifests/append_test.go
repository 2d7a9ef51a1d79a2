package manifests

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/cases"
)

// checkAppend expects the output of Append to decode to the same object, without notes.
func checkAppend(t *testing.T, o index.Object) {
	t.Helper()
	line := Append(nil, o)
	if !json.Valid(line) {
		t.Fatalf("%+v is written as %s", o, line)
	}
	found, notes, err := DecodeJSON("line", line)
	if err != nil || len(notes) > 0 || len(found) != 1 {
		t.Fatalf("%s\nis read as %v, %v, %v", line, found, notes, err)
	}
	if !reflect.DeepEqual(found[0].Object, o) {
		t.Errorf("%s\nis read as\n%+v, want\n%+v", line, found[0].Object, o)
	}
}

// converted returns what the index keeps of the objects of its own tests.
func converted(t testing.TB) (all []index.Object) {
	t.Helper()
	for kind, object := range map[string]func(valid, change map[string]any) runtime.Object{
		"serviceimport": func(v, c map[string]any) runtime.Object { return cases.Object[mcsv1beta1.ServiceImport](t, v, c) },
		"endpointslice": func(v, c map[string]any) runtime.Object { return cases.Object[discoveryv1.EndpointSlice](t, v, c) },
		"globalservice": func(v, c map[string]any) runtime.Object { return cases.Object[fabedgev1alpha1.GlobalService](t, v, c) },
	} {
		table := cases.Read(t, "../index/testdata/cases/"+kind+".yaml")
		for _, c := range table.Cases {
			if o, _, _ := index.Convert(object(table.Valid, c.Change)); o != nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// If an API object converts to an object of the index, Append writes it as a manifest that converts to the same object.
func TestAppendIsTheInverseOfConversion(t *testing.T) {
	for _, o := range converted(t) {
		checkAppend(t, o)
	}
}

// If Append omitted a field of the index's objects, the field would be lost in a restart.
func TestAppendWritesEveryField(t *testing.T) {
	port, own := index.Port{Name: "dns", Number: 53, Protocol: index.UDP}, index.Port{Name: "dns", Number: 5353, Protocol: index.UDP}
	group := index.Group{Cluster: "c1", Ports: []index.Port{own}, Endpoints: []index.Endpoint{
		{Addr: netip.MustParseAddr("10.0.0.1"), Hostname: "a", Zone: "z1", Ready: true},
	}}
	regional := group
	regional.Region = "r1"
	stated := &topology.Policy{Prefer: []topology.Tier{topology.Zone, topology.Region}, Boundary: topology.Region, MinReady: 2, Shares: map[string]int{"c1": 50}}
	for _, o := range []index.Object{
		&index.ServiceImport{Service: "a.n", Ports: []index.Port{port}, IPs: index.Addrs{netip.MustParseAddr("10.0.0.1")}, Policy: stated},
		&index.ServiceImport{Service: "a.n", Headless: true, Ports: []index.Port{port}, Policy: &topology.Policy{Prefer: []topology.Tier{}}, FromImporter: true},
		&index.EndpointSlice{Namespace: "n", Name: "a-1", Service: "a.n", Group: group},
		&index.GlobalService{Service: "a.n", Headless: true, Ports: []index.Port{port}, Groups: []index.Group{regional}, Policy: stated},
		&index.Cluster{Name: "c1", Member: topology.Member{Zones: []string{"z1"}, Region: "r1", Phase: topology.Expired, Drain: true}, Weight: 50},
		&index.Cluster{Name: "c1", Member: topology.Member{Zones: []string{"z1", `华北 "2" \<`}, Region: "r1", Phase: topology.Suspect, Drain: true}, Weight: 50},
	} {
		checkAppend(t, o)
		for _, field := range zeroFields(reflect.ValueOf(o).Elem(), o.Kind().String()) {
			switch field {
			case "ServiceImport.Headless", "ServiceImport.IPs", "ServiceImport.FromImporter", "EndpointSlice.Group.Region", "MemberCluster.Member.Unreachable": // set in the other object, or never set
			default:
				t.Errorf("%s is not tested: set it here, to something that Convert makes of an API object", field)
			}
		}
	}
}

func zeroFields(v reflect.Value, name string) (zero []string) {
	switch {
	case v.IsZero():
		return []string{name}
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[netip.Addr]():
		for i := range v.NumField() {
			zero = append(zero, zeroFields(v.Field(i), name+"."+v.Type().Field(i).Name)...)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			zero = append(zero, zeroFields(v.Index(i), name)...)
		}
	}
	return zero
}

// The largest GlobalService that can be read is written so that all of it can be read again. Endpoints with several
// addresses stay single endpoints.
func TestAppendKeepsWithinTheLimits(t *testing.T) {
	for _, hostname := range []string{"", "same"} {
		o := &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
		for i := range api.MaxGlobalServiceEndpoints {
			e := fabedgev1alpha1.Endpoint{Hostname: &hostname, Cluster: "c1"}
			for j := range 3 + i%5 {
				e.Addresses = append(e.Addresses, fmt.Sprintf("10.%d.%d.%d", j, i/256, i%200)) // neighbours share some addresses
			}
			o.Spec.Endpoints = append(o.Spec.Endpoints, e)
		}
		object, errs, _ := index.Convert(o)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		checkAppend(t, object)
	}
	full := &index.EndpointSlice{Namespace: "n", Name: "a-1", Service: "a.n", Group: index.Group{Endpoints: []index.Endpoint{}}}
	for i := range 1000 {
		full.Endpoints = append(full.Endpoints, index.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Ready: true})
	}
	checkAppend(t, full)
}

// A server calls Append for hundreds of thousands of objects at a time, and repeatedly.
func TestAppendLeavesNoGarbage(t *testing.T) {
	objects := converted(t)
	line := make([]byte, 0, 1<<16)
	allocs := testing.AllocsPerRun(10, func() {
		for _, o := range objects {
			line = Append(line[:0], o)
		}
	})
	if each := allocs / float64(len(objects)); each > 8 { // for values that need quoting; the race detector adds some
		t.Errorf("%v allocations for each object", each)
	}
}

// FuzzAppend appends the objects that it decodes.
func FuzzAppend(f *testing.F) {
	f.Add([]byte(first))
	for _, o := range converted(f) {
		f.Add(Append(nil, o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, _, err := Decode("a.yaml", data)
		if err != nil {
			return
		}
		for _, l := range found {
			if _, verdicts := l.Object.(*index.Reachability); !verdicts { // they aren't stored (A55)
				checkAppend(t, l.Object)
			}
		}
	})
}
