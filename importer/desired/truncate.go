package desired

import (
	"cmp"
	"slices"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// truncate returns at most limit of the endpoints, and no more than about maxGlobalServiceBytes of them, in their order. The
// clusters share the room fairly: none gets less than another unless it has no more to offer, so that a cluster with ten
// thousand endpoints can't push out one with three. Of a cluster's endpoints the ready ones are kept first.
func truncate(all []fabedgev1alpha1.Endpoint, limit int) []fabedgev1alpha1.Endpoint {
	size := 0
	for i := range all {
		size += sizeOf(&all[i])
	}
	// Large endpoints (a hundred ports each) count by the size of the average one. Its share may turn out above the
	// average, so try again with less.
	kept := all
	for len(kept) > limit || size > maxGlobalServiceBytes {
		if size > maxGlobalServiceBytes {
			limit = min(limit, len(kept)*maxGlobalServiceBytes/size) // less than before, because size > maxGlobalServiceBytes
		}
		kept, size = pick(all, limit), 0
		for i := range kept {
			size += sizeOf(&kept[i])
		}
	}
	return kept
}

// pick returns limit of the endpoints, if there are as many.
func pick(all []fabedgev1alpha1.Endpoint, limit int) []fabedgev1alpha1.Endpoint {
	byCluster := map[string][]int{}
	var clusters []string
	for i := range all {
		c := all[i].Cluster
		if byCluster[c] == nil {
			clusters = append(clusters, c)
		}
		byCluster[c] = append(byCluster[c], i)
	}
	// Who has least is served first: what it leaves of its share is the others'.
	slices.SortFunc(clusters, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byCluster[a]), len(byCluster[b])), cmp.Compare(a, b))
	})
	var chosen []int
	left := limit
	for i, c := range clusters {
		mine := byCluster[c]
		slices.SortStableFunc(mine, func(a, b int) int { return cmp.Compare(unready(&all[a]), unready(&all[b])) })
		n := min(len(mine), left/(len(clusters)-i))
		chosen = append(chosen, mine[:n]...)
		left -= n
	}
	slices.Sort(chosen)
	kept := make([]fabedgev1alpha1.Endpoint, len(chosen))
	for i, c := range chosen {
		kept[i] = all[c]
	}
	return kept
}

func unready(e *fabedgev1alpha1.Endpoint) int {
	if e.IsReady() {
		return 0
	}
	return 1
}

// sizeOf is about what an endpoint takes as JSON, at least.
func sizeOf(e *fabedgev1alpha1.Endpoint) int {
	n := 64 + len(e.Cluster) + len(e.Zone) + len(e.Region)
	for _, a := range e.Addresses {
		n += len(a) + 3
	}
	if e.Hostname != nil {
		n += len(*e.Hostname) + 14
	}
	for i := range e.Ports {
		n += 45 + len(e.Ports[i].Name)
	}
	return n
}
