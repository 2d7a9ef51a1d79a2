package console

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/importer/desired"
)

// pageSize is the number of services in an answer.
const pageSize = 100

// Services is the answer of /api/services: one page of the services that match.
type Services struct {
	Total   int     `json:"total"`
	Matched int     `json:"matched"`
	Items   []*Item `json:"items"`
}

// Item is a service as its exports state it.
type Item struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Clusters  []Exporter `json:"clusters"`
	// Winner is the cluster whose export decides where exports differ.
	Winner string `json:"winner"`
	preview.Readiness
	Ports []string `json:"ports,omitempty"`
	// Policy is what the service states.
	Policy string `json:"policy,omitempty"`
	// Conflicts are those that some cluster sees.
	Conflicts []preview.Conflict `json:"conflicts,omitempty"`
}

// Exporter is a cluster that exports a service. Its state is that of the Map.
type Exporter struct {
	Name       string    `json:"name"`
	Ready      int       `json:"ready"`
	Endpoints  int       `json:"endpoints"`
	ExportedAt time.Time `json:"exportedAt"`
	ClusterIPs []string  `json:"clusterIPs,omitempty"`
	// ExportTo are the clusters and communities that its export is for. Empty: all.
	ExportTo []string `json:"exportTo,omitempty"`
	// Unseen are the clusters that don't see its export, in the answer of /api/service.
	Unseen []Unseen `json:"unseen,omitempty"`
}

// Unseen has the clusters, sorted, that don't see an export for one reason. Why is the sentence that `clusterset explain` has, with {exporter} and
// {viewer} for the names of the two clusters.
type Unseen struct {
	Why  string   `json:"why"`
	From []string `json:"from"`
}

// orders are the orders of /api/services. Equal services are ordered by namespace and name.
var orders = map[string]func(a, b *Item) int{
	"": func(a, b *Item) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	},
	"clusters": func(a, b *Item) int { return cmp.Compare(len(a.Clusters), len(b.Clusters)) },
	"ready":    func(a, b *Item) int { return cmp.Compare(a.Ready, b.Ready) },
}

// services answers /api/services.
func (s *Server) services(_ context.Context, q query) (*Services, error) {
	offset, err := strconv.ParseUint(cmp.Or(q.Get("offset"), "0"), 10, 31)
	if err != nil {
		return nil, badRequest("offset: %w", err)
	}
	order := orders[q.Get("sort")]
	if order == nil {
		return nil, badRequest("sort is %q; want clusters or ready", q.Get("sort"))
	}
	is := s.current()
	found, meant := []*Item{}, is.search(q.Get("q"))
	for _, key := range is.set.keys { // by namespace and name
		if i := is.set.items[key]; meant(key) && q.wants(i) {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b *Item) int {
		if q.Get("desc") != "" {
			a, b = b, a
		}
		return order(a, b)
	})
	page := found[min(int(offset), len(found)):]
	return &Services{Total: len(is.set.items), Matched: len(found), Items: page[:min(pageSize, len(page))]}, nil
}

// wants reports whether the filters of the query let a service pass.
func (q query) wants(i *Item) bool {
	cluster := q.Get("cluster")
	return (q.Get("type") == "" || q.Get("type") == i.Type) &&
		(q.Get("conflicts") == "" || len(i.Conflicts) > 0) &&
		(q.Get("policy") == "" || i.Policy != "") &&
		(q.Get("empty") == "" || i.Ready == 0) &&
		(cluster == "" || slices.ContainsFunc(i.Clusters, func(e Exporter) bool { return e.Name == cluster }))
}

// set is the hub's records at one time.
type set struct {
	state   *preview.State
	members []*clustersetv1alpha1.MemberCluster
	items   map[types.NamespacedName]*Item
	// endpoints are those of all services.
	endpoints []*clustersetv1alpha1.ExportedEndpoints
	keys      []types.NamespacedName // of the items, sorted
}

