package topology

import (
	"cmp"
	"net/netip"
	"slices"
)

// Phase says how long a cluster has been silent, as in its MemberCluster.
type Phase uint8

const (
	// Ready clusters send heartbeats. A cluster without a MemberCluster counts as Ready.
	Ready Phase = iota
	// Suspect clusters have been silent for a short time.
	Suspect
	// Expired clusters have been silent for a long time.
	Expired
)

// Member is the part of a MemberCluster that ranking needs. The zero value is a healthy cluster in an unknown place.
type Member struct {
	// Zones are all zones of the cluster.
	Zones  []string
	Region string
	Phase  Phase
	// Drain is set if the cluster is to be used only if no other cluster is left.
	Drain bool
	// Unreachable is set if the place for which is ranked can't reach the cluster.
	Unreachable bool
}

// Equal reports whether both are the same.
func (m Member) Equal(o Member) bool {
	return m.Region == o.Region && m.Phase == o.Phase && m.Drain == o.Drain && m.Unreachable == o.Unreachable && slices.Equal(m.Zones, o.Zones)
}

// Ailment returns why the cluster's endpoints rank last: Expired, drained, Suspect or unreachable. It is empty if they don't.
func (m *Member) Ailment() string {
	switch {
	case m.Phase == Expired:
		return "Expired"
	case m.Drain:
		return "drained"
	case m.Phase == Suspect:
		return "Suspect"
	case m.Unreachable:
		return "unreachable"
	}
	return ""
}

// Location returns the location of nodes and DNS servers of the cluster with that name, as far as the cluster determines it: in a
// cluster with several zones, the zone is unknown.
func (m *Member) Location(cluster string) Location {
	l := Location{Cluster: cluster, Region: m.Region}
	if len(m.Zones) == 1 {
		l.Zone = m.Zones[0]
	}
	return l
}

// Endpoint is a ready endpoint: an address that connections can be sent to.
type Endpoint struct {
	// Addr identifies the endpoint.
	Addr netip.Addr
	// Cluster is the name of the endpoint's cluster. Member is what is known of that cluster; nil: nothing.
	Cluster string
	Member  *Member
	// Zone and Region are the endpoint's own. If one is empty, that of its cluster counts: for Zone, any of the cluster's zones.
	Zone, Region string
	// ClusterIP marks an address that stands for a whole cluster. The own cluster's ClusterIP never ranks behind another's.
	ClusterIP bool
	// Behind is the number of ready endpoints behind a ClusterIP, for MinReady. 0 counts as 1.
	Behind int
	// Spare marks an endpoint beyond its cluster's Share, which ranks as one of a drained cluster.
	Spare bool
}

// Rank is an endpoint's place in the order of use. Lower is better.
//
// Health comes first: all healthy endpoints rank before spare ones and those of Suspect, drained or unreachable clusters, and these before
// those of Expired clusters. Then comes the tier.
type Rank uint8

const (
	degraded Rank = 1 << 4 // added for each step down in health; more than there are tiers
	expired  Rank = 2 << 4

	// Outside is the rank of an endpoint beyond the boundary. It is never used.
	Outside Rank = 0xfe
	// Gone is the rank of an endpoint in an Expired cluster, unless UseExpired is set. It is never used.
	Gone Rank = 0xff
)

// Usable reports whether an endpoint of that rank can be used.
func (r Rank) Usable() bool { return r < Outside }

// Degraded reports whether the endpoint is spare, or its cluster is Suspect, drained, unreachable or Expired.
func (r Rank) Degraded() bool { return r >= degraded && r.Usable() }

// LastResort reports whether the endpoint's cluster is Expired, and the endpoint can still be used.
func (r Rank) LastResort() bool { return r >= expired && r.Usable() }

// View is one place's view of endpoints. It is the complete rule for which of a service's endpoints are used in that place:
//
//  1. Endpoints beyond the policy's boundary are never used.
//  2. Spare endpoints and those of Suspect, drained or unreachable clusters are used if no healthy one is left. Those of Expired clusters are used
//     if nothing else is left (UseExpired), or never. A cluster never considers itself Suspect, Expired or unreachable.
//  3. Of the remaining endpoints the best tier is used, in the policy's order.
//  4. If it has fewer endpoints than the policy's MinReady, the next tier is used with it, and so on to the last.
type View struct {
	// Self is the place: that of a DNS server, or of a node whose service proxy chooses.
	Self   Location
	Policy Policy
	// UseExpired keeps the endpoints of Expired clusters as a last resort. It is for addresses that clients already have: a cluster
	// without a connection to the hub may still serve. A DNS name can be withdrawn instead.
	UseExpired bool
}

