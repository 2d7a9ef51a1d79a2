package preview

import (
	"slices"

	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/topology"
)

// Effect is how a change affects a service.
type Effect string

// The effects.
const (
	// Lost: there is no ready endpoint any more, or a port of the ClusterSetIP leads nowhere.
	Lost Effect = "lost"
	// LastResort: only drained, silent and unreachable clusters are left.
	LastResort Effect = "last-resort"
	// LeavesRegion and LeavesZone: all endpoints in use were in the place's region or zone, and no longer are.
	LeavesRegion Effect = "leaves-region"
	LeavesZone   Effect = "leaves-zone"
	// Fewer: fewer ready endpoints take the place's load.
	Fewer Effect = "fewer"
	// Conflicting: the clusters' exports of the service come into conflict.
	Conflicting Effect = "conflict"
	// Moved: other endpoints are used, and nothing is worse.
	Moved Effect = "moved"
	// More: more ready endpoints take the load.
	More Effect = "more"
	// Gained: there was no ready endpoint, and now there is one.
	Gained Effect = "gained"
)

type described struct {
	effect    Effect
	colour    screen.Colour
	one, many string
}

// worst lists the effects, the worst first, with their colour and with the summary's words for one service and for several. Those without words
// are no news there.
var worst = []described{
	{Lost, screen.Bad, "becomes unreachable from some clusters", "become unreachable from some clusters"},
	{LastResort, screen.Warn, "is left with drained, silent and unreachable clusters", "are left with drained, silent and unreachable clusters"},
	{LeavesRegion, screen.Warn, "is answered from another region", "are answered from another region"},
	{LeavesZone, screen.Warn, "is answered from another zone", "are answered from another zone"},
	{Fewer, screen.Warn, "keeps fewer endpoints", "keep fewer endpoints"},
	{Conflicting, screen.Plain, "comes into conflict", "come into conflict"},
	{Moved, screen.Plain, "", ""},
	{More, screen.Good, "", ""},
	{Gained, screen.Good, "becomes reachable", "become reachable"},
}

func (e Effect) severity() int {
	return slices.IndexFunc(worst, func(d described) bool { return d.effect == e })
}

// severity returns that of the worst of the effects, which is the first.
func severity(effects []Effect) int {
	if len(effects) == 0 {
		return len(worst)
	}
	return effects[0].severity()
}

// united returns the union of the effects, the worst first.
func united(all ...[]Effect) []Effect {
	effects := slices.Concat(all...)
	slices.SortFunc(effects, func(a, b Effect) int { return a.severity() - b.severity() })
	return slices.Compact(effects)
}

// serves reports whether the Answer leads to any endpoint.
func (a *Answer) serves() bool {
	return a != nil && a.Result == NoError && (a.ByClusterSetIP || a.Ready > 0)
}

// effects returns how an Answer changes, or nil if it doesn't. before or after is nil if there is no ClusterSetIP.
func effects(before, after *Answer) []Effect {
	switch was, is := before.serves(), after.serves(); {
	case was && !is:
		return []Effect{Lost}
	case !was && is:
		return []Effect{Gained}
	case !was || before.same(after):
		return nil
	}
	var all []Effect
	add := func(holds bool, e Effect) {
		if holds {
			all = append(all, e)
		}
	}
	add(slices.ContainsFunc(before.Ports, func(p string) bool { return !slices.Contains(after.Ports, p) }), Lost)
	add(after.Degraded && !before.Degraded, LastResort)
	leavesRegion := before.within >= topology.Region && after.within < topology.Region
	add(leavesRegion, LeavesRegion)
	add(!leavesRegion && before.within > after.within, LeavesZone)
	if !before.ByClusterSetIP && !after.ByClusterSetIP {
		add(after.Ready < before.Ready, Fewer)
		add(after.Ready > before.Ready, More)
	}
	add(len(all) == 0, Moved)
	return all
}

// same reports whether both use the same endpoints in the same way.
func (a *Answer) same(b *Answer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Result == b.Result && a.ByClusterSetIP == b.ByClusterSetIP && a.Tier == b.Tier && a.Degraded == b.Degraded && a.Ready == b.Ready &&
		slices.Equal(a.Clusters, b.Clusters) && slices.Equal(a.Ports, b.Ports) && slices.Equal(a.Addrs, b.Addrs)
}
