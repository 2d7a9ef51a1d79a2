package console

import (
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// clusters answers /api/map.
func (s *Server) clusters(ctx context.Context, q query) (any, error) {
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	exports := is.set.exports
	if is.after != is.set.state {
		exports = is.after.Exports()
	}
	m := &Map{
		Time: now, Clusters: []Cluster{}, Notes: is.notes, Changes: is.words,
		Services: ServiceCounts{Total: len(is.set.keys)}, NotEnforced: view.NotEnforced(is.set.members),
	}
	for _, from := range is.sources {
		o := *from
		o.ExpiryPaused = o.Role != RoleMember && slices.ContainsFunc(is.set.members, func(mc *clustersetv1alpha1.MemberCluster) bool {
			return meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused)
		})
		m.Sources = append(m.Sources, o)
	}
	for _, mc := range is.set.members {
		cluster := clusterOf(mc, is.heard[mc.Name].Renewed, is.set.exports[mc.Name], now, is.set.state)
		if to := is.after.Member(mc.Name); to == nil {
			cluster.Leaves = !mc.Left()
		} else if is.after != is.set.state {
			if then := clusterOf(to, is.heard[mc.Name].Renewed, exports[mc.Name], now, is.after); !reflect.DeepEqual(then, cluster) {
				cluster.After = &then
			}
			cluster.Down = is.after.Down(mc.Name)
		}
		m.Clusters = append(m.Clusters, cluster)
	}
	for _, i := range is.set.items {
		if i.Conflicts > 0 {
			m.Services.Conflicts++
		}
	}
	return m, nil
}

func clusterOf(mc *clustersetv1alpha1.MemberCluster, renewed time.Time, exports int, now time.Time, in *preview.State) Cluster {
	c := Cluster{
		Cluster: view.OnHub(mc, renewed, exports, now), Weight: int(ptr.Deref(mc.Spec.Weight, 0)),
		CIDRs: mc.Spec.CIDRs, ExternalCIDRs: mc.Spec.ExternalCIDRs, Places: []string{},
	}
	c.CantReach = in.CantReach(mc.Name)
	for _, p := range in.PlacesOf(mc.Name) {
		c.Places = append(c.Places, p.Zone)
	}
	return c
}
