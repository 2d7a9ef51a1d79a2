package manifests

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
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

// chance picks from a few values, so that all combinations occur, including values that are rejected or converted to lower
// case.
type chance struct{ *rand.Rand }

func pick[T any](c chance, from ...T) T { return from[c.IntN(len(from))] }

func (c chance) text(from ...string) *string {
	if s := pick(c, from...); s != "" {
		return &s
	}
	return nil
}

func (c chance) addresses() []string {
	var all []string
	for range c.IntN(5) {
		all = append(all, pick(c, "10.0.0.1", "10.0.0.2", "fd00::1", "::ffff:10.0.0.3", "127.0.0.1", "x"))
	}
	return all
}

func (c chance) object() runtime.Object {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: pick(c, "web", "db-0")}
	location := func() string { return pick(c, "", "z1", "华北", `a "b" \<`, " ", "tab\t") }
	cluster := func() string { return pick(c, "", "c1", "C2", "a.b", "-") }
	ready := func() *bool { return pick(c, nil, ptr(true), ptr(false)) }
	protocol := func() corev1.Protocol {
		return pick(c, "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP, "X")
	}
	name := func() string { return pick(c, "", "http", "DNS", "-") }
	number := func() int32 { return pick[int32](c, 0, 80, 8080, 65535, 70000) }
	switch c.IntN(4) {
	case 0:
		o := &mcsv1beta1.ServiceImport{ObjectMeta: meta}
		o.Labels = pick(c, nil, map[string]string{api.LabelManagedBy: api.ManagedByImporter})
		o.Spec.Type = pick(c, mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless)
		o.Spec.IPs = c.addresses()
		for range c.IntN(4) {
			o.Spec.Ports = append(o.Spec.Ports, mcsv1beta1.ServicePort{Name: name(), Protocol: protocol(), Port: number()})
		}
		return o
	case 1:
		o := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: pick(c, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)}
		o.Labels = map[string]string{mcsv1beta1.LabelServiceName: "web", mcsv1beta1.LabelSourceCluster: cluster()}
		for range c.IntN(4) {
			o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: ptr(name()), Protocol: ptr(protocol()), Port: ptr(number())})
		}
		for range c.IntN(6) {
			o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
				Addresses: c.addresses(), Hostname: c.text("", "a", "B", "-"), Zone: ptr(location()),
				Conditions: discoveryv1.EndpointConditions{Ready: ready()},
			})
		}
		return o
	case 2:
		o := &fabedgev1alpha1.GlobalService{ObjectMeta: meta}
		o.Spec.Type = pick(c, "", fabedgev1alpha1.ClusterIP, fabedgev1alpha1.Headless)
		for range c.IntN(4) {
			o.Spec.Ports = append(o.Spec.Ports, fabedgev1alpha1.ServicePort{Name: name(), Protocol: protocol(), Port: number()})
		}
		for range c.IntN(8) {
			e := fabedgev1alpha1.Endpoint{
				Addresses: c.addresses(), Hostname: c.text("", "", "a", "B"), Cluster: cluster(), Zone: location(), Region: location(), Ready: ready(),
			}
			for range max(0, c.IntN(4)-2) {
				e.Ports = append(e.Ports, fabedgev1alpha1.EndpointPort{Name: name(), Protocol: protocol(), Port: number()})
			}
			o.Spec.Endpoints = append(o.Spec.Endpoints, e)
		}
		return o
	default:
		o := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: pick(c, "c1", "C2", "a.b")}}
		o.Spec.Zone, o.Spec.Region, o.Spec.Drain = location(), location(), c.IntN(2) > 0
		o.Spec.Weight = pick(c, nil, ptr(int32(1)), ptr(int32(50)), ptr(int32(100)), ptr(int32(0)))
		for range max(0, c.IntN(6)-3) {
			o.Spec.Zones = append(o.Spec.Zones, pick(c, "z1", "z2", ""))
		}
		o.Status.Phase = pick(c, "", clustersetv1alpha1.MemberReady, clustersetv1alpha1.MemberSuspect, clustersetv1alpha1.MemberExpired)
		return o
	}
}

func ptr[T any](v T) *T { return &v }

// If an API object converts to an object of the index, Append writes it as a manifest that converts to the same object.
func TestAppendIsTheInverseOfConversion(t *testing.T) {
	for seed := range uint64(3000) {
		o := chance{rand.New(rand.NewPCG(seed, 1))}.object()
		object, _, _ := index.Convert(o)
		if object == nil {
			continue
		}
		checkAppend(t, object)
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, o)
		}
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
	stated := &topology.Policy{Prefer: []topology.Tier{topology.Zone, topology.Region}, Boundary: topology.Region, MinReady: 2}
	for _, o := range []index.Object{
		&index.ServiceImport{Service: "a.n", Ports: []index.Port{port}, IPs: index.Addrs{netip.MustParseAddr("10.0.0.1")}, Policy: stated},
		&index.ServiceImport{Service: "a.n", Headless: true, Ports: []index.Port{port}, Policy: &topology.Policy{Prefer: []topology.Tier{}}, FromImporter: true},
		&index.EndpointSlice{Namespace: "n", Name: "a-1", Service: "a.n", Group: group},
		&index.GlobalService{Service: "a.n", Headless: true, Ports: []index.Port{port}, Groups: []index.Group{regional}, Policy: stated},
		&index.Cluster{Name: "c1", Member: topology.Member{Zones: []string{"z1"}, Region: "r1", Phase: topology.Expired, Drain: true}, Weight: 50},
		&index.Cluster{Name: "c1", Member: topology.Member{Zones: []string{"z1", "z2"}, Region: "r1", Phase: topology.Suspect, Drain: true}, Weight: 50},
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
	var objects []index.Object
	for seed := range uint64(200) {
		if o, _, _ := index.Convert(chance{rand.New(rand.NewPCG(seed, 2))}.object()); o != nil {
			objects = append(objects, o)
		}
	}
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
	for seed := range uint64(40) {
		if o, _, _ := index.Convert(chance{rand.New(rand.NewPCG(seed, 3))}.object()); o != nil {
			f.Add(Append(nil, o))
		}
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
