package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/topology"
)

// Explain explains the addresses with which a server at q.From answers the name. The error is a *NotFoundError if there is no such
// service.
func Explain(q Query, f Facts) (*Explanation, error) {
	x := index.New(index.Options{Self: q.From, Policy: q.Policy})
	x.Put(f.Objects...)
	x.Publish()
	svc := x.Snapshot().Service(string(q.Name.Key))
	if svc == nil {
		return nil, &NotFoundError{q.Name, f.instead(q.Name.Key, x.Snapshot().Services())}
	}
	stated := svc.Policy(q.Name.Dialect)
	q.Policy = stated.Or(q.Policy)
	e := &Explanation{
		Name: q.Name.String(), Dialect: q.Name.Dialect, From: place.Place(q.From),
		Prefer: tiers(q.Policy), MinReady: q.Policy.MinReady, Stated: stated.String(),
		Conflicts: f.Conflicts, Notes: slices.Concat(f.Hidden, f.Notes),
	}
	if q.Policy.Boundary != topology.Any {
		e.Boundary = q.Policy.Boundary.String()
	}
	at := find(q.Name, x.Snapshot())
	e.Result = at.result
	if !at.vip && len(at.Set.Addrs) > 0 {
		e.Degraded = at.Set.Degraded
		if at.ranked {
			e.Tier = at.Set.Tier.String()
		}
	}
	all := x.Ranking(svc, q.Name.Dialect)
	j := judge{query: q, at: at, nearest: nearest(all), elsewhere: at.vip && f.Self != "" && q.From.Cluster != "" && q.From.Cluster != f.Self}
	if !j.elsewhere {
		for _, a := range at.Addrs {
			e.Addresses = append(e.Addresses, a.String())
		}
	}
	if at.vip && !j.elsewhere {
		j.routes = f.routes(q.Name.Key, q.From.Zone)
	}
	e.Endpoints = endpoints(j, all)
	if o := f.imported(q.Name.Key); o != nil {
		e.Notes = append(e.Notes, conditions("ServiceImport", o.Status.Conditions)...)
		if f.Self != "" {
			e.Networks = view.AcrossNetworks(f.Self, f.Members, o, f.slices)
		}
	}
	var why string
	e.Source, why = source(q.Name.Dialect, svc)
	if e.Because = j.because(why, len(all)); at.vip && at.result == Answer {
		e.Because += j.choice(all, e.Endpoints)
	}
	return e, nil
}

// Locate returns the location of a server in that cluster, as far as the MemberCluster determines it: the zones in its spec, or else
// those of its nodes. With several zones, the server's zone is unknown.
func (f *Facts) Locate(cluster string) topology.Location {
	for _, o := range f.Objects {
		c, ok := o.(*index.Cluster)
		if !ok || c.Name != cluster {
			continue
		}
		if len(c.Zones) > 1 {
			f.Notes = append(f.Notes, fmt.Sprintf("%s is in zones %s: set that of the server with --from %s/ZONE/%s",
				cluster, strings.Join(c.Zones, ", "), cluster, cmp.Or(c.Region, "-")))
		}
		return c.Location(cluster)
	}
	return topology.Location{Cluster: cluster}
}

// Known returns an error if there are clusters, and none of that name.
func (f *Facts) Known(cluster string) error {
	var names []string
	for i := range f.Members {
		names = append(names, f.Members[i].Name)
	}
	if cluster == "" || len(names) == 0 || slices.Contains(names, cluster) {
		return nil
	}
	return near.Unknown("cluster", cluster, names)
}

func tiers(p topology.Policy) []string {
	prefer := p.Prefer
	if prefer == nil {
		prefer = topology.DefaultPrefer
	}
	names := make([]string, 0, len(prefer)+1)
	for _, t := range prefer {
		names = append(names, t.String())
	}
	return append(names, topology.Any.String())
}

// source returns the object that answers, and why it does.
func source(d index.Dialect, svc *index.Service) (object, why string) {
	imported, _, _ := svc.Inputs()
	set := svc.Set(d)
	switch {
	case set.Source == index.SourceEndpointSlices && !set.Headless:
		return "ServiceImport (ClusterSetIP)", "another implementation wrote it without a ClusterSetIP, so the addresses in its EndpointSlices answer"
	case set.Source == index.SourceEndpointSlices:
		return "ServiceImport (Headless)", "a headless service has the addresses of its ready endpoints"
	case set.Source == index.SourceClusterSetIPs && len(set.Addrs) == 0:
		return "ServiceImport (ClusterSetIP)", "it has no ClusterSetIP yet: its Ready condition says what it waits for"
	case set.Source == index.SourceClusterSetIPs:
		return "ServiceImport (ClusterSetIP)", "DNS answers with its ClusterSetIP"
	case imported == nil:
		return "GlobalService", "there is no ServiceImport, so the GlobalService answers in every zone"
	case d == index.Global:
		return "GlobalService", "the global dialect uses the GlobalService"
	default:
		return "GlobalService", "the ServiceImport has no ClusterSetIP, so the GlobalService answers"
	}
}

// because continues why an object answers with why the result is this one.
func (j judge) because(why string, endpoints int) string {
	at, set := j.at, j.at.Set
	switch {
	case at.why != "":
		return at.why
	case at.vip || at.result == NoData && endpoints == 0:
		return why
	case len(set.Addrs) == 0 && set.Live:
		return why + "; it has ready endpoints, but none within the boundary"
	case len(set.Addrs) == 0:
		return why + "; none of its endpoints is ready in a live cluster"
	case at.Kind == index.ZoneName:
		return why + "; the zone in the name decides, not the server's"
	case !at.ranked:
		return why + "; names below the service's are answered at any distance"
	case j.nearest != set.Tier:
		why += fmt.Sprintf("; the tier %s answers too, because fewer than %d nearer endpoints are ready (min-ready)", set.Tier, j.query.Policy.MinReady)
	case set.Tier == topology.Any:
		why += "; no preferred tier has a healthy endpoint, so those at any distance answer"
	default:
		why += fmt.Sprintf("; the endpoints in the server's own %s answer", set.Tier)
	}
	if set.Degraded {
		why += ", although they are beyond a share, or their clusters drained, Suspect or unreachable, because no other is ready"
	}
	return why
}

// choice says what leads on from a ClusterSetIP.
func (j judge) choice(all []index.Ranked, shown []Endpoint) string {
	switch {
	case j.elsewhere:
		return ", which each cluster assigns itself; that of " + j.query.From.Cluster + " isn't known here, and explain with its --context shows it"
	case slices.ContainsFunc(shown, func(e Endpoint) bool { return e.Used }):
		return ", and kube-proxy of this cluster chooses among the endpoints marked with +"
	case !slices.ContainsFunc(all, func(p index.Ranked) bool { return p.Ready }):
		return ", and no endpoint behind it is ready"
	case j.routes == nil:
		return ", and kube-proxy of this cluster chooses among the ready endpoints"
	}
	return ", and kube-proxy of this cluster uses none of the endpoints behind it"
}

// nearest returns the tier of the nearest endpoints in use.
func nearest(all []index.Ranked) topology.Tier {
	best, tier := topology.Gone, topology.Any
	for i := range all {
		if p := &all[i]; p.Used && p.Rank < best {
			best, tier = p.Rank, p.Tier
		}
	}
	return tier
}
