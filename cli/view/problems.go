package view

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/merge"
)

// All are what isn't as it should be: the problems of the set, and those of services. Every report lists and counts these, and decides by them how it
// exits. Conflicts and services at their last resort aren't among them: their names are answered, and what fails in the latter is a problem of its own.
func (r *Report) All() []Problem { return slices.Concat(r.Problems, r.Elsewhere, r.Services.Problems) }

// problems lists what is wrong with the hub and with clusters, each with what to do about it. Everything that shows problems shows these:
// whoever finds another way to break a set adds it here.
func problems(r *Report, f Facts) []Problem {
	all := hubProblems(&r.Hub, f)
	for i := range r.Clusters {
		all = append(all, clusterProblems(&r.Clusters[i], &r.Hub, f.hubNow())...)
	}
	all = slices.Concat(all, reachProblems(r), notFollowing(r, f))
	if f.Local != nil {
		all = slices.Concat(all, agentProblems(r, f), membership(r, f), lost(f.Local.Members), parked(f.Local), outOfReach(f.Local))
	}
	if f.asked() {
		all = slices.Concat(all, overlaps(f.Hub.Members), missingNamespaces(f))
	} else if f.Local != nil {
		all = append(all, overlaps(f.Local.Members)...)
	}
	return all
}

func ofCluster(name, reason, message, cure string) Problem {
	return Problem{Name: name, What: "MemberCluster", Reason: reason, Message: message, Cure: cure}
}

func ofHub(reason, message, cure string) Problem {
	return Problem{Name: "hub", What: "Hub", Reason: reason, Message: message, Cure: cure}
}

// look says where to look for what an agent is stuck at.
const look = "run clusterset doctor there, and read its agent's log"

func hubProblems(h *Hub, f Facts) (all []Problem) {
	add := func(reason, message, cure string) { all = append(all, ofHub(reason, message, cure)) }
	if h.State == HubUnreachable {
		did, cure, _ := strings.Cut(f.Hub.Err.Error(), "; ")
		add(string(h.State), did, cure)
	}
	if h.away != nil {
		all = append(all, *h.away)
	}
	if f.Hub != nil && f.Hub.processIsGone(f.hubNow()) {
		add("NoHubProcess", "no process of clusterset hub has renewed the Lease "+api.HubLeaderLease+" for "+screen.Age(f.hubNow().Sub(f.Hub.Process))+": that a cluster dies, comes back or leaves goes unnoticed",
			"check that clusterset hub runs beside the hub, and read its log")
	}
	if h.ExpiryPaused {
		add("ExpiryPaused", "most clusters fell silent together, so the hub assumes that it is cut off and lets none expire",
			"check the network between the hub and the clusters")
	}
	if h.NotEnforced != "" {
		add("NotEnforced", "every cluster can read all exports, although MemberClusters name communities: "+h.NotEnforced, "check that clusterset hub runs beside the hub, and its log")
	}
	return all
}

// Overdue is the age of a heartbeat that a running hub process would long have noticed. What a cluster said with such a heartbeat no longer counts.
const Overdue = 3 * time.Minute

// unsigned is the age of a hub process's own sign of life at which it no longer runs: three times as long as its Lease, which it renews every few
// seconds and which another process takes over.
const unsigned = 45 * time.Second

// processIsGone reports whether no hub process runs. A heartbeat that came much later than its last sign of life shows it by the hub's clock alone;
// without one, this machine's clock may be ahead.
func (f *HubFacts) processIsGone(now time.Time) bool {
	silent, outlived := now.Sub(f.Process), false
	for _, beat := range f.Heard {
		outlived = outlived || beat.Renewed.Sub(f.Process) > unsigned
	}
	return !f.Process.IsZero() && (silent > Overdue || outlived && silent > unsigned)
}

