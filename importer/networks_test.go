package importer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
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

// A node with an address that another network's cluster leads to, in a zone that other nodes are in, takes it out of use. Rule D82 of
// docs/spec/data-path.md.
func TestNewNodeForbidsItsAddress(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), node("n1", "beijing-1"))
	w.onHub(strings.Replace(memberOf("shanghai"), "region: cn", "region: cn, network: edge, externalCIDRs: [192.0.2.0/24]", 1),
		strings.NewReplacer("addressType: IPv4", "addressType: IPv4\n  external: true\n  behind: 1", "{addresses: [10.12.0.5]}", "{addresses: [192.0.2.1]}, {addresses: [192.0.2.2]}").
			Replace(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")))
	var ofNodes atomic.Pointer[[]netip.Addr]
	ofNodes.Store(new([]netip.Addr))
	run := w.start(Options{Avoid: func(context.Context) []netip.Addr { return *ofNodes.Load() }})
	leads := func(want ...string) {
		t.Helper()
		kube.Eventually(t, func() error {
			var got []string
			for _, s := range w.objects("shop", "web").slices {
				for _, e := range s.Endpoints {
					got = append(got, e.Addresses...)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("leads to %v, want %v", got, want)
			}
			return nil
		})
	}
	leads("192.0.2.1", "192.0.2.2")
	w.quiet(run, 1)
	ofNodes.Store(&[]netip.Addr{netip.MustParseAddr("192.0.2.1")})
	w.here(node("n2", "beijing-1"))
	w.member.ApplyStatus(t, []byte("{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}"))
	leads("192.0.2.2")
}

// Without networks, a new node in a known zone costs nothing, nor does with them another change of a node.
func TestNodesAddressesMatterOnlyAcrossNetworks(t *testing.T) {
	of := func(name, ip string, ready bool) nodes.Node {
		return nodes.Node{Name: name, IPs: []netip.Addr{netip.MustParseAddr(ip)}, Ready: ready}
	}
	for _, across := range []bool{false, true} {
		n := nodes.New()
		n.Set(t.Context(), of("n1", "192.0.2.1", true))
		var external atomic.Bool
		external.Store(across)
		places := make(chan event.GenericEvent, 1)
		(&importer{options: Options{Nodes: n}}).awaitNodes(t.Context(), places, &external)
		for _, step := range []struct {
			what  string
			nodes []nodes.Node
			tells bool
		}{
			{"a new node", []nodes.Node{of("n1", "192.0.2.1", true), of("n2", "192.0.2.2", true)}, across},
			{"one that isn't ready", []nodes.Node{of("n1", "192.0.2.1", false), of("n2", "192.0.2.2", true)}, false},
			{"another address", []nodes.Node{of("n1", "192.0.2.3", true), of("n2", "192.0.2.2", true)}, across},
		} {
			n.Set(t.Context(), step.nodes...)
			told := false
			select {
			case <-places:
				told = true
			default:
			}
			if told != step.tells {
				t.Errorf("across networks %t, %s: told %t", across, step.what, told)
			}
		}
	}
}
