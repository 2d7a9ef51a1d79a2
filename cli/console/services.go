package console

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
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

// services answers /api/services.
func (s *Server) services(_ context.Context, q url.Values) (*Services, error) {
	is := s.current()
	found, meant := []*Item{}, is.search(q.Get("q"))
	for _, i := range is.set.items {
		if meant(types.NamespacedName{Namespace: i.Namespace, Name: i.Name}) && wanted(q, i) {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b *Item) int {
		if q.Get("desc") != "" {
			a, b = b, a
		}
		switch q.Get("sort") {
		case "clusters":
			return cmp.Compare(len(a.Clusters), len(b.Clusters))
		case "ready":
			return cmp.Compare(a.Ready, b.Ready)
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	offset, _ := strconv.Atoi(q.Get("offset"))
	page := found[min(max(offset, 0), len(found)):]
	return &Services{Total: len(is.set.items), Matched: len(found), Items: page[:min(pageSize, len(page))]}, nil
}

// wanted reports whether the filters of a request let a service pass.
func wanted(q url.Values, i *Item) bool {
	cluster := q.Get("cluster")
	return (q.Get("type") == "" || q.Get("type") == i.Type) &&
		(q.Get("conflicts") == "" || len(i.Conflicts) > 0) &&
		(q.Get("policy") == "" || i.Policy != "") &&
		(q.Get("empty") == "" || i.Ready == 0) &&
		(cluster == "" || slices.ContainsFunc(i.Clusters, func(e Exporter) bool { return e.Name == cluster }))
}

// set is what the hub's records at one time amount to.
type set struct {
	of    *view.HubFacts
	state *preview.State
	items []*Item // by namespace and name
}

func newSet(hub *view.HubFacts) *set {
	s := &set{of: hub, state: hub.State}
	for _, key := range s.state.Services() {
		if e := hub.Services[key]; e != nil {
			s.items = append(s.items, item(e))
		}
	}
	return s
}

// same reports whether a hub has the set's records, and says the same of who can't reach whom.
func (s *set) same(hub *view.HubFacts) bool {
	return reflect.DeepEqual(s.of.Members, hub.Members) && reflect.DeepEqual(s.of.Exports, hub.Exports) &&
		reflect.DeepEqual(s.of.Endpoints, hub.Endpoints) && reflect.DeepEqual(view.Unreachable(s.of.Heard), view.Unreachable(hub.Heard))
}

// item returns a service as it is listed.
func item(e *preview.Exported) *Item {
	i := &Item{Namespace: e.Namespace, Name: e.Name, Type: string(e.Type), Winner: e.Winner, Readiness: e.Readiness, Policy: e.Policy.String()}
	for n := range e.Conflicts {
		i.Conflicts = append(i.Conflicts, preview.ConflictOf(&e.Conflicts[n]))
	}
	for _, by := range e.By {
		i.Clusters = append(i.Clusters, Exporter{by.Cluster, by.Ready, by.Endpoints, by.Spec.ExportedAt.Time, by.Spec.ClusterIPs, by.Spec.ExportTo, nil})
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
	for i := range s.hub.Endpoints {
		e := &s.hub.Endpoints[i]
		key, _ := desired.ServiceOf(e)
		for n := range e.Spec.Endpoints {
			find(key, e.Spec.Endpoints[n].Addresses)
		}
	}
	for i := range s.hub.Exports {
		key, _ := desired.ServiceOf(&s.hub.Exports[i])
		find(key, s.hub.Exports[i].Spec.ClusterIPs)
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