func clusterProblems(c *Cluster, hub *Hub, now time.Time) (all []Problem) {
	add := func(reason, message, cure string) {
		all = append(all, ofCluster(c.Name, reason, message, cure))
	}
	gone := "; if it is gone for good, clusterset leave " + c.Name
	switch c.Phase {
	case string(clustersetv1alpha1.MemberReady):
		// A hub that considers itself cut off suspects nobody, and says so.
		if hub.State == HubReachable && !hub.ExpiryPaused && c.LastHeartbeat != nil && now.Sub(*c.LastHeartbeat) > Overdue {
			add("Unwatched", "its last heartbeat is "+screen.Age(now.Sub(*c.LastHeartbeat))+" old, and its phase is still Ready: nobody watches the heartbeats",
				"if the hub has moved, ask the new one with --hub-context; if not, check that clusterset hub runs beside it, and read its log; it may also have a --suspect-after above 3m")
		}
	case string(clustersetv1alpha1.MemberSuspect):
		add(c.Phase, "it sends no heartbeats; its endpoints are used only if no others are left", look+gone)
	case string(clustersetv1alpha1.MemberExpired):
		add(c.Phase, "it has sent no heartbeat for too long; its endpoints aren't answered", look+gone)
	case phaseLeft: // its MemberCluster stays for a week, so that agents that were offline learn of it
		if c.Local {
			add(c.Phase, "this cluster has left the set: the others don't use it, and it imports nothing",
				again(c.Name))
		}
	default:
		if c.handOver {
			add(clustersetv1alpha1.ReasonCredentialsWait, "its credentials wait on the hub in Secret "+api.MemberNamespace(c.Name)+"/"+api.HubSecret+", and no agent has used them",
				"copy the Secret to the cluster (docs/gitops.md); if it is there, "+look)
		} else if !c.unheard && !slices.Contains(c.Flaws, notJoined) {
			add("NoHeartbeat", "it has never sent a heartbeat: its agent doesn't run, can't reach the hub, or hasn't finished its first export", look)
		}
	}
	return append(all, c.said...)
}

// again is how a cluster that has left becomes a member, or stops being one.
func again(cluster string) string {
	return Rejoin(cluster) + " makes it a member again; clusterset leave with its --kubeconfig removes what is left in it"
}

// lost finds clusters that the hub has lost and that haven't rejoined.
func lost(members []clustersetv1alpha1.MemberCluster) (all []Problem) {
	for i := range members {
		if name := members[i].Name; meta.IsStatusConditionFalse(members[i].Status.Conditions, clustersetv1alpha1.ConditionOnHub) {
			all = append(all, ofCluster(name, "LostByHub", "the hub has lost it, and it hasn't joined again; what it exported stays",
				"clusterset join "+name+" --rejoin --hub-context HUB --context "+name+"; if it is gone for good, kubectl delete membercluster "+name+" in each member"))
		}
	}
	return all
}

// parked finds a cluster that exports nothing because another one works under its name.
func parked(l *LocalFacts) []Problem {
	for i := range l.Exports {
		if c := meta.FindStatusCondition(l.Exports[i].Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady)); c != nil && c.Reason == api.ReasonNameTaken {
			return []Problem{ofCluster(cmp.Or(l.Cluster, "this cluster"), c.Reason, "this cluster exports nothing: "+c.Message,
				"decide which of the two clusters keeps the name; in the other, kubectl -n "+api.SystemNamespace+" delete secret "+api.HubSecret+
					" and clusterset join it under another name; if this one keeps it, stop the other's agent for five minutes")}
		}
	}
	return nil
}

// membership finds a cluster that isn't a member, or no longer.
func membership(r *Report, f Facts) []Problem {
	switch none := len(f.Local.Members) == 0; {
	case none && f.Local.SecretMissing: // the agent waits for it (C74), as agentProblems says
	case none && r.Cluster == "":
		return []Problem{ofCluster("this cluster", "NotAMember", "it is in no cluster set: it has no MemberCluster and no credentials for a hub, so no name of a set is answered here",
			"clusterset join makes it a member")}
	case none && !f.asked():
		return []Problem{ofCluster(r.Cluster, "NothingImported", "this cluster has joined as "+r.Cluster+", and knows no cluster of the set: its agent hasn't copied any MemberCluster",
			"check that clusterset member runs in this cluster, and read its log")}
	case f.asked() && r.Cluster != "" && !slices.ContainsFunc(r.Clusters, func(c Cluster) bool { return c.Name == r.Cluster }):
		return []Problem{ofCluster(r.Cluster, "NotAMember", "this cluster is called "+r.Cluster+", and the hub has no member of that name: it has left, or this is another hub", again(r.Cluster))}
	}
	return nil
}

