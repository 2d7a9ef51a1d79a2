package importer

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/nodes"
)

// Which external addresses may be used is looked at again when a cluster with networks comes or goes. Rule D82 of docs/spec/data-path.md.
func TestNetworksThatComeOrGo(t *testing.T) {
	member := func(left bool, cidrs ...string) *clustersetv1alpha1.MemberCluster {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: cidrs}}
		if left {
			m.SetLeft(time.Now())
		}
		return m
	}
	with, without := member(false, "10.5.0.0/16"), member(false)
	for what, c := range map[string]struct {
		was, is *clustersetv1alpha1.MemberCluster
		want    bool
	}{
		"it joins":                    {nil, with, true},
		"one without networks joins":  {nil, without, false},
		"it is gone":                  {with, nil, true},
		"one without networks goes":   {without, nil, false},
		"it leaves":                   {with, member(true, "10.5.0.0/16"), true},
		"one without networks leaves": {without, member(true), false},
		"it gets some":                {without, with, true},
		"something else":              {with, with.DeepCopy(), false},
	} {
		if is := changeOf(c.was, c.is).networks; is != c.want {
			t.Errorf("%s: networks change is %t", what, is)
		}
	}
}

// Without networks, a new node in a known zone costs nothing, nor does with them another change of a node. Rule D82 of docs/spec/data-path.md.
func TestNodesAddressesMatterOnlyAcrossNetworks(t *testing.T) {
	of := func(name, ip string, ready bool) nodes.Node {
		return nodes.Node{Name: name, IPs: []netip.Addr{netip.MustParseAddr(ip)}, Ready: ready}
	}
	for _, across := range []bool{false, true} {
		n := nodes.New()
		n.Set(t.Context(), of("n1", "192.0.2.1", true))
		told := false
		awaitNodes(t.Context(), n, func() bool { return across }, func() { told = true })
		for _, step := range []struct {
			what  string
			nodes []nodes.Node
			tells bool
		}{
			{"a new node", []nodes.Node{of("n1", "192.0.2.1", true), of("n2", "192.0.2.2", true)}, across},
			{"one that isn't ready", []nodes.Node{of("n1", "192.0.2.1", false), of("n2", "192.0.2.2", true)}, false},
			{"another address", []nodes.Node{of("n1", "192.0.2.3", true), of("n2", "192.0.2.2", true)}, across},
		} {
			told = false
			n.Set(t.Context(), step.nodes...)
			if told != step.tells {
				t.Errorf("across networks %t, %s: told %t", across, step.what, told)
			}
		}
	}
}
