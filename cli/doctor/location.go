package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// checkLocation compares the DNS servers' location with that of their MemberCluster. If they differ, the servers take endpoints of their own cluster
// for distant ones.
func checkLocation(f *Facts) []Finding {
	m := f.Member
	if m == nil {
		return nil
	}
	var all []Finding
	elsewhere := map[string][]string{} // pods, by where they think they are
	servers := 0
	for i := range f.Pods {
		if p := &f.Pods[i]; p.Part == view.PartDNS {
			servers++
			if !isAt(p, m) {
				at := place(p.Location.Cluster, p.Location.Zone, p.Location.Region)
				elsewhere[at] = append(elsewhere[at], p.Name)
			}
		}
	}
	is := place(m.Name, strings.Join(m.AllZones(), ","), m.Spec.Region)
	for _, at := range slices.Sorted(maps.Keys(elsewhere)) {
		all = append(all, problem(
			fmt.Sprintf("DNS servers rank endpoints from %s, but their MemberCluster is at %s: %s", at, is, screen.Several(elsewhere[at], shownServices, ", ")),
			fmt.Sprintf("set location in the chart's values to the cluster, zone and region of the MemberCluster; if that is wrong, kubectl edit membercluster %s on the hub", m.Name)))
	}
	if servers > 0 && len(all) == 0 {
		all = append(all, ok("the DNS servers rank endpoints from where their MemberCluster is, %s", is))
	}
	return all
}

// place is a location as in explain --from.
func place(cluster, zone, region string) string {
	return cmp.Or(cluster, "-") + "/" + cmp.Or(zone, "-") + "/" + cmp.Or(region, "-")
}

// isAt reports whether a server's location agrees with its cluster's. A node's own zone is right where the cluster has others, because its
// endpoints have theirs too. And in a cluster with several zones, a server whose pod doesn't have its node's labels knows none.
func isAt(p *view.Pod, m *clustersetv1alpha1.MemberCluster) bool {
	zones, l := m.AllZones(), p.Location
	switch {
	case l.Cluster != m.Name || m.Spec.Region != "" && l.Region != m.Spec.Region:
		return false
	case l.Zone == "":
		return len(zones) != 1
	}
	return p.ZoneOfNode || len(zones) == 0 || slices.Contains(zones, l.Zone)
}
