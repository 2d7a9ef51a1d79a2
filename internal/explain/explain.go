package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// Explain says why the name has the addresses that a server at that place answers. The error is a *NotFoundError where
// there is no such service.
func Explain(q Query, f Facts) (*Explanation, error) {
	options := index.Options{Self: q.From, Policy: q.Policy}
	x := index.New(options)
	x.Put(f.Objects...)
	x.Publish()
	svc := x.Snapshot().Service(string(q.Name.Key))
	if svc == nil {
		return nil, &NotFoundError{q.Name, near(q.Name.Key, x.Snapshot().Services())}
	}
	e := &Explanation{
		Name: q.Name.String(), Dialect: q.Name.Dialect, Time: f.Now, From: Place(q.From),
		Prefer: tiers(q.Policy), Conflicts: f.Conflicts, Notes: f.Notes,
	}
	if q.Policy.Boundary != topology.Any {
		e.Boundary = q.Policy.Boundary.String()
	}
	set := svc.MCS()
	if q.Name.Dialect == Global {
		set = svc.Global()
	}
	at := find(q.Name, set)
	e.Result = at.result
	for _, a := range at.addrs {
		e.Addresses = append(e.Addresses, a.String())
	}

	o := origin(q.Name.Dialect, svc)
	e.Source = o.source
	clusters := clustersOf(f.Objects)
	judged := probe(options, slices.Collect(values(clusters)), o.groups)
	if !at.vip && len(set.Addrs) > 0 {
		e.Degraded = set.Degraded
		if at.ranked {
			e.Tier = set.Tier.String()
		}
	}
	e.Endpoints = endpoints(judge{q, set, at, clusters, f.Members}, judged)
	e.Clusters = states(f, clusters, o.groups)
	e.Because = because(o, set, at, judged)
	if err := e.check(at); err != nil {
		return nil, err
	}
	return e, nil
}

// check makes sure that what is said of the endpoints comes to the answer. It can't fail, and where it does whoever reads
// the explanation should not believe it.
func (e *Explanation) check(at found) error {
	if at.vip || at.result == NXDomain {
		return nil
	}
	var addrs []netip.Addr
	for i := range e.Endpoints {
		if e.Endpoints[i].Answered {
			addrs = append(addrs, netip.MustParseAddr(e.Endpoints[i].Address))
		}
	}
	if got := index.SortAddrs(addrs); !slices.Equal(got, at.addrs) {
		return fmt.Errorf("explanation and answer differ, which is a mistake of clusterset's: please report it with -o yaml (%v, answered %v)", got, at.addrs)
	}
	return nil
}

// tiers lists the tiers as they are tried.
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

// source is where a service's answer comes from.
type source struct {
	source string
	why    string
	groups []index.Group
}

// origin says which of the service's objects answers. It follows from the views: an object that has no part in one has no
// endpoint to show.
func origin(d Dialect, svc *index.Service) source {
	imported, endpointSlices, global := svc.Inputs()
	behind := make([]index.Group, len(endpointSlices))
	for i, s := range endpointSlices {
		behind[i] = s.Group
	}
	fromImport := imported != nil && (global == nil || d == MCS)
	switch {
	case !fromImport && imported == nil:
		return source{"GlobalService", "there is no ServiceImport, so the GlobalService answers in every zone", global.Groups}
	case !fromImport:
		return source{"GlobalService", "the global dialect goes by the GlobalService", global.Groups}
	case imported.Headless:
		return source{"ServiceImport (Headless)", "it goes by its ready endpoints", behind}
	case len(imported.IPs) == 0 && global != nil:
		return source{"GlobalService", "the ServiceImport has no ClusterSetIP, so the GlobalService answers", global.Groups}
	case len(imported.IPs) == 0:
		return source{"ServiceImport (ClusterSetIP)", "it has no ClusterSetIP yet: its Ready condition says what it waits for", behind}
	}
	return source{"ServiceImport (ClusterSetIP)", "its ClusterSetIP is answered whatever stands behind it; kube-proxy picks the endpoint", behind}
}

// because says in a sentence or two why the result is what it is.
func because(o source, set *index.Set, at found, all []probed) string {
	switch {
	case at.why != "":
		return at.why
	case at.vip || at.result == NoData && len(all) == 0:
		return o.why
	case at.result == NXDomain && set.Headless && !set.Live:
		return o.why + ", and none is ready in a cluster that lives: a headless service without any does not exist (KEP-1645, specification 2.4.1)"
	case len(set.Addrs) == 0 && set.Live:
		return o.why + "; it has ready endpoints, but none within the boundary"
	case len(set.Addrs) == 0:
		return o.why + "; none of its endpoints is ready in a cluster that lives"
	case !at.ranked:
		return o.why + "; a name below the service's has its addresses at whatever distance"
	}
	why := o.why + "; " + nearness(set.Tier)
	if set.Degraded {
		why += ", among drained and Suspect clusters only, because no healthy one has a ready endpoint"
	}
	return why
}

func nearness(t topology.Tier) string {
	if t == topology.Any {
		return "none is near, so all that are ready answer"
	}
	return fmt.Sprintf("those of the server's own %s answer", t)
}

func clustersOf(objects []index.Object) map[string]*index.Cluster {
	clusters := map[string]*index.Cluster{}
	for _, o := range objects {
		if c, ok := o.(*index.Cluster); ok {
			clusters[c.Name] = c
		}
	}
	return clusters
}

func values(clusters map[string]*index.Cluster) func(yield func(index.Object) bool) {
	return func(yield func(index.Object) bool) {
		for _, c := range clusters {
			if !yield(c) {
				return
			}
		}
	}
}

// states describes the clusters that have endpoints of the service.
func states(f Facts, clusters map[string]*index.Cluster, groups []index.Group) []Cluster {
	var names []string
	for i := range groups {
		if groups[i].Cluster != "" {
			names = append(names, groups[i].Cluster)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	out := make([]Cluster, len(names))
	for i, name := range names {
		out[i] = Cluster{Place: Place{Cluster: name}, Phase: "no MemberCluster, so taken as healthy"}
		if c := clusters[name]; c != nil {
			out[i].Zone, out[i].Region = c.Zone, c.Region
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
