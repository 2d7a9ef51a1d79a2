package nodes

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/internal/topology"
)

// Only what matters of a node is kept. Rule D91 of docs/spec/data-path.md.
func TestWhatIsKept(t *testing.T) {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r", "other": "label"}, Annotations: map[string]string{"a": "b"},
	}}
	o.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n"},
		{Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
		{Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
		{Type: corev1.NodeInternalIP, Address: "192.0.2.9"},
		{Type: corev1.NodeInternalIP, Address: "fd00::1"},
	}
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	want := at("n", "z", "r")
	want.IPs = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")}
	kept, err := stripped(o)
	if err != nil {
		t.Fatal(err)
	}
	is := kept.(*corev1.Node)
	if got := Of(is); !reflect.DeepEqual(got, want) || len(is.Labels) != 2 || is.Annotations != nil || len(is.Status.Addresses) != 2 || !is.Status.Conditions[0].LastHeartbeatTime.IsZero() {
		t.Errorf("%#v of %+v, want %#v", got, is, want)
	}
}

func at(name, zone, region string) Node {
	return Node{Name: name, At: topology.Location{Zone: zone, Region: region}, Ready: true}
}

func TestChangesAreTold(t *testing.T) {
	n := New()
	told, moves := 0, 0
	n.OnChange(func(_ context.Context, moved bool) {
		told++
		if moved {
			moves++
		}
	})
	if zones, known := n.Zones(); known || zones != nil || n.All() != nil {
		t.Errorf("%v, %v before they are known", zones, n.All())
	}
	unready := at("n1", "b", "r")
	unready.Ready = false
	for i, step := range []struct {
		nodes  []Node
		places []topology.Location
		zones  []string
	}{
		{nil, nil, nil},
		{[]Node{at("n1", "b", "r"), at("n0", "a", "r")}, []topology.Location{{Zone: "a", Region: "r"}, {Zone: "b", Region: "r"}}, []string{"a", "b"}},
		{[]Node{at("n0", "a", "r"), unready}, []topology.Location{{Zone: "a", Region: "r"}, {Zone: "b", Region: "r"}}, []string{"a", "b"}},
		{[]Node{at("n0", "a", "r"), at("n1", "a", "q"), at("n2", "", "r")}, []topology.Location{{Zone: "", Region: "r"}, {Zone: "a", Region: "q"}, {Zone: "a", Region: "r"}}, []string{"a"}},
		{[]Node{}, nil, nil},
	} {
		n.Set(t.Context(), step.nodes...)
		n.Set(t.Context(), step.nodes...) // a heartbeat
		zones, known := n.Zones()
		if told != i+1 || !known || !slices.Equal(zones, step.zones) || !slices.Equal(n.Places(), step.places) || len(n.All()) != len(step.nodes) {
			t.Errorf("step %d: %d changes told, zones %v, places %v", i, told, zones, n.Places())
		}
	}
	if moves != 3 {
		t.Errorf("%d moves", moves)
	}
	select {
	case <-n.Known():
	default:
		t.Error("they aren't known")
	}
}