// Rank returns the endpoint's rank.
func (v *View) Rank(e *Endpoint) Rank {
	m := e.Member
	if m == nil {
		m = &Member{}
	}
	own := e.Cluster != "" && e.Cluster == v.Self.Cluster
	var health Rank
	switch {
	case m.Phase == Expired && !own && !v.UseExpired:
		return Gone
	case m.Phase == Expired && !own:
		health = expired
	case (m.Phase == Suspect || m.Unreachable) && !own, m.Drain, e.Spare:
		health = degraded
	}
	if !v.within(v.Policy.Boundary, e, m, own) {
		return Outside
	}
	prefer := v.Policy.prefer()
	for i, t := range prefer {
		if v.within(t, e, m, own) {
			return health + Rank(i) //nolint:gosec // at most three tiers
		}
	}
	return health + Rank(len(prefer)) //nolint:gosec // at most three tiers
}

// within reports whether the endpoint is within tier t of the place.
func (v *View) within(t Tier, e *Endpoint, m *Member, own bool) bool {
	if own && e.ClusterIP {
		return true // it leads to endpoints of this cluster, whatever its zone
	}
	at := Location{Cluster: e.Cluster, Zone: e.Zone, Region: cmp.Or(e.Region, m.Region)}
	if t != Zone || e.Zone != "" {
		return v.Self.Within(t, at)
	}
	for _, at.Zone = range m.Zones {
		if v.Self.Within(t, at) {
			return true
		}
	}
	return false
}

// Tier returns the tier in which an endpoint of that rank is used.
func (v *View) Tier(r Rank) Tier {
	prefer := v.Policy.prefer()
	if i := int(r % degraded); r.Usable() && i < len(prefer) {
		return prefer[i]
	}
	return Any
}

// Ranked is an endpoint with its rank.
type Ranked struct {
	Rank Rank
	// Addr and Behind are the Endpoint's.
	Addr   netip.Addr
	Behind int
}

// Last returns the rank of the last of n endpoints that is used: the endpoints of this rank and of better ones are used. It is Gone if
// no endpoint is usable. at returns the i-th endpoint, with rank Gone if it can't be used.
//
// An address that occurs twice counts once, with its better rank. IPv4 and IPv6 are counted separately, and the larger number decides:
// an endpoint with an address of each family is one endpoint.
func (v *View) Last(n int, at func(i int) Ranked) Rank {
	best := Gone
	for i := range n {
		best = min(best, at(i).Rank)
	}
	if !best.Usable() {
		return Gone
	}
	if v.Policy.MinReady <= 1 {
		return best
	}
	return lastOfEnough(n, at, best, v.Policy.MinReady)
}

// lastOfEnough continues after the best rank, within the same health, until there are enough endpoints or no more.
func lastOfEnough(n int, at func(i int) Ranked, best Rank, enough int) Rank {
	end := best - best%degraded + degraded
	same := make([]Ranked, 0, n)
	worst := best
	for i := range n {
		if e := at(i); e.Rank < end {
			same = append(same, e)
			worst = max(worst, e.Rank)
		}
	}
	slices.SortFunc(same, func(a, b Ranked) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.Behind, a.Behind))
	})
	same = slices.CompactFunc(same, func(a, b Ranked) bool { return a.Addr == b.Addr })
	slices.SortFunc(same, func(a, b Ranked) int { return cmp.Compare(a.Rank, b.Rank) })
	v4, v6, last := 0, 0, best
	for _, e := range same {
		if e.Rank > last && max(v4, v6) >= enough {
			return last
		}
		last = e.Rank
		if e.Addr.Is4() {
			v4 += max(1, e.Behind)
		} else {
			v6 += max(1, e.Behind)
		}
	}
	if max(v4, v6) >= enough {
		return last
	}
	return worst
}
