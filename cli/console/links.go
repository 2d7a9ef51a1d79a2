package console

import (
	"context"
	"maps"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// Links is the answer of /api/links: for each pair of clusters, what leads from one to the other, and whether it can be reached.
type Links struct {
	// Clusters are the members, sorted. Links are those of pairs of which something is known, by their names.
	Clusters []string `json:"clusters"`
	Links    []Link   `json:"links"`
	// Uncounted says that the set is too large to count what leads where: the Links say only who reaches whom.
	Uncounted bool `json:"uncounted,omitempty"`
}

// maxCounted bounds services × clusters of a set of which it is counted what leads where. It takes seconds, once for each state.
const maxCounted = 100_000

// Link is the way from a cluster to another.
type Link struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Services are the services of which clients in From use endpoints in To. LastResort are those of them for which nothing better is left.
	Services   int `json:"services,omitempty"`
	LastResort int `json:"lastResort,omitempty"`
	// Reachable is what From's agent says: True, False or Unknown; empty if it says nothing. Reason, Since and the round trip are known of
	// members that the console reads.
	Reachable             metav1.ConditionStatus `json:"reachable,omitempty"`
	Reason                string                 `json:"reason,omitempty"`
	Since                 *time.Time             `json:"since,omitempty"`
	RoundTripMicroseconds int64                  `json:"roundTripMicroseconds,omitempty"`
}

type pair struct{ from, to string }

// links answers /api/links.
func (s *Server) links(ctx context.Context, q url.Values) (*Links, error) {
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	all := map[pair]Link{}
	out := &Links{Clusters: is.set.state.Clusters(), Links: []Link{}}
	if out.Uncounted = len(is.set.items)*len(out.Clusters) > maxCounted; !out.Uncounted {
		o := s.options.Preview
		o.All = true
		counted, err := s.lastFlows.get(ctx, &is, o, flows)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, counted)
	}
	is.measured(all, time.Now())
	for _, from := range out.Clusters {
		for _, to := range out.Clusters {
			if l, known := all[pair{from, to}]; known && from != to {
				l.From, l.To = from, to
				out.Links = append(out.Links, l)
			}
		}
	}
	return out, nil
}

// flows counts what leads from cluster to cluster after the changes.
func flows(result *preview.Result) map[pair]Link {
	links := map[pair]Link{}
	for i := range result.Services {
		for p, lastResort := range uses(&result.Services[i]) {
			l := links[p]
			l.Services++
			if lastResort {
				l.LastResort++
			}
			links[p] = l
		}
	}
	return links
}

// uses returns which clusters use which for a service, after the changes, and whether as the last resort.
func uses(svc *preview.Service) map[pair]bool {
	all := map[pair]bool{}
	for i := range svc.Cells {
		cell := &svc.Cells[i]
		answers := cell.Before
		if len(cell.Effects.All()) > 0 {
			answers = cell.After
		}
		if answers == nil {
			continue
		}
		for _, a := range []*preview.Answer{&answers.DNS, &answers.Global, answers.ClusterSetIP} {
			if a == nil { // the place has no ClusterSetIP
				continue
			}
			for _, to := range a.Clusters {
				for _, from := range cell.Places {
					p := pair{from.Cluster, to.Cluster}
					all[p] = all[p] || a.Degraded
				}
			}
		}
	}
	return all
}

// measured adds what agents say about each other: on the hub, and with more detail in the members that are read.
func (s *shown) measured(all map[pair]Link, now time.Time) {
	say := func(from string, reachable metav1.ConditionStatus, to ...string) {
		for _, name := range to {
			l := all[pair{from, name}]
			l.Reachable = reachable
			all[pair{from, name}] = l
		}
	}
	for _, from := range s.sources {
		for _, c := range view.Build(*s.facts(from, now)).Clusters {
			if from.Role != RoleMember && c.Measures {
				say(c.Name, metav1.ConditionTrue, s.set.state.Clusters()...)
				say(c.Name, metav1.ConditionUnknown, c.Unmeasured...)
				say(c.Name, metav1.ConditionFalse, c.CantReach...)
			}
			if c.Reach != nil {
				l := all[pair{from.Cluster, c.Name}]
				l.Reachable, l.Reason, l.Since, l.RoundTripMicroseconds = c.Reach.Reachable, c.Reach.Reason, &c.Reach.Since.Time, c.Reach.RoundTripMicroseconds
				all[pair{from.Cluster, c.Name}] = l
			}
		}
	}
}
