package console

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
)

// Links is the answer of /api/links: for each pair of clusters, what leads from one to the other, and whether it can be reached.
type Links struct {
	Version int64 `json:"version"`
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
	// Services are the services of which clients in From use endpoints in To: by name, and by ClusterSetIP. LastResort are those of them for
	// which nothing better is left.
	Services      int `json:"services,omitempty"`
	Names         int `json:"names,omitempty"`
	ClusterSetIPs int `json:"clusterSetIPs,omitempty"`
	LastResort    int `json:"lastResort,omitempty"`
	// Reachable is what From's agent says: True, False or Unknown; empty if it says nothing. Reason, Since and the round trip are known of
	// members that the console reads.
	Reachable             metav1.ConditionStatus `json:"reachable,omitempty"`
	Reason                string                 `json:"reason,omitempty"`
	Since                 *time.Time             `json:"since,omitempty"`
	RoundTripMicroseconds int64                  `json:"roundTripMicroseconds,omitempty"`
}

type pair struct{ from, to string }

// links answers /api/links.
func (s *Server) links(ctx context.Context, q query) (any, error) {
	c, err := s.changes(ctx, q)
	if err != nil {
		return nil, err
	}
	is := s.current()
	all := map[pair]*Link{}
	at := func(from, to string) *Link {
		p := pair{from, to}
		if all[p] == nil {
			all[p] = &Link{From: from, To: to}
		}
		return all[p]
	}
	out := &Links{Version: is.version, Clusters: is.set.state.Clusters(), Links: []Link{}}
	if out.Uncounted = len(is.set.keys)*len(out.Clusters) > maxCounted; !out.Uncounted {
		counted, err := s.counted(ctx, is.set.state, c.list)
		if err != nil {
			return nil, badRequest("%w", err)
		}
		for p, l := range counted {
			*at(p.from, p.to) = l
		}
	}
	is.measured(at, time.Now())
	for _, from := range out.Clusters {
		for _, to := range out.Clusters {
			if l := all[pair{from, to}]; l != nil && from != to {
				out.Links = append(out.Links, *l)
			}
		}
	}
	return out, nil
}

// flows is the last result of counted. Only the request that holds the place uses it.
type flows struct {
	of      *preview.State
	changes string
	links   map[pair]Link
}

// counted returns what leads from cluster to cluster after the changes.
func (s *Server) counted(ctx context.Context, state *preview.State, list []preview.Change) (map[pair]Link, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	if s.lastFlows.of == state && s.lastFlows.changes == string(text) && !exports(list) {
		return s.lastFlows.links, nil
	}
	o := s.options.Preview
	o.All = true
	result, err := state.Preview(ctx, list, o)
	if err != nil {
		return nil, err
	}
	links := map[pair]Link{}
	for i := range result.Services {
		for p, used := range uses(&result.Services[i]) {
			l := links[p]
			l.From, l.To = p.from, p.to
			l.add(used)
			links[p] = l
		}
	}
	s.lastFlows = flows{state, string(text), links}
	return links, nil
}

// use says by which ways a cluster uses another for one service.
type use struct{ names, clusterSetIP, lastResort bool }

func (l *Link) add(u use) {
	l.Services++
	if u.names {
		l.Names++
	}
	if u.clusterSetIP {
		l.ClusterSetIPs++
	}
	if u.lastResort {
		l.LastResort++
	}
}

// uses returns which clusters use which for a service, after the changes.
func uses(svc *preview.Service) map[pair]use {
	all := map[pair]use{}
	for i := range svc.Cells {
		cell := &svc.Cells[i]
		answers := cell.Before
		if len(cell.Effects.All()) > 0 {
			answers = cell.After
		}
		if answers == nil {
			continue
		}
		take := func(a *preview.Answer, mark func(*use)) {
			if a == nil || a.ByClusterSetIP {
				return
			}
			for _, to := range a.Clusters {
				for _, from := range cell.Places {
					u := all[pair{from.Cluster, to.Cluster}]
					mark(&u)
					u.lastResort = u.lastResort || a.Degraded
					all[pair{from.Cluster, to.Cluster}] = u
				}
			}
		}
		take(&answers.DNS, func(u *use) { u.names = true })
		take(&answers.Global, func(u *use) { u.names = true })
		take(answers.ClusterSetIP, func(u *use) { u.clusterSetIP = true })
	}
	return all
}

// silence is the age of a heartbeat after which what the cluster said of others no longer counts.
const silence = 3 * time.Minute

// measured adds what agents say about each other: on the hub, and with more detail in the members that are read.
func (s *shown) measured(at func(from, to string) *Link, now time.Time) {
	for from, said := range s.heard {
		if !said.Measures || now.Sub(said.Renewed) > silence {
			continue
		}
		for _, to := range s.set.members {
			if to.Name != from && !to.Left() {
				at(from, to.Name).Reachable = metav1.ConditionTrue
			}
		}
		for _, to := range said.Unmeasured {
			at(from, to).Reachable = metav1.ConditionUnknown
		}
		for _, to := range said.CantReach {
			at(from, to).Reachable = metav1.ConditionFalse
		}
	}
	for i := range s.sources {
		local := s.sources[i].Local
		if local == nil || local.Reach == nil || now.Sub(local.Reach.Stamp.Time).Abs() > objects.ReachabilityAge {
			continue
		}
		for j := range local.Reach.Clusters {
			c := &local.Reach.Clusters[j]
			l := at(local.Reach.Cluster, c.Name)
			l.Reachable, l.Reason, l.Since, l.RoundTripMicroseconds = c.Reachable, c.Reason, &c.Since.Time, c.RoundTripMicroseconds
		}
	}
}

// linksFile answers /api/links.csv: the same as a table.
func (s *Server) linksFile(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.RawQuery)
	var v any
	if err == nil {
		select {
		case s.whole <- struct{}{}:
			v, err = s.links(r.Context(), q)
			<-s.whole
		case <-r.Context().Done():
			return
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="links.csv"`)
	out := csv.NewWriter(w)
	_ = out.Write([]string{"from", "to", "services", "names", "clusterSetIPs", "lastResort", "reachable", "reason", "roundTripMicroseconds"})
	links, _ := v.(*Links)
	for i := range links.Links {
		l := &links.Links[i]
		_ = out.Write([]string{
			l.From, l.To, strconv.Itoa(l.Services), strconv.Itoa(l.Names), strconv.Itoa(l.ClusterSetIPs), strconv.Itoa(l.LastResort),
			string(l.Reachable), l.Reason, strconv.FormatInt(l.RoundTripMicroseconds, 10),
		})
	}
	out.Flush() // it fails if the page has gone
}
