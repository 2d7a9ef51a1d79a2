package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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
	all = append(all, reachProblems(r)...)
	all = append(all, notFollowing(r, f)...)
	if f.Local != nil {
		all = append(all, agentProblems(r, f)...)
		all = append(all, membership(r, f)...)
		all = append(all, parked(f.Local)...)
		all = append(all, outOfReach(f.Local)...)
	}
	if f.Hub != nil && f.Hub.Err == nil {
		all = append(all, overlaps(f.Hub.Members)...)
	} else if f.Local != nil {
		all = append(all, overlaps(f.Local.Members)...)
	}
	if f.Local != nil && f.Hub != nil && f.Hub.Err == nil {
		all = append(all, missingNamespaces(f)...)
	}
	return all
}

// look says where to look for what an agent is stuck at.
const look = "run clusterset doctor there, and read its agent's log"

func hubProblems(h *Hub, f Facts) (all []Problem) {
	add := func(reason, message, cure string) {
		all = append(all, Problem{Name: "hub", What: "Hub", Reason: reason, Message: message, Cure: cure})
	}
	if h.Error != "" {
		did, cure, _ := strings.Cut(h.Error, "; ")
		add(string(h.State), did, cure)
	}
	switch {
	case h.RefusesToken:
		add("TokenRefused", "it "+h.quiet+": it was revoked, has expired, or is another hub's", Rejoin(f.Local.Cluster)+" makes a new one, which the agent uses without a restart")
	case h.RefusesAgent:
		add(string(HubQuiet), "it "+h.quiet, "the log of clusterset-member says what is refused; clusterset hub gives the rights to records, and "+Rejoin(f.Local.Cluster)+" the others")
	case h.AwaySince != nil:
		add(string(HubQuiet), "it "+h.quiet, "check whether the hub's API server runs and can be reached from this cluster")
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
	for _, name := range h.Awaited {
		all = append(all, Problem{
			Name: name, What: "MemberCluster", Reason: "LostByHub", Message: "the hub has lost it, and it hasn't joined again; what it exported stays",
			Cure: "clusterset join " + name + " --rejoin --hub-context HUB --context " + name + "; if it is gone for good, kubectl delete membercluster " + name + " in each member",
		})
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
func (h *HubFacts) processIsGone(now time.Time) bool {
	silent, outlived := now.Sub(h.Process), false
	for _, beat := range h.Heard {
		outlived = outlived || beat.Renewed.Sub(h.Process) > unsigned
	}
	return !h.Process.IsZero() && (silent > Overdue || outlived && silent > unsigned)
}

func clusterProblems(c *Cluster, hub *Hub, now time.Time) (all []Problem) {
	look := look
	if c.Local {
		look = "read the log of clusterset-member here"
	}
	add := func(reason, message, cure string) {
		all = append(all, Problem{Name: c.Name, What: "MemberCluster", Reason: reason, Message: message, Cure: cure})
	}
	gone := "; if it is gone for good, clusterset leave " + c.Name
	switch c.Phase {
	case string(clustersetv1alpha1.MemberReady):
		// A hub that considers itself cut off suspects nobody, and says so.
		if hub.State == HubReachable && !hub.ExpiryPaused && c.LastHeartbeat != nil && now.Sub(*c.LastHeartbeat) > Overdue {
			cure := "check that clusterset hub runs beside the hub, and read its log; it may also have a --suspect-after above 3m"
			if hub.here {
				cure = "if the hub has moved from here to another cluster, start none here, and ask that one with --hub-context; if not, " + cure
			}
			add("Unwatched", "its last heartbeat is "+screen.Age(now.Sub(*c.LastHeartbeat))+" old, and its phase is still Ready: nobody watches the heartbeats", cure)
		}
	case string(clustersetv1alpha1.MemberSuspect):
		add(c.Phase, "it sends no heartbeats; its endpoints are used only if no others are left", look+gone)
	case string(clustersetv1alpha1.MemberExpired):
		message := "it has sent no heartbeat for too long; its endpoints aren't answered"
		if c.forgotten {
			message += ", and its records are deleted until it returns"
		}
		add(c.Phase, message, look+gone)
	case phaseLeft: // its MemberCluster stays for a week, so that agents that were offline learn of it
		if c.Local {
			add(c.Phase, "this cluster has left the set: the others don't use it, and it imports nothing",
				Rejoin(c.Name)+" makes it a member again; clusterset leave with its --kubeconfig removes what is left in it")
		}
	default:
		if c.handOver {
			add(clustersetv1alpha1.ReasonCredentialsWait, "its credentials wait on the hub in Secret "+api.MemberNamespace(c.Name)+"/"+api.HubSecret+", and no agent has used them",
				"copy the Secret to the cluster (docs/gitops.md); if it is there, "+look)
		} else if !c.NotJoined && !c.unheard {
			add("NoHeartbeat", "it has never sent a heartbeat: its agent doesn't run, can't reach the hub, or hasn't finished its first export", look)
		}
	}
	return append(all, c.said...)
}

// outside is the problem of a cluster that has no MemberCluster: it has left, or has never joined.
func outside(name string) Problem {
	if name != "" {
		return Problem{
			Name: name, What: "MemberCluster", Reason: "NothingImported", Message: "this cluster has joined as " + name + ", and knows no cluster of the set: its agent hasn't copied any MemberCluster",
			Cure: "check that clusterset member runs in this cluster, and read its log",
		}
	}
	return Problem{
		Name: "this cluster", What: "MemberCluster", Reason: "NotAMember", Message: "it is in no cluster set: it has no MemberCluster and no credentials for a hub, so no name of a set is answered here",
		Cure: "clusterset join makes it a member",
	}
}

// rename is how one of two clusters with the same name gets another.
const rename = "in the other, kubectl -n " + api.SystemNamespace + " delete secret " + api.HubSecret + " and clusterset join it under another name"

// parked finds a cluster that exports nothing because another one works under its name.
func parked(l *LocalFacts) []Problem {
	for i := range l.Exports {
		if c := meta.FindStatusCondition(l.Exports[i].Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady)); c != nil && c.Reason == api.ReasonNameTaken {
			return []Problem{{
				Name: cmp.Or(l.Cluster, "this cluster"), What: "MemberCluster", Reason: c.Reason, Message: "this cluster exports nothing: " + c.Message,
				Cure: "decide which of the two clusters keeps the name; " + rename + "; if this one keeps it, stop the other's agent for five minutes",
			}}
		}
	}
	return nil
}

// membership finds a cluster that isn't a member, or no longer.
func membership(r *Report, f Facts) []Problem {
	asked := f.Hub != nil && f.Hub.Err == nil
	if len(f.Local.Members) == 0 && f.Local.SecretMissing {
		return nil // the agent waits for it (C74), as agentProblems says
	}
	if len(f.Local.Members) == 0 && (r.Cluster == "" || !asked) {
		return []Problem{outside(r.Cluster)}
	}
	if !asked || r.Cluster == "" || slices.ContainsFunc(r.Clusters, func(c Cluster) bool { return c.Name == r.Cluster }) {
		return nil
	}
	return []Problem{{
		Name: r.Cluster, What: "MemberCluster", Reason: "NotAMember", Message: "this cluster is called " + r.Cluster + ", and the hub has no member of that name: it has left, or this is another hub",
		Cure: Rejoin(r.Cluster) + " makes it a member again; clusterset leave with its --kubeconfig removes what is left in it",
	}}
}

// NotFollowing is the problem of a cluster whose MemberClusters of these names aren't its agent's copies of the hub's.
func NotFollowing(cluster string, names ...string) Problem {
	not := map[bool]string{true: "its MemberCluster %s isn't its agent's copy", false: "its MemberClusters %s aren't its agent's copies"}[len(names) == 1]
	return Problem{
		Name: cluster, What: "MemberCluster", Reason: "NotFollowing",
		Message: fmt.Sprintf(not, screen.Several(names, shownServices, ", ")) + ", so it doesn't follow the hub's",
		Cure:    fmt.Sprintf("kubectl delete membercluster %s there, and its agent copies the hub's", strings.Join(names, " ")),
	}
}

// notFollowing finds clusters that don't follow the hub: this one by its MemberClusters, others by what they say.
func notFollowing(r *Report, f Facts) (all []Problem) {
	if f.Hub == nil || f.Hub.Err != nil {
		return nil
	}
	var foreign []string
	if f.Local != nil {
		var wasHub bool
		if foreign, wasHub = f.Local.foreign(f.Hub.Members); len(foreign) > 0 {
			p := NotFollowing(cmp.Or(r.Cluster, "this cluster"), foreign...)
			if wasHub {
				p.Cure = "if the hub has moved from here, delete the old MemberClusters here, finalizers first (docs/operations.md, Move the hub), " +
					"and its agent copies the new one's; if not, another hub than this cluster's was asked"
			}
			all = append(all, p)
		}
	}
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.cantFollow != "" && (!c.Local || len(foreign) == 0) {
			all = append(all, NotFollowing(c.Name, c.cantFollow))
		}
	}
	return all
}

// foreign returns the MemberClusters here that have the name of one on the hub, and are neither that nor a copy of it. wasHub says that some of
// them are a hub's own.
func (l *LocalFacts) foreign(hub []clustersetv1alpha1.MemberCluster) (names []string, wasHub bool) {
	_, on := ByName(hub)
	for i := range l.Members {
		m := &l.Members[i]
		if there := on(m.Name); there != nil && !there.Left() && there.UID != m.UID && !desired.Owned(m) {
			names, wasHub = append(names, m.Name), wasHub || slices.Contains(m.Finalizers, api.MemberFinalizer)
		}
	}
	return names, wasHub
}

// Unnamed is the note that a member's name isn't known, and what isn't checked for that reason.
const Unnamed = "can't tell which member this cluster is: no ClusterProperty, Secret " + api.SystemNamespace + "/" + api.HubSecret +
	" or Reachability that this account may read says it. Not checked: whether it has left, which namespaces it lacks, which exports are held, " +
	"and what it can't use of other networks"

// unnamed reports whether the cluster has an agent and its name isn't known.
func (l *LocalFacts) unnamed() bool {
	return l.Cluster == "" && (slices.ContainsFunc(l.Members, func(m clustersetv1alpha1.MemberCluster) bool { return desired.Owned(&m) }) ||
		slices.ContainsFunc(l.Pods, func(p Pod) bool { return p.Part == PartMember }))
}

// shownServices is how many services of a missing namespace are named.
const shownServices = 3

// missingNamespaces finds namespaces that the set exports services of, and that this cluster doesn't have: nothing is imported into them.
func missingNamespaces(f Facts) (all []Problem) {
	if f.Local.Namespaces == nil || f.Local.Cluster == "" || f.Local.Agent != nil && f.Local.Agent.CreateNamespaces {
		return nil
	}
	members, member := ByName(f.Hub.Members)
	sees := merge.Sees(f.Local.Cluster, member)
	missing := map[string][]string{}
	for i := range f.Hub.Exports {
		e := &f.Hub.Exports[i]
		if cluster, _ := e.SourceCluster(); members[cluster] == nil || members[cluster].Left() || sees(cluster, e.Spec.ExportTo) != merge.Seen {
			continue
		}
		if namespace := e.Spec.ServiceNamespace; !f.Local.Namespaces[namespace] && f.Local.Agent.imports(namespace) && !slices.Contains(missing[namespace], e.Spec.ServiceName) {
			missing[namespace] = append(missing[namespace], e.Spec.ServiceName)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(missing)) {
		names := missing[namespace]
		slices.Sort(names)
		all = append(all, MissingNamespace(namespace, fmt.Sprintf("%s %s", screen.Counted(len(names), "service"), screen.Several(names, shownServices, ", "))))
	}
	return all
}

// MissingNamespace is the problem of a namespace that this cluster doesn't have. what isn't imported for that reason.
func MissingNamespace(namespace, what string) Problem {
	return Problem{
		Name: namespace, What: "Namespace", Reason: "Missing",
		Message: fmt.Sprintf("this cluster has no namespace %s, so %s can't be imported: names in it are NXDOMAIN here", namespace, what),
		Cure:    fmt.Sprintf("kubectl create namespace %s; or start clusterset member with --create-namespaces", namespace),
	}
}

// About names what a problem is about.
func (p *Problem) About() string { return strings.TrimPrefix(p.Namespace+"/"+p.Name, "/") }