// NotFollowing is the problem of a cluster whose MemberClusters of these names aren't its agent's copies of the hub's.
func NotFollowing(cluster string, names ...string) Problem {
	return ofCluster(cluster, "NotFollowing", "MemberClusters that aren't its agent's copies keep it from following the hub: "+screen.Several(names, shownNames, ", "),
		fmt.Sprintf("kubectl delete membercluster %s there, without finalizers if it was the hub, and its agent copies the hub's", strings.Join(names, " ")))
}

// notFollowing finds clusters that don't follow the hub: this one by its MemberClusters, others by what they say.
func notFollowing(r *Report, f Facts) (all []Problem) {
	if !f.asked() {
		return nil
	}
	var foreign []string
	if f.Local != nil {
		if foreign = f.Local.foreign(f.Hub.Members); len(foreign) > 0 {
			all = append(all, NotFollowing(cmp.Or(r.Cluster, "this cluster"), foreign...))
		}
	}
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.cantFollow != "" && (!c.Local || len(foreign) == 0) {
			all = append(all, NotFollowing(c.Name, c.cantFollow))
		}
	}
	return all
}

// foreign returns the MemberClusters here that have the name of one on the hub, and are neither that nor a copy of it.
func (l *LocalFacts) foreign(hub []clustersetv1alpha1.MemberCluster) (names []string) {
	_, on := ByName(hub)
	for i := range l.Members {
		m := &l.Members[i]
		if there := on(m.Name); there != nil && !there.Left() && there.UID != m.UID && !desired.Owned(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// shownNames is how many names of a list are shown.
const shownNames = 3

// missingNamespaces finds namespaces that the set exports services of, and that this cluster doesn't have: nothing is imported into them.
func missingNamespaces(f Facts) (all []Problem) {
	if f.Local == nil || f.Local.Namespaces == nil || f.Local.Cluster == "" || f.Local.Agent != nil && f.Local.Agent.CreateNamespaces {
		return nil
	}
	members, member := ByName(f.Hub.Members)
	sees := merge.Sees(f.Local.Cluster, member)
	missing := map[string]bool{}
	for i := range f.Hub.Exports {
		e := &f.Hub.Exports[i]
		if cluster, _ := e.SourceCluster(); members[cluster] == nil || members[cluster].Left() || sees(cluster, e.Spec.ExportTo) != merge.Seen {
			continue
		}
		if namespace := e.Spec.ServiceNamespace; !f.Local.Namespaces[namespace] && f.Local.Agent.imports(namespace) {
			missing[namespace] = true
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(missing)) {
		all = append(all, MissingNamespace(namespace))
	}
	return all
}

// MissingNamespace is the problem of a namespace that this cluster doesn't have.
func MissingNamespace(namespace string) Problem {
	return Problem{
		Name: namespace, What: "Namespace", Reason: "Missing",
		Message: fmt.Sprintf("this cluster has no namespace %s, so its services can't be imported: names in it are NXDOMAIN here", namespace),
		Cure:    fmt.Sprintf("kubectl create namespace %s; or start clusterset member with --create-namespaces", namespace),
	}
}

// About names what a problem is about.
func (p *Problem) About() string { return strings.TrimPrefix(p.Namespace+"/"+p.Name, "/") }

// MissingElsewhere is the reason of a namespace that other clusters lack by their last reports (C77).
const MissingElsewhere = "MissingElsewhere"

// elsewhere finds the namespaces that other clusters lack: with the hub those of all exports, else those that this cluster exports from.
func elsewhere(f Facts) []Problem {
	switch {
	case f.asked():
		return missingElsewhere(f)
	case f.Local != nil:
		return f.Local.saidOfElsewhere(f.Now)
	}
	return nil
}

// Lacks reports whether a cluster says that it doesn't have a namespace, and as of when: in its Lease, or where that can't be read in its MemberCluster,
// which has it later.
func (f *HubFacts) Lacks(m *clustersetv1alpha1.MemberCluster, namespace string, now time.Time) (lacks bool, as string) {
	if h := f.Heard[m.Name]; h.Namespaces != nil {
		return clustersetv1alpha1.ParseNamespaces(*h.Namespaces).Lack(namespace), "as of " + screen.Age(now.Sub(h.Renewed)) + " ago"
	}
	return clustersetv1alpha1.ParseNamespaces(m.Status.Namespaces).Lack(namespace), "as of 16m ago at worst"
}

// missingElsewhere finds the namespaces of exports that clusters say they lack although they would import these.
func missingElsewhere(f Facts) (all []Problem) {
	byName, member := ByName(f.Hub.Members)
	in := map[string][]*clustersetv1alpha1.ExportedService{}
	for i := range f.Hub.Exports {
		e := &f.Hub.Exports[i]
		if cluster, _ := e.SourceCluster(); byName[cluster] != nil && !byName[cluster].Left() {
			in[e.Spec.ServiceNamespace] = append(in[e.Spec.ServiceNamespace], e)
		}
	}
	without := map[string][]string{} // by namespace
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		own := f.Local != nil && f.Local.Namespaces != nil && name == f.Local.Cluster // its are known for certain
		if own || byName[name].Left() {
			continue
		}
		sees := merge.Sees(name, member)
		wants := func(e *clustersetv1alpha1.ExportedService) bool {
			cluster, _ := e.SourceCluster()
			return cluster != name && sees(cluster, e.Spec.ExportTo) == merge.Seen
		}
		for namespace, exports := range in {
			if lacks, as := f.Hub.Lacks(byName[name], namespace, f.hubNow()); lacks && slices.ContainsFunc(exports, wants) {
				without[namespace] = append(without[namespace], name+" ("+as+")")
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(without)) {
		all = append(all, lackedElsewhere(namespace, "its services aren't imported in "+screen.Several(without[namespace], shownNames, ", ")+": there is no namespace "+namespace))
	}
	return all
}

func lackedElsewhere(namespace, message string) Problem {
	return Problem{
		Name: namespace, What: "Namespace", Reason: MissingElsewhere, Message: message,
		Cure: "kubectl create namespace " + namespace + " there, or start the agents there with --create-namespaces; if it is meant so, limit the exports with " + api.AnnotationExportTo,
	}
}

// saidOfElsewhere is what this cluster's exports say, one of each namespace.
func (l *LocalFacts) saidOfElsewhere(now time.Time) (all []Problem) {
	for i := range l.Exports {
		e := &l.Exports[i]
		c := meta.FindStatusCondition(e.Status.Conditions, api.ConditionImported)
		known := slices.ContainsFunc(all, func(p Problem) bool { return p.Name == e.Namespace })
		if !known && c != nil && c.Status == metav1.ConditionFalse && c.Reason == api.ReasonNamespaceMissing {
			what, _, _ := strings.Cut(c.Message, "; ")
			all = append(all, lackedElsewhere(e.Namespace, fmt.Sprintf("ServiceExport %s/%s is %s (said %s ago, and as of 16m ago at worst)",
				e.Namespace, e.Name, what, screen.Age(now.Sub(c.LastTransitionTime.Time)))))
		}
	}
	return all
}

// overlaps finds clusters of one network whose cidrs have addresses in common: what has such an address can't be told apart, and each may
// export the other's. In different networks they may overlap (D96 of docs/spec/data-path.md).
func overlaps(members []clustersetv1alpha1.MemberCluster) (problems []Problem) {
	networks := make([][]netip.Prefix, len(members))
	for i := range members {
		if !members[i].Left() {
			networks[i] = api.Networks(members[i].Spec.CIDRs)
		}
	}
	for i := range members {
		for j := range members {
			a, b := &members[i], &members[j]
			if a.Name >= b.Name || a.Apart(b) {
				continue
			}
			for _, in := range networks[i] {
				if at := slices.IndexFunc(networks[j], in.Overlaps); at >= 0 {
					problems = append(problems, ofCluster(a.Name, "CIDRsOverlap",
						fmt.Sprintf("%s of %s and %s of %s overlap, and both are in %s: the same address can be in either", in, a.Name, networks[j][at], b.Name, networkName(a.Spec.Network)),
						"correct spec.cidrs of the two MemberClusters on the hub; or, if these clusters can't reach each other's pods, put them into different networks (spec.network)"))
					break // one of each pair is enough
				}
			}
		}
	}
	slices.SortFunc(problems, byNameAndMessage)
	return problems
}

func byNameAndMessage(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message))
}
