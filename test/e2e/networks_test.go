package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// patchMember changes a cluster's MemberCluster on the hub.
func patchMember(f *fleettest.Fleet, cluster, patch string) {
	f.Helper()
	mc := &clustersetv1alpha1.MemberCluster{}
	mc.Name = cluster
	if err := f.Hub.Client.Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil { // cleanups use it too
		f.Errorf("patch MemberCluster %s: %v", cluster, err)
	}
}

// A hub that is restored from a backup takes a network back that was set after it, or sets one again that was taken back after it. Members use
// what it says then, and meanwhile what they did: a service always leads somewhere, by the same ClusterSetIP. Rules D80, D81 and D89 of
// docs/spec/data-path.md.
func TestNetworksOfARestoredHub(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("networks")
	shanghai, others := f.Member("shanghai"), []*fleettest.Member{f.Member("beijing"), f.Member("tianjin")}
	const inNetwork, inNone = `{"spec":{"network":"edge","externalCIDRs":["192.0.2.0/24"]}}`, `{"spec":{"network":null,"externalCIDRs":null}}`
	t.Cleanup(func() {
		patchMember(f, "shanghai", inNone)
		kube.Eventually(t, func() error { return f.AllReached() })
	})
	const pod, outside = "10.203.13.1", "192.0.2.13"
	shanghai.Apply(exported(ns, "web", "externalIPs: ["+outside+"], "+httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint(pod)))
	// used waits until others use an address, and measures that.
	used := func(what, address string) {
		t.Helper()
		began := time.Now()
		for _, m := range others {
			kube.Eventually(t, func() error {
				return errors.Join(leadsTo(m, ns, "web", address), f.Hub.PhaseIs(m.Spec.Name, clustersetv1alpha1.MemberReady))
			})
		}
		fleettest.Took(t, what+" to have an effect", began)
	}
	used("the export", pod)
	vips := map[*fleettest.Member]map[string]string{}
	for _, m := range others {
		vips[m] = map[string]string{"web." + ns + ".svc.clusterset.local": m.VIP(ns, "web", v4)}
	}
	answered, somewhere := throughout(f, vips), alwaysLead(t, others, ns, "web", pod, outside)

	restore := f.Hub.BackUp()
	patchMember(f, "shanghai", inNetwork)
	used("a network", outside)
	restore(func() {})
	used("the restored hub, without it,", pod)

	patchMember(f, "shanghai", inNetwork)
	used("a network", outside)
	restore = f.Hub.BackUp()
	patchMember(f, "shanghai", inNone)
	used("taking it back", pod)
	restore(func() {})
	used("the restored hub, with it,", outside)
	patchMember(f, "shanghai", inNone)
	used("taking it back", pod)
	somewhere()
	answered()
}

// routes returns the ready addresses behind a service's ClusterSetIP in a member.
func routes(m *fleettest.Member, ns, name string) (addresses []string, err error) {
	var all discoveryv1.EndpointSliceList
	if err := m.List(&all, client.InNamespace(ns), client.MatchingLabels{api.LabelKubernetesServiceName: api.DerivedServiceName(ns, name)}); err != nil {
		return nil, err
	}
	for _, s := range all.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	return addresses, nil
}

// leadsTo returns nil if a service's ClusterSetIP leads to these addresses in a member.
func leadsTo(m *fleettest.Member, ns, name string, want ...string) error {
	got, err := routes(m, ns, name)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%s: the ClusterSetIP of %s leads to %v, want %v", m.Spec.Name, name, got, want)
	}
	return err
}

// alwaysLead looks over and over where a service's ClusterSetIP leads in members, until the returned function is called. That fails the test if
// it led nowhere, or anywhere else than to these addresses.
func alwaysLead(t *testing.T, members []*fleettest.Member, ns, name string, allowed ...string) (end func()) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-pace.C:
			}
			for _, m := range members {
				got, err := routes(m, ns, name)
				if err == nil && (len(got) == 0 || slices.ContainsFunc(got, func(a string) bool { return !slices.Contains(allowed, a) })) {
					err = fmt.Errorf("%s: the ClusterSetIP of %s led to %v", m.Spec.Name, name, got)
				}
				if err != nil {
					done <- err
					return
				}
			}
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A cluster of twenty nodes is reached at the ports of eight. When one of these goes, one other takes its place. Rule D91.
func TestTwentyNodes(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("nodes")
	shanghai, beijing := f.Member("shanghai"), f.Member("beijing")
	addNode := func(i int, ready string) {
		t.Helper()
		node := fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: node-%d},
  status: {addresses: [{type: InternalIP, address: 192.0.2.%d}], conditions: [{type: Ready, status: "%s"}]}}`, i, 100+i, ready)
		shanghai.Apply(node)
		shanghai.Plane.ApplyStatus(t, []byte(node))
	}
	t.Cleanup(func() {
		patchMember(f, "shanghai", `{"spec":{"network":null,"externalCIDRs":null}}`)
		if err := shanghai.Client.DeleteAllOf(context.Background(), &corev1.Node{}); err != nil {
			t.Error(err)
		}
		kube.Eventually(t, func() error { return f.AllReached() })
	})
	for i := range 20 {
		addNode(i, "True")
	}
	patchMember(f, "shanghai", `{"spec":{"network":"edge","externalCIDRs":["192.0.2.0/24"]}}`)
	shanghai.Apply(exported(ns, "web", "type: NodePort, "+httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.203.14.1")))
	// used waits until beijing uses eight nodes, and not without.
	used := func(without string) (addresses []string) {
		t.Helper()
		kube.Eventually(t, func() (err error) {
			if addresses, err = routes(beijing, ns, "web"); err != nil {
				return err
			}
			if len(addresses) != 8 || slices.Contains(addresses, without) {
				return fmt.Errorf("beijing uses %v, want eight, without %s", addresses, without)
			}
			return nil
		})
		return addresses
	}
	first := used("")
	gone := first[3]
	addNode(int(netip.MustParseAddr(gone).As4()[3])-100, "False")
	then := used(gone)
	if stay := slices.DeleteFunc(slices.Clone(then), func(a string) bool { return !slices.Contains(first, a) }); len(stay) != 7 {
		t.Errorf("%v are used after %v, when %s had gone", then, first, gone)
	}
}