// newSet returns the set of a hub's objects. It reuses the unchanged items of an earlier set.
func newSet(objects []runtime.Object, earlier *set) *set {
	s := &set{state: preview.NewState(objects), items: map[types.NamespacedName]*Item{}}
	for _, o := range objects {
		switch o := o.(type) {
		case *clustersetv1alpha1.MemberCluster:
			s.members = append(s.members, o)
		case *clustersetv1alpha1.ExportedEndpoints:
			s.endpoints = append(s.endpoints, o)
		}
	}
	slices.SortFunc(s.members, func(a, b *clustersetv1alpha1.MemberCluster) int { return cmp.Compare(a.Name, b.Name) })
	for _, key := range s.state.Services() {
		i := earlier.items[key]
		if i == nil || !s.state.SameExported(earlier.state, key) {
			i = item(s.state.Exported(key))
		}
		if i != nil {
			s.items[key] = i
			s.keys = append(s.keys, key)
		}
	}
	return s
}

// item returns a service as it is listed, or nil if there is none.
func item(e *preview.Exported) *Item {
	if e == nil {
		return nil
	}
	i := &Item{Namespace: e.Namespace, Name: e.Name, Type: string(e.Type), Winner: e.Winner, Readiness: e.Readiness, Policy: e.Policy.String()}
	for n := range e.Conflicts {
		i.Conflicts = append(i.Conflicts, preview.ConflictOf(&e.Conflicts[n]))
	}
	for _, by := range e.By {
		i.Clusters = append(i.Clusters, Exporter{by.Cluster, by.Ready, by.Endpoints, by.ExportedAt, by.ClusterIPs, by.ExportTo, nil})
	}
	for _, p := range e.Ports {
		i.Ports = append(i.Ports, strings.TrimSpace(fmt.Sprintf("%s %d/%s", p.Name, p.Port, p.Protocol)))
	}
	return i
}

// search returns a function that reports whether a service is meant by all words of a text: parts of namespace/name, a DNS name, or an address of
// an endpoint, a ClusterIP or a ClusterSetIP.
func (s *shown) search(text string) func(types.NamespacedName) bool {
	words := strings.Fields(strings.ToLower(text))
	at := map[string]map[types.NamespacedName]bool{}
	for _, word := range words {
		if addr, err := netip.ParseAddr(word); err == nil && at[word] == nil {
			at[word] = s.at(addr.Unmap())
		}
	}
	return func(key types.NamespacedName) bool {
		return !slices.ContainsFunc(words, func(word string) bool {
			if found := at[word]; found != nil {
				return !found[key]
			}
			return !named(key, word)
		})
	}
}

// at returns the services that have an address.
func (s *shown) at(addr netip.Addr) map[types.NamespacedName]bool {
	found := map[types.NamespacedName]bool{}
	find := func(key types.NamespacedName, addresses []string) {
		for _, text := range addresses {
			if a, err := netip.ParseAddr(text); err == nil && a == addr {
				found[key] = true
			}
		}
	}
	for _, e := range s.set.endpoints {
		key, _ := desired.ServiceOf(e)
		for i := range e.Spec.Endpoints {
			find(key, e.Spec.Endpoints[i].Addresses)
		}
	}
	for _, key := range s.set.keys {
		for _, r := range s.set.state.Records(key) {
			find(key, r.Spec.ClusterIPs)
		}
	}
	for _, from := range s.sources {
		if from.Local != nil {
			for i := range from.Local.Imports {
				o := &from.Local.Imports[i]
				find(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.Spec.IPs)
			}
		}
	}
	return found
}

// named reports whether a word is a part of namespace/name, or is or begins as a DNS name of the service: NAME.NAMESPACE.svc.ZONE, with or
// without labels before it.
func named(key types.NamespacedName, word string) bool {
	if namespace, name, slash := strings.Cut(word, "/"); slash {
		return strings.HasSuffix(key.Namespace, namespace) && strings.HasPrefix(key.Name, name)
	}
	if strings.Contains(key.Namespace, word) || strings.Contains(key.Name, word) {
		return true
	}
	word = strings.TrimSuffix(word, ".")
	whole := key.Name + "." + key.Namespace + ".svc."
	return strings.Contains(word, ".") && (strings.HasPrefix(whole, word) || strings.HasPrefix(word, whole) || strings.Contains(word, "."+whole))
}
