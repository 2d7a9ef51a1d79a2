package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// A node's zone label in one cluster decides how near that cluster's endpoints are to another cluster, in DNS answers and
// behind the ClusterSetIP.
func TestZonesOfNodesRankElsewhere(t *testing.T) {
	f := fleettest.New(t, fleettest.Spec{Name: "here", Zone: "a"}, fleettest.Spec{Name: "there"})
	here, there := f.Member("here"), f.Member("there")
	ns := f.Namespace("zones")
	here.Apply(node("here-1", "a"))
	for i, m := range []*fleettest.Member{here, there} {
		for name, kind := range map[string]string{"db": headlessService, "web": httpPort} {
			m.Apply(service(ns, name, kind), export(ns, name, ""), slice(ns, name, "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.%d.9.1", 200+i))))
		}
	}
	// told checks what is known about the cluster there: its zones on the hub, whether its endpoint is answered here, and
	// its zone hint.
	told := func(zones, answers []string, hint string) {
		t.Helper()
		kube.Eventually(t, func() error {
			var mc clustersetv1alpha1.MemberCluster
			if err := f.Hub.Get("", "there", &mc); err != nil {
				return err
			}
			if !slices.Equal(mc.Status.Zones, zones) {
				return fmt.Errorf("the hub has there in zones %q, want %q", mc.Status.Zones, zones)
			}
			return errors.Join(
				here.DNS.Answers("db."+ns+".svc.clusterset.local", "A", answers...),
				here.DNS.Answers("db."+ns+".svc.global", "A", answers...),
				hinted(here, ns, "web", map[string]string{"here": "a", "there": hint}))
		})
	}
	own, both := []string{"10.200.9.1"}, []string{"10.200.9.1", "10.201.9.1"}
	told(nil, own, api.HintNone)
	there.Apply(node("there-1", "a"))
	told([]string{"a"}, both, "a")
	there.Apply(node("there-1", "b"))
	told([]string{"b"}, own, api.HintNone) // further changes are told once a minute (C29); hub's tests make them
}

// node returns a Node. No kubelet creates one here.
func node(name, zone string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s: %s}}}", name, corev1.LabelTopologyZone, zone)
}

// hinted returns nil if each cluster's endpoints of a service have the wanted zone hint for kube-proxy.
func hinted(m *fleettest.Member, ns, name string, want map[string]string) error {
	i, err := m.Imported(ns, name)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, s := range i.Slices {
		if s.Labels[api.LabelKubernetesServiceName] != api.DerivedServiceName(ns, name) {
			continue
		}
		for _, e := range s.Endpoints {
			got[s.Labels[api.LabelSourceCluster]] += hints(&e)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s: kube-proxy is told to use %s/%s in zones %v, want %v", m.Spec.Name, ns, name, got, want)
	}
	return nil
}

func hints(e *discoveryv1.Endpoint) (zones string) {
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			zones += z.Name
		}
	}
	return zones
}
