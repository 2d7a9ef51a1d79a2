package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/kubeproxy"
	"github.com/clusterset/clusterset/internal/topology"
)

// anyAiling reports whether some cluster is silent, drained or unreachable. If none is, no service is at its last resort.
func anyAiling(l *LocalFacts) bool {
	return len(unreachable(l)) > 0 || slices.ContainsFunc(l.Members, func(m clustersetv1alpha1.MemberCluster) bool {
		c, _ := index.FromMemberCluster(&m)
		return c != nil && c.Ailment() != ""
	})
}

func unreachable(l *LocalFacts) []string {
	if l.Reach == nil {
		return nil
	}
	r, _ := index.FromReachability(l.Reach)
	return r.Unreachable
}

// lastResort lists the services at their last resort, and as problems those whose names have no address any more.
func (s *Services) lastResort(l *LocalFacts) {
	for _, p := range LastResort(l) {
		list := &s.Problems
		if p.Cure = cureSilent; p.Reason == reasonLastResort {
			list = &s.LastResort
		}
		*list = append(*list, p)
	}
}

// The reasons of services of which only silent clusters have ready endpoints: their names are answered, or no longer.
const (
	reasonLastResort = "LastResort"
	reasonExpired    = "Expired"
	cureSilent       = "start its pods in another cluster, or see why these are silent: clusterset doctor there, and the logs of their agents"
)

// LastResort lists the services that currently lead only to silent, drained or unreachable clusters, or nowhere because of that, as seen from the
// local cluster: its service proxies by the EndpointSlices behind a ClusterSetIP, its DNS servers by a name with the endpoints' addresses.
func LastResort(l *LocalFacts) []Problem {
	if !anyAiling(l) {
		return nil
	}
	var objects []index.Object
	put := func(o runtime.Object) {
		if object, _, _ := index.Convert(o); object != nil { // explain reports its errors
			objects = append(objects, object)
		}
	}
	v := vips{clusters: map[string]*topology.Member{}, of: map[string][]*discoveryv1.EndpointSlice{}}
	v.view.UseExpired = true
	self := topology.Location{Cluster: l.Cluster}
	for i := range l.Members {
		put(&l.Members[i])
		if c, _ := index.FromMemberCluster(&l.Members[i]); c != nil {
			c.Unreachable = slices.Contains(unreachable(l), c.Name)
			v.clusters[c.Name] = &c.Member
			if c.Name == l.Cluster {
				self = c.Location(c.Name)
			}
		}
	}
	v.view.Self = self
	if l.Reach != nil {
		put(l.Reach)
	}
	for i := range l.Imports {
		put(&l.Imports[i])
	}
	for i := range l.Globals {
		put(&l.Globals[i])
	}
	for i := range l.Slices {
		s := &l.Slices[i]
		put(s)
		if derived := s.Labels[api.LabelKubernetesServiceName]; derived != "" {
			v.of[s.Namespace+"/"+derived] = append(v.of[s.Namespace+"/"+derived], s)
		}
	}
	x := index.New(index.Options{Self: self})
	x.Put(objects...)
	x.Publish()
	var all []Problem
	for _, svc := range x.Snapshot().Services() {
		p := Problem{Namespace: svc.Key().Namespace(), Name: svc.Key().Name()}
		if p.Message = v.lastResort(svc.Key()); p.Message != "" {
			p.What, p.Reason = "ServiceImport", reasonLastResort
		} else {
			p.What, p.Reason, p.Message = nameLastResort(x, svc, v.clusters)
		}
		if p.Message != "" {
			all = append(all, p)
		}
	}
	return all
}

// nameLastResort returns the problem of a service whose name has the addresses of its endpoints.
func nameLastResort(x *index.Index, svc *index.Service, members map[string]*topology.Member) (what, reason, message string) {
	for _, d := range []index.Dialect{index.MCS, index.Global} {
		set := svc.Set(d)
		if set.Source == index.SourceClusterSetIPs {
			continue
		}
		used, gone := map[string]bool{}, map[string]bool{}
		for _, e := range x.Ranking(svc, d) {
			switch {
			case e.Used:
				used[e.Cluster] = true
			case e.Ready && e.Rank == topology.Gone:
				gone[e.Cluster] = true
			}
		}
		what = map[bool]string{true: "GlobalService", false: "ServiceImport"}[set.Source == index.SourceGlobalService]
		switch {
		case len(used) > 0 && set.Degraded:
			return what, reasonLastResort, "its name leads only to " + ailing(used, members)
		case len(used) == 0 && len(gone) > 0 && !set.Live:
			return what, reasonExpired, "its name has no address: ready endpoints are only in " + ailing(gone, members)
		}
	}
	return "", "", ""
}

// vips has what determines where the cluster's service proxies send connections to ClusterSetIPs.
type vips struct {
	view     topology.View
	clusters map[string]*topology.Member
	of       map[string][]*discoveryv1.EndpointSlice // by the namespace and name of the derived Service
}

// choice is what a service proxy chooses endpoints for: a port in a family, on the nodes of a zone.
type choice struct {
	kubeproxy.Port
	zone string // empty: every zone
}

// lastResort says whether some or all connections to a service's ClusterSetIP go to silent, drained or unreachable
// clusters because there are no others.
func (v *vips) lastResort(key index.ServiceKey) string {
	choices := v.choices(v.of[key.Namespace()+"/"+api.DerivedServiceName(key.Namespace(), key.Name())])
	clusters := map[string]bool{}
	var bad []choice
	for c, from := range choices {
		if !slices.ContainsFunc(from, func(e *topology.Endpoint) bool { return !v.view.Rank(e).Degraded() }) {
			bad = append(bad, c)
			for _, e := range from {
				clusters[e.Cluster] = true
			}
		}
	}
	if len(bad) == 0 {
		return ""
	}
	all := slices.Collect(maps.Keys(choices))
	where := ""
	for _, part := range []struct {
		word string
		of   func(choice) string
	}{
		{"", func(c choice) string { return string(c.Family) }},
		{"port ", func(c choice) string { return c.Name }},
		{"zone ", func(c choice) string { return c.zone }},
	} {
		if some := distinct(bad, part.of); len(some) < len(distinct(all, part.of)) {
			where += ", " + part.word + screen.Several(some, shownWords, ", ")
		}
	}
	return "behind its ClusterSetIP" + where + " only " + ailing(clusters, v.clusters) + map[bool]string{true: " is left", false: " are left"}[len(clusters) == 1]
}

func (v *vips) choices(all []*discoveryv1.EndpointSlice) map[choice][]*topology.Endpoint {
	choices := map[choice][]*topology.Endpoint{}
	for port, ready := range kubeproxy.Ready(all) {
		zones := kubeproxy.Zones(ready)
		if len(zones) == 0 {
			zones = []string{""}
		}
		for _, zone := range zones {
			for _, e := range kubeproxy.In(ready, zone) {
				c := choice{port, zone}
				choices[c] = append(choices[c], &topology.Endpoint{Cluster: e.Cluster, Member: v.clusters[e.Cluster]})
			}
		}
	}
	return choices
}

// ailing names clusters and what is wrong with each.
func ailing(clusters map[string]bool, members map[string]*topology.Member) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		words = append(words, strings.TrimSpace(cmp.Or(members[name], &topology.Member{}).Ailment()+" "+name))
	}
	return screen.Several(words, shownWords, ", ")
}

// shownWords is how many words of a list are shown.
const shownWords = 3

func distinct(all []choice, of func(choice) string) []string {
	var words []string
	for _, c := range all {
		words = append(words, of(c))
	}
	slices.Sort(words)
	return slices.Compact(words)
}
