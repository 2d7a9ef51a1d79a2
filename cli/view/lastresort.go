package view

import (
	"net/netip"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// ailing says what is wrong with the clusters whose endpoints are used last, or not at all. To itself a cluster is never silent.
func ailing(members []clustersetv1alpha1.MemberCluster, self string, unreachable []string) map[string]string {
	words := map[string]string{}
	for i := range members {
		c, _ := index.FromMemberCluster(&members[i])
		if c == nil {
			continue
		}
		if c.Unreachable = slices.Contains(unreachable, c.Name); c.Name == self {
			c.Member = topology.Member{Drain: c.Drain}
		}
		if word := c.Ailment(); word != "" {
			words[c.Name] = word
		}
	}
	return words
}

// unreachable are the clusters that the agent can't reach.
func (l *LocalFacts) unreachable() (names []string) {
	if l.Reach == nil {
		return nil
	}
	for _, c := range l.Reach.Clusters {
		if c.Reachable == metav1.ConditionFalse {
			names = append(names, c.Name)
		}
	}
	return names
}

// lastResort finds the services of which only ailing clusters have ready endpoints, as the local cluster has imported them.
func (s *Services) lastResort(l *LocalFacts) {
	ails := ailing(l.Members, l.Cluster, l.unreachable())
	ready := Ready(l.Slices)
	for i := range l.Imports {
		o := &l.Imports[i]
		var in []string
		for cluster, n := range ready[client.ObjectKeyFromObject(o)] {
			if n > 0 {
				in = append(in, cluster)
			}
		}
		byName := o.Spec.Type == mcsv1beta1.Headless || len(o.Spec.IPs) == 0
		s.onlyIn(Problem{Namespace: o.Namespace, Name: o.Name, What: "ServiceImport"}, in, ails, byName)
	}
}

// onlyIn notes a service whose ready endpoints are in these clusters, if all of them ail. byName says that its name has the addresses of the endpoints,
// of which those in Expired clusters aren't answered: then it is a problem.
func (s *Services) onlyIn(p Problem, clusters []string, ails map[string]string, byName bool) {
	var words []string
	slices.Sort(clusters)
	for _, c := range clusters {
		if ails[c] == "" {
			return
		}
		words = append(words, ails[c]+" "+c)
		byName = byName && ails[c] == string(clustersetv1alpha1.MemberExpired)
	}
	p.Message = "ready endpoints are only in " + screen.Several(words, shownNames, ", ")
	p.Cure = "start its pods in another cluster, or see why these are silent: clusterset doctor there, and the logs of their agents"
	switch {
	case len(words) == 0:
	case byName:
		p.Reason, p.Message = "Expired", "its name has no address: "+p.Message
		s.Problems = append(s.Problems, p)
	default:
		p.Reason = "LastResort"
		s.LastResort = append(s.LastResort, p)
	}
}

// Ready counts the ready endpoints of services by cluster, as imported: those behind a cluster's external addresses, too.
func Ready(imported []discoveryv1.EndpointSlice) map[types.NamespacedName]map[string]int {
	all, addrs := map[types.NamespacedName]map[string]int{}, map[types.NamespacedName]map[string][]netip.Addr{}
	for i := range imported {
		s := &imported[i]
		service, cluster := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[api.LabelServiceName]}, s.Labels[api.LabelSourceCluster]
		if all[service] == nil {
			all[service], addrs[service] = map[string]int{}, map[string][]netip.Addr{}
		}
		if behind, external := s.Annotations[api.AnnotationExternal]; external {
			n, _ := strconv.Atoi(behind)
			all[service][cluster] = max(all[service][cluster], n)
			continue
		}
		for _, e := range s.Endpoints {
			if len(e.Addresses) == 0 || e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			if addr, err := netip.ParseAddr(e.Addresses[0]); err == nil {
				addrs[service][cluster] = append(addrs[service][cluster], addr)
			}
		}
	}
	for service, of := range addrs {
		for cluster, them := range of {
			all[service][cluster] = max(all[service][cluster], preview.Distinct(them))
		}
	}
	return all
}
