package doctor

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/topology"
)

// Servers that rank from another place than their cluster's MemberCluster says are a problem, unless that is right: a node's own zone in a cluster
// with several.
func TestServersElsewhereThanTheirCluster(t *testing.T) {
	at := func(cluster, zone, region string) topology.Location {
		return topology.Location{Cluster: cluster, Zone: zone, Region: region}
	}
	member := func(region string, zones, ofNodes []string) (m clustersetv1alpha1.MemberCluster) {
		m.Name, m.Spec.Region, m.Spec.Zones, m.Status.Zones = "beijing", region, zones, ofNodes
		return m
	}
	one, two := member("north", []string{"a"}, nil), member("north", nil, []string{"a", "b"})
	none, nodes := member("", nil, nil), member("", nil, []string{"a"})
	for _, c := range []struct {
		name   string
		is     topology.Location
		ofNode bool
		member clustersetv1alpha1.MemberCluster
		want   Level
	}{
		{"the same", at("beijing", "a", "north"), false, one, OK},
		{"a node's", at("beijing", "b", "north"), true, two, OK},
		{"a node's in a zone that spec doesn't name", at("beijing", "b", "north"), true, one, OK},
		{"one of several zones", at("beijing", "b", "north"), false, two, OK},
		{"several zones, and a pod without its node's labels", at("beijing", "", "north"), true, two, OK},
		{"the cluster has none", at("beijing", "a", "north"), false, none, OK},
		{"neither has one", at("beijing", "", ""), true, none, OK},

		{"the old name of a cluster", at("peking", "a", "north"), false, one, Problem},
		{"no name", at("", "a", "north"), false, one, Problem},
		{"no location, before Kubernetes 1.35", at("beijing", "", ""), true, one, Problem},
		{"no zone", at("beijing", "", "north"), true, one, Problem},
		{"no zone, which the nodes have", at("beijing", "", ""), true, nodes, Problem},
		{"no region", at("beijing", "a", ""), false, two, Problem},
		{"a typo in the region", at("beijing", "a", "nroth"), false, one, Problem},
		{"the nodes' region is another", at("beijing", "a", "cn-north"), true, one, Problem},
		{"a typo in the zone", at("beijing", "A", "north"), false, one, Problem},
	} {
		pods := []view.Pod{{Part: view.PartDNS, Name: "a", Location: c.is, ZoneOfNode: c.ofNode}, {Part: view.PartMember, Name: "b"}}
		local := view.LocalFacts{Cluster: "beijing", Members: []clustersetv1alpha1.MemberCluster{{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}}, c.member}, Pods: pods}
		var f, unknown Facts
		f.See(&view.Facts{Local: &local}, view.Report{})
		if got := checkLocation(&f); len(got) != 1 || got[0].Level != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
		local.Cluster = ""
		unknown.See(&view.Facts{Local: &local}, view.Report{})
		if got := checkLocation(&unknown); got != nil {
			t.Errorf("of a cluster whose name isn't known: %+v", got)
		}
	}
}
