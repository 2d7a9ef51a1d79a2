package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/place"
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
		return nil, &NotFoundError{q.Name, similar(q.Name.Key, x.Snapshot().Services()), f.Hidden, f.noNamespace}
	}
	stated := svc.Policy(q.Name.Dialect)
	q.Policy = stated.Or(q.Policy)
	e := &Explanation{
		Name: q.Name.String(), Dialect: q.Name.Dialect, Time: f.Now, From: place.Place(q.From),
		Prefer: tiers(q.Policy), MinReady: q.Policy.MinReady, Stated: stated.String(),
		Conflicts: f.Conflicts, Notes: slices.Concat(f.Hidden, f.Notes),
	}
	if q.Policy.Boundary != topology.Any {
		e.Boundary = q.Policy.Boundary.String()
	}
	at := find(q.Name, x.Snapshot())
	e.Result = at.result
	for _, a := range at.Addrs {
		e.Addresses = append(e.Addresses, a.String())
	}
	if set := at.Set; !at.vip && len(set.Addrs) > 0 {
		e.Degraded = set.Degraded
		if at.ranked {
			e.Tier = set.Tier.String()
		}
	}
	var why string
	e.Source, why = source(q.Name.Dialect, svc)
	all := x.Ranking(svc, q.Name.Dialect)
	clusters := clustersOf(f.Objects)
	j := judge{query: q, at: at, clusters: clusters, nearest: nearest(all)}
	j.passedOver = !at.Set.Degraded && slices.ContainsFunc(all, func(p index.Ranked) bool { return p.Ready && !p.Used && p.Rank != topology.Outside })
	if j.elsewhere = at.vip && f.Self != "" && q.From.Cluster != "" && q.From.Cluster != f.Self; j.elsewhere {
		e.Addresses = nil
	} else if at.vip {
		j.routes, j.byClusterIP = f.routes(q.Name.Key, q.From.Zone)
	}
	e.Endpoints = endpoints(j, all)
	e.Clusters = states(f, clusters, all)
	if o := f.imported(q.Name.Key); o != nil {
		e.Notes = append(e.Notes, conditions("ServiceImport", o.Status.Conditions)...)
		e.Networks = f.networks(o)
	}
	if e.Because = because(why, j, len(all)); at.vip && at.result == Answer {
		e.Because += j.choice(all, e.Endpoints)
	}
	return e, nil
}

// Locate returns the location of a server in that cluster, as far as the MemberCluster determines it: the zones in its spec, or else
// those of its nodes. With several zones, the server's zone is unknown.
func (f *Facts) Locate(cluster string) topology.Location {
	c := clustersOf(f.Objects)[cluster]
	if c == nil {
		return topology.Location{Cluster: cluster}
	}
	if len(c.Zones) > 1 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s is in zones %s: set that of the server with --from %s/ZONE/%s",
			cluster, strings.Join(c.Zones, ", "), cluster, cmp.Or(c.Region, "-")))
	}
	return c.Location(cluster)
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

func because(why string, j judge, endpoints int) string {
	at, set := j.at, j.at.Set
	switch {
	case at.why != "":
		return at.why
	case at.vip || at.result == NoData && endpoints == 0:
		return why
	case at.result == NXDomain && set.Headless && !set.Live:
		return why + ", and none of its endpoints is ready in a live cluster, so the name doesn't exist (KEP-1645, specification 2.4.1)"
	case len(set.Addrs) == 0 && set.Live:
		return why + "; it has ready endpoints, but none within the boundary"
	case len(set.Addrs) == 0:
		return why + "; none of its endpoints is ready in a live cluster"
	case at.Kind == index.ZoneName:
		return why + "; the zone in the name decides, not the server's"
	case !at.ranked:
		return why + "; names below the service's are answered at any distance"
	}
	why += "; " + j.nearness(set.Tier)
	if set.Degraded {
		why += ", although their clusters are drained, Suspect or unreachable, because no healthy cluster has a ready endpoint"
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

func (j judge) nearness(t topology.Tier) string {
	widened := ""
	if j.nearest != topology.Any && j.nearest != t {
		widened = fmt.Sprintf(", because fewer than %d nearer ones are ready (min-ready)", j.query.Policy.MinReady)
	}
	switch {
	case j.alike():
		return "no tier is preferred, so all ready endpoints answer"
	case t != topology.Any:
		return fmt.Sprintf("the endpoints in the server's own %s answer", t) + widened
	case widened != "":
		return "all ready endpoints answer" + widened
	}
	if j.passedOver {
		return "no healthy endpoint is near, so all healthy ones answer"
	}
	return "no endpoint is near, so all ready endpoints answer"
}

func (j judge) alike() bool { return j.query.Policy.Prefer != nil && len(j.query.Policy.Prefer) == 0 }

func nearest(all []index.Ranked) topology.Tier {
	best, tier := topology.Gone, topology.Any
	for i := range all {
		if p := &all[i]; p.Used && p.Rank < best {
			best, tier = p.Rank, p.Tier
		}
	}
	return tier
}

func clustersOf(objects []index.Object) map[string]*index.Cluster {
	clusters := map[string]*index.Cluster{}
	for _, o := range objects {
		if c, ok := o.(*index.Cluster); ok {
			known := *c
			clusters[c.Name] = &known
		}
	}
	for _, o := range objects {
		if r, ok := o.(*index.Reachability); ok {
			for _, name := range r.Unreachable {
				if c := clusters[name]; c != nil {
					c.Unreachable = true
				}
			}
		}
	}
	return clusters
}

func states(f Facts, clusters map[string]*index.Cluster, endpoints []index.Ranked) []Cluster {
	var names []string
	for i := range endpoints {
		if endpoints[i].Cluster != "" {
			names = append(names, endpoints[i].Cluster)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	out := make([]Cluster, len(names))
	for i, name := range names {
		out[i] = Cluster{Place: place.Place{Cluster: name}, Phase: "no MemberCluster, so it counts as healthy"}
		if c := clusters[name]; c != nil {
			out[i].Zone, out[i].Region, out[i].Unreachable = zones(c), c.Region, c.Unreachable
		}
		for j := range f.Members {
			if mc := &f.Members[j]; strings.EqualFold(mc.Name, name) {
				out[i].Phase, out[i].Drain = string(cmp.Or(mc.Status.Phase, "Unknown")), mc.Spec.Drain
				if t := mc.Status.LastHeartbeatTime; t != nil {
					out[i].LastHeartbeat = &t.Time
				}
			}
		}
	}
	return out
}
