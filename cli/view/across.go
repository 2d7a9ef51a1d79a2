package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
)

// Across says how a service of a cluster in another network is reached.
type Across struct {
	Cluster string `json:"cluster"`
	// Network is its network, empty if it has no name.
	Network string `json:"network,omitempty"`
	// Addresses are its external addresses that are used. Without any, Reason is that of the condition clusterset.dev/Reachable.
	Addresses []string `json:"addresses,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	// Message is a sentence about it, and Cure is what to do if it isn't reached.
	Message string `json:"message"`
	Cure    string `json:"cure,omitempty"`

	why string
}

// AcrossNetworks says how each cluster of another network that exports a service is reached from the cluster self, by the objects that the
// importer wrote there. all may have slices of other services.
func AcrossNetworks(self string, members []clustersetv1alpha1.MemberCluster, o *mcsv1beta1.ServiceImport, all []*discoveryv1.EndpointSlice) (across []Across) {
	own := memberOf(members, self)
	for i := range o.Status.Clusters {
		name := o.Status.Clusters[i].Cluster
		m := memberOf(members, name)
		if name == self || !m.Apart(own) {
			continue
		}
		a := Across{Cluster: name}
		if m != nil {
			a.Network = m.Spec.Network
		}
		a.read(o, all)
		if len(a.Addresses) == 0 {
			a.unreached(o, m)
		}
		across = append(across, a)
	}
	slices.SortFunc(across, func(a, b Across) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return across
}

func memberOf(members []clustersetv1alpha1.MemberCluster, name string) *clustersetv1alpha1.MemberCluster {
	if i := slices.IndexFunc(members, func(m clustersetv1alpha1.MemberCluster) bool { return m.Name == name }); i >= 0 {
		return &members[i]
	}
	return nil
}

// read says at which addresses and ports the cluster is reached.
func (a *Across) read(o *mcsv1beta1.ServiceImport, all []*discoveryv1.EndpointSlice) {
	var ports []string
	ready := false
	for _, s := range all {
		if _, external := s.Annotations[api.AnnotationExternal]; !external || s.Namespace != o.Namespace || s.Labels[api.LabelServiceName] != o.Name || s.Labels[api.LabelSourceCluster] != a.Cluster {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			a.Addresses = append(a.Addresses, e.Addresses...)
			ready = ready || e.Conditions.Ready == nil || *e.Conditions.Ready
		}
		for _, p := range s.Ports {
			name, number := ptr.Deref(p.Name, ""), ptr.Deref(p.Port, 0)
			if !slices.ContainsFunc(o.Spec.Ports, func(own mcsv1beta1.ServicePort) bool { return own.Name == name && own.Port == number }) {
				ports = append(ports, strings.TrimSpace(name+" "+strconv.Itoa(int(number))))
			}
		}
	}
	slices.Sort(a.Addresses)
	a.Addresses = slices.Compact(a.Addresses)
	if len(a.Addresses) == 0 {
		return
	}
	slices.Sort(ports)
	at := "the service's own ports, as at a load balancer"
	if ports = slices.Compact(ports); len(ports) > 0 {
		at = "other ports, as at nodes: " + strings.Join(ports, ", ")
	}
	a.Message = fmt.Sprintf("%s is in %s, and reached at %s, at %s", a.Cluster, networkName(a.Network), strings.Join(a.Addresses, ", "), at)
	if !ready {
		a.Message += "; no endpoint behind is ready"
	}
}

// unreached says why the cluster isn't reached, and what to do.
func (a *Across) unreached(o *mcsv1beta1.ServiceImport, m *clustersetv1alpha1.MemberCluster) {
	a.Reason, a.why, a.Cure = whyUnreached(o, m)
	a.Message = fmt.Sprintf("%s is in %s, and isn't used: %s", a.Cluster, networkName(a.Network), a.why)
}

func whyUnreached(o *mcsv1beta1.ServiceImport, m *clustersetv1alpha1.MemberCluster) (reason, why, cure string) {
	switch {
	case o.Spec.Type == mcsv1beta1.Headless:
		return api.ReasonHeadless, "the addresses of a headless service's pods mean nothing in another network",
			"export a Service of type LoadBalancer for each pod there, or put the clusters into one network"
	case m == nil || len(m.Spec.ExternalCIDRs) == 0:
		return api.ReasonNotInExternalCIDRs, "its MemberCluster states no spec.externalCIDRs", "an administrator of the hub has to set spec.externalCIDRs of its MemberCluster"
	}
	return api.ReasonNoExternalAddress, "it has no external address, or none that may be used",
		"give the Service there the type LoadBalancer or NodePort, or state its addresses in " + api.AnnotationExternalAddresses +
			"; the condition " + api.ConditionReachable + " of the ServiceExport there says more, and an Event of the ServiceImport here if addresses were left out"
}

func networkName(network string) string {
	if network == "" {
		return "the network without a name"
	}
	return "network " + network
}

// anyApart reports whether some cluster is in another network than this one.
func anyApart(l *LocalFacts) bool {
	own := memberOf(l.Members, l.Cluster)
	return l.Cluster != "" && slices.ContainsFunc(l.Members, func(m clustersetv1alpha1.MemberCluster) bool { return m.Apart(own) })
}

// outOfReach finds services of which this cluster uses nothing, because all clusters that export them are in other networks and aren't reached.
// One problem has all services of a cluster that have the same cure (D97 of docs/spec/data-path.md).
func outOfReach(l *LocalFacts) (problems []Problem) {
	if l.RoutesErr != nil || !anyApart(l) {
		return nil
	}
	routed := make(map[string][]*discoveryv1.EndpointSlice, len(l.Imports))
	for i := range l.Slices {
		key := l.Slices[i].Namespace + "/" + l.Slices[i].Labels[api.LabelServiceName]
		routed[key] = append(routed[key], &l.Slices[i])
	}
	type kind struct{ cluster, reason string }
	services, first := map[kind][]string{}, map[kind]Across{}
	for i := range l.Imports {
		o := &l.Imports[i]
		key := o.Namespace + "/" + o.Name
		across := AcrossNetworks(l.Cluster, l.Members, o, routed[key])
		if len(across) == 0 || len(across) < len(o.Status.Clusters) || slices.ContainsFunc(across, func(a Across) bool { return len(a.Addresses) > 0 }) {
			continue
		}
		for _, a := range across {
			k := kind{a.Cluster, a.Reason}
			services[k], first[k] = append(services[k], key), a
		}
	}
	for k, names := range services {
		slices.Sort(names)
		a := first[k]
		problems = append(problems, Problem{
			Name: k.cluster, What: "MemberCluster", Reason: "NotReached", Cure: a.Cure,
			Message: fmt.Sprintf("%s %s can't be used here: it is in %s, and %s", screen.Counted(len(names), "service"), screen.Several(names, shownServices, ", "), networkName(a.Network), a.why),
		})
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message)) })
	return problems
}
