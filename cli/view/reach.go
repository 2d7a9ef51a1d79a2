package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/verdict"
)

// allUnreachable is the reason of verdicts that stay, because nothing can be reached.
const allUnreachable = string(verdict.AllUnreachable)

// reach adds what is measured: by this cluster, and as all say on the hub.
func (r *Report) reach(f Facts) {
	if f.Local != nil && f.Local.Reach != nil {
		for i := range f.Local.Reach.Clusters {
			m := &f.Local.Reach.Clusters[i]
			if at := slices.IndexFunc(r.Clusters, func(c Cluster) bool { return c.Name == m.Name && !c.Local }); at >= 0 {
				r.Clusters[at].Reach = m
			}
		}
	}
	if f.Hub == nil {
		return
	}
	for i := range r.Clusters {
		c := &r.Clusters[i]
		said, ok := f.Hub.Heard[c.Name]
		// What a silent cluster said last is no longer so: the hub may have seen it fall silent, or, without a hub process, nobody has.
		if ok && c.Phase == string(clustersetv1alpha1.MemberReady) && f.hubNow().Sub(said.Renewed) <= Overdue {
			c.CantReach, c.Unmeasured, c.Measures, c.cantFollow = said.CantReach, said.Unmeasured, said.Measures, said.CantFollow
		}
	}
}

// reachProblems finds clusters that can't be reached, from here or from each other. That nothing is measured is no problem.
func reachProblems(r *Report) (all []Problem) {
	add := func(name, reason, message, cure string) {
		all = append(all, ofCluster(name, reason, message, cure))
	}
	cutOff := false
	for i := range r.Clusters {
		c := &r.Clusters[i]
		switch {
		case c.Reach == nil:
		case c.Reach.Reason == allUnreachable && !cutOff:
			cutOff = true
			add(r.Cluster, allUnreachable, "its agent can reach no other cluster, so it is more likely cut off itself; what it found before stays",
				"check the network of the pods of clusterset-member: what they may connect to (NetworkPolicy, firewall), and their routes to other clusters")
		case c.Reach.Reachable == metav1.ConditionFalse && c.Reach.Reason != allUnreachable:
			message, cure := unreachable(c.Reach, screen.Age(r.Time.Sub(c.Reach.Since.Time)))
			add(c.Name, "Unreachable", message+"; its endpoints are used only if no others are left", strings.TrimSpace(cure+" "+strings.Join(c.Reach.Beacons, ", ")))
		}
		if len(c.CantReach) > 0 && !c.Local {
			add(c.Name, "CannotReach", "its agent can't reach "+screen.Several(c.CantReach, shownNames, ", ")+", so it uses their endpoints last",
				"check the network between them; clusterset status and clusterset doctor there say more")
		}
	}
	return all
}

// unreachable says why a cluster can't be reached. The addresses that are dialled follow the cure.
func unreachable(c *clustersetv1alpha1.ClusterReachability, age string) (message, cure string) {
	switch verdict.Reason(c.Reason) {
	case verdict.WrongCluster:
		return "another cluster answers at its agent's address: their networks overlap", "give the clusters different networks, or correct their spec.cidrs; what answers is at"
	case verdict.Returning:
		return "it answers again, and is used once it has done so for long enough", "wait; if it comes and goes, look for what breaks connections to"
	case verdict.Refused:
		return "connections to its agent are refused since " + age, "check that its agent runs, and what refuses connections to"
	}
	return "its agent hasn't answered this cluster's for " + age + ", though the hub may hear both", "check routes and firewalls on the way to"
}

func reached(c *Cluster, now time.Time) screen.Cell {
	switch {
	case c.Reach == nil:
		return screen.Cell{Text: "-"}
	case c.Reach.Reachable == metav1.ConditionFalse:
		return screen.Cell{Text: "NO, for " + screen.Age(now.Sub(c.Reach.Since.Time)), Colour: screen.Bad}
	case c.Reach.Reachable == metav1.ConditionUnknown:
		return screen.Cell{Text: "not measured", Colour: screen.Faint}
	}
	return screen.Cell{Text: (time.Duration(c.Reach.RoundTripMicroseconds) * time.Microsecond).Round(100 * time.Microsecond).String(), Colour: screen.Good}
}

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
}

// AcrossNetworks says how each cluster of another network that exports a service is reached from the cluster self, by the objects that the
// importer wrote there. all may have slices of other services.
func AcrossNetworks(self string, members []clustersetv1alpha1.MemberCluster, o *mcsv1beta1.ServiceImport, all []*discoveryv1.EndpointSlice) (across []Across) {
	_, member := ByName(members)
	for i := range o.Status.Clusters {
		name := o.Status.Clusters[i].Cluster
		m := member(name)
		if name == self || !m.Apart(member(self)) {
			continue
		}
		a := Across{Cluster: name}
		if m != nil {
			a.Network = m.Spec.Network
		}
		a.read(o, all)
		if len(a.Addresses) == 0 {
			var why string
			a.Reason, why, a.Cure = whyUnreached(o, m)
			a.Message = fmt.Sprintf("%s is in %s, and isn't used: %s", a.Cluster, networkName(a.Network), why)
		}
		across = append(across, a)
	}
	slices.SortFunc(across, func(a, b Across) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return across
}

func (a *Across) read(o *mcsv1beta1.ServiceImport, all []*discoveryv1.EndpointSlice) {
	var ports []string
	for _, s := range all {
		if _, external := s.Annotations[api.AnnotationExternal]; !external || s.Namespace != o.Namespace || s.Labels[api.LabelServiceName] != o.Name || s.Labels[api.LabelSourceCluster] != a.Cluster {
			continue
		}
		for i := range s.Endpoints {
			a.Addresses = append(a.Addresses, s.Endpoints[i].Addresses...)
		}
		for _, p := range s.Ports {
			ports = append(ports, strings.TrimSpace(fmt.Sprintf("%s %d", ptr.Deref(p.Name, ""), ptr.Deref(p.Port, 0))))
		}
	}
	slices.Sort(a.Addresses)
	slices.Sort(ports)
	a.Addresses = slices.Compact(a.Addresses)
	a.Message = fmt.Sprintf("%s is in %s, and reached at %s, port %s", a.Cluster, networkName(a.Network), strings.Join(a.Addresses, ", "), strings.Join(slices.Compact(ports), ", "))
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

func anyApart(l *LocalFacts) bool {
	_, member := ByName(l.Members)
	own := member(l.Cluster)
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
		problems = append(problems, ofCluster(k.cluster, "NotReached", fmt.Sprintf("%s %s can't be used here: %s",
			screen.Counted(len(names), "service"), screen.Several(names, shownNames, ", "), a.Message), a.Cure))
	}
	slices.SortFunc(problems, byNameAndMessage)
	return problems
}
