package console

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

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
			return !contains(key, word) && !named(key, word)
		})
	}
}

// at returns the services that have an address.
func (s *shown) at(addr netip.Addr) map[types.NamespacedName]bool {
	found := map[types.NamespacedName]bool{}
	is := func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && a == addr
	}
	for _, e := range s.set.endpoints {
		has := slices.ContainsFunc(e.Spec.Endpoints, func(e clustersetv1alpha1.Endpoint) bool { return slices.ContainsFunc(e.Addresses, is) })
		if key, _ := desired.ServiceOf(e); has {
			found[key] = true
		}
	}
	for _, key := range s.set.keys {
		for _, r := range s.set.state.Records(key) {
			if slices.ContainsFunc(r.Spec.ClusterIPs, is) {
				found[key] = true
			}
		}
	}
	for _, from := range s.sources {
		if from.Local != nil {
			for i := range from.Local.Imports {
				if o := &from.Local.Imports[i]; slices.ContainsFunc(o.Spec.IPs, is) {
					found[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = true
				}
			}
		}
	}
	return found
}

// contains reports whether namespace/name contains a word, which may have a slash itself.
func contains(key types.NamespacedName, word string) bool {
	namespace, name, slash := strings.Cut(word, "/")
	if slash {
		return strings.HasSuffix(key.Namespace, namespace) && strings.HasPrefix(key.Name, name)
	}
	return strings.Contains(key.Namespace, word) || strings.Contains(key.Name, word)
}

// named reports whether a word is, or begins as, a DNS name of the service: NAME.NAMESPACE.svc.ZONE, with or without labels before it.
func named(key types.NamespacedName, word string) bool {
	word = strings.TrimSuffix(word, ".")
	whole := key.Name + "." + key.Namespace + ".svc."
	return strings.Contains(word, ".") && (strings.HasPrefix(whole, word) || strings.HasPrefix(word, whole) || strings.Contains(word, "."+whole))
}
