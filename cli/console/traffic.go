package console

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Counted is what the DNS servers of a cluster have counted since each of them started.
type Counted struct {
	At time.Time
	// Answers are the positive answers by server and tier, as the metric coredns_clusterset_answers_total has them.
	Answers map[string]map[string]float64
	// Unread says which servers couldn't be read, and why.
	Unread []string
}

// Traffic is the answer of /api/traffic: what the DNS servers of a cluster answer.
type Traffic struct {
	// Servers is the number of servers that were read. Unread says which couldn't be, and why.
	Servers int      `json:"servers"`
	Unread  []string `json:"unread,omitempty"`
	// Seconds is the time for which the rates are, 0 as long as there are none.
	Seconds float64 `json:"seconds,omitempty"`
	// Tiers are sorted by name.
	Tiers []TierTraffic `json:"tiers"`
}

// TierTraffic is how often addresses of one tier were the answer.
type TierTraffic struct {
	// Tier is cluster, zone, region, any, vip (a ClusterSetIP), or degraded (only Suspect, drained or unreachable clusters were left).
	Tier string `json:"tier"`
	// Total counts since the servers started, PerSecond in the time that Traffic says.
	Total     float64 `json:"total"`
	PerSecond float64 `json:"perSecond"`
}

const (
	// trafficEvery is the least time between two readings of a cluster's metrics, however many pages ask.
	trafficEvery = 5 * time.Second
	// trafficAge is how old a reading may be for a rate to say what happens now.
	trafficAge = 2 * time.Minute
)

// traffic answers /api/traffic. Only one request at a time may call it.
func (s *Server) traffic(ctx context.Context, q query) (any, error) {
	name := q.Get("context")
	if s.options.Counted == nil || name == "" {
		return nil, badRequest("context is %q; want one of those that the console was started with", name)
	}
	last := s.lastTraffic[name]
	if last != nil && time.Since(last.counted.At) < trafficEvery {
		return last.shown, nil
	}
	counted, err := s.options.Counted(ctx, name)
	if err != nil {
		return nil, err
	}
	var before *Counted
	if last != nil && counted.At.Sub(last.counted.At) < trafficAge {
		before = last.counted
	}
	now := &reading{counted, trafficOf(counted, before)}
	s.lastTraffic[name] = now
	return now.shown, nil
}

// reading is the last one of a cluster.
type reading struct {
	counted *Counted
	shown   *Traffic
}

// trafficOf sums up the servers. Rates are those of the servers that were also read before, which may be nil, and haven't started anew since.
func trafficOf(now, before *Counted) *Traffic {
	t := &Traffic{Servers: len(now.Answers), Unread: now.Unread, Tiers: []TierTraffic{}}
	if before != nil {
		t.Seconds = now.At.Sub(before.At).Seconds()
	}
	tiers := map[string]*TierTraffic{}
	for server, answers := range now.Answers {
		for tier, n := range answers {
			if tiers[tier] == nil {
				tiers[tier] = &TierTraffic{Tier: tier}
			}
			tiers[tier].Total += n
			if before != nil && before.Answers[server] != nil {
				tiers[tier].PerSecond += max(0, n-before.Answers[server][tier]) / t.Seconds
			}
		}
	}
	for _, tier := range tiers {
		t.Tiers = append(t.Tiers, *tier)
	}
	slices.SortFunc(t.Tiers, func(a, b TierTraffic) int { return cmp.Compare(a.Tier, b.Tier) })
	return t
}
