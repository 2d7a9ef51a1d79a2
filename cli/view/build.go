package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/communities"
)

// Build makes a Report.
func Build(f Facts) Report {
	if f.Local != nil && f.Local.Reach != nil && f.Now.Sub(f.Local.Reach.Stamp.Time) > objects.ReachabilityAge {
		local := *f.Local
		local.Reach, f.Local = nil, &local
	}
	r := Report{Time: f.Now, Notes: slices.Clone(f.Notes), traffic: f.Traffic, Clusters: []Cluster{}}
	var mirrored []clustersetv1alpha1.MemberCluster
	if f.Local != nil {
		r.Cluster, mirrored = f.Local.Cluster, f.Local.Members
	}
	r.Hub = hubOf(f, mirrored)
	for i := range mirrored {
		if said := meta.FindStatusCondition(mirrored[i].Status.Conditions, clustersetv1alpha1.ConditionSteered); said != nil {
			r.Steered = said.Message
		}
	}
	members, asked := mirrored, f.asked()
	exports := map[string]int{}
	if asked {
		members = f.Hub.Members // the copies here may be behind
		for i := range f.Hub.Exports {
			cluster, _ := f.Hub.Exports[i].SourceCluster()
			exports[cluster]++
		}
	}
	for i := range members {
		c := clusterOf(&members[i])
		if asked {
			c = OnHub(&members[i], f.Hub.Heard[members[i].Name].Renewed, exports[members[i].Name], f.hubNow())
		}
		c.Local, c.unheard = c.Name == r.Cluster, !asked && !desired.Owned(&members[i])
		r.Clusters = append(r.Clusters, c)
		r.Hub.ExpiryPaused = r.Hub.ExpiryPaused || meta.IsStatusConditionTrue(members[i].Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused)
	}
	r.Hub.NotEnforced = notEnforced(members)
	slices.SortFunc(r.Clusters, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	if f.Local != nil {
		if r.Cluster == "" && slices.ContainsFunc(mirrored, func(m clustersetv1alpha1.MemberCluster) bool { return desired.Owned(&m) }) {
			r.Notes = append(r.Notes, unnamed)
		}
		r.Services.here(f.Local, f.Hub)
		if f.Local.RoutesErr != nil {
			r.Notes = append(r.Notes, "can't tell which services are out of reach or at their last resort: "+f.Local.RoutesErr.Error())
		} else {
			r.Services.lastResort(f.Local)
		}
	}
	if asked {
		r.Services.everywhere(f.Hub)
	}
	r.reach(f)
	r.Problems, r.Elsewhere = problems(&r, f), elsewhere(f)
	for i := range r.Services.Problems {
		p := &r.Services.Problems[i]
		p.Cure = cmp.Or(p.Cure, fmt.Sprintf("kubectl -n %s describe %s %s shows its conditions and Events", p.Namespace, strings.ToLower(p.What), p.Name))
	}
	for _, p := range []*[]Problem{&r.Services.Conflicts, &r.Services.LastResort, &r.Services.Problems} {
		slices.SortStableFunc(*p, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.What, b.What))
		})
	}
	return r
}

// unnamed is the note that a member's name isn't known.
const unnamed = "can't tell which member this cluster is: no ClusterProperty, Secret or Reachability that this account may read says it, so what concerns that one isn't checked"

func hubOf(f Facts, mirrored []clustersetv1alpha1.MemberCluster) Hub {
	h := Hub{State: HubUnknown}
	for i := range mirrored {
		said := meta.FindStatusCondition(mirrored[i].Status.Conditions, clustersetv1alpha1.ConditionHubAnswers)
		if said == nil {
			continue
		}
		if h = (Hub{State: HubHeard}); said.Status != metav1.ConditionTrue {
			h.State = HubQuiet
			h.quietFor(screen.Age(f.Now.Sub(said.LastTransitionTime.Time)), said.Reason, f.Local.Cluster)
		}
	}
	switch {
	case f.asked():
		h.State, h.Server, h.LatencyMillis = HubReachable, f.Hub.Server, f.Hub.Latency.Milliseconds()
	case f.Hub != nil:
		h.State, h.Server = HubUnreachable, f.Hub.Server
	}
	return h
}

// TokenRefused is the reason of a hub that doesn't accept the token of this cluster's agent.
const TokenRefused = "TokenRefused"

// quietFor says how the hub is to the agent here, which can't read it, and why.
func (h *Hub) quietFor(age, why, cluster string) {
	p := ofHub(string(HubQuiet), "", "check whether the hub's API server runs and can be reached from this cluster")
	words, because := "hasn't answered this cluster's agent for ", ""
	switch why {
	case clustersetv1alpha1.ReasonHubRefusesToken:
		words, because = "hasn't accepted the token of this cluster's agent for ", ": it was revoked, has expired, or is another hub's"
		p.Reason, p.Cure = TokenRefused, Rejoin(cluster)+" makes a new one, which the agent uses without a restart"
	case clustersetv1alpha1.ReasonHubRefuses:
		words = "answers this cluster's agent, which hasn't been able to read it for "
		p.Cure = "the log of clusterset-member says what is refused; clusterset hub gives the rights to records, and " + Rejoin(cluster) + " the others"
	}
	h.quiet = words + age + "; names stay as they are"
	p.Message = "it " + h.quiet + because
	h.away = &p
}

// phaseLeft is the phase that is shown for a cluster that has left.
const phaseLeft = "Left"

func clusterOf(mc *clustersetv1alpha1.MemberCluster) Cluster {
	c := Cluster{
		Name: mc.Name, Phase: string(cmp.Or(mc.Status.Phase, "Unknown")), Drain: mc.Spec.Drain, Zones: mc.AllZones(), Region: mc.Spec.Region,
		AgentVersion: mc.Status.AgentVersion, Communities: mc.Spec.Communities, Network: mc.Spec.Network,
	}
	if mc.Left() {
		c.Phase = phaseLeft
	}
	if t := mc.Status.LastHeartbeatTime; t != nil {
		c.LastHeartbeat = &t.Time
	}
	if n := mc.Status.ExportedServices; n != nil {
		exports := int(*n)
		c.Exports = &exports
	}
	if ready := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		c.Message = ready.Message
	}
	joined := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionJoined)
	c.handOver = joined != nil && joined.Reason == clustersetv1alpha1.ReasonCredentialsWait
	for _, f := range flaws {
		if said := meta.FindStatusCondition(mc.Status.Conditions, f.condition); said != nil && said.Status == f.status {
			c.Flaws, c.Message = append(c.Flaws, f.reason), cmp.Or(c.Message, said.Message)
			c.said = append(c.said, Problem{Name: c.Name, What: "MemberCluster", Reason: f.reason, Message: said.Message, Cure: f.cure})
		}
	}
	return c
}

// flaws are what else can be wrong with a cluster, as conditions of its MemberCluster say.
var flaws = []struct {
	condition           string
	status              metav1.ConditionStatus
	reason, words, cure string
}{
	{
		clustersetv1alpha1.ConditionLimited, metav1.ConditionTrue,
		"Limited", "too many exports", "export fewer services there, or raise --max-services of clusterset hub",
	},
	{
		clustersetv1alpha1.ConditionValid, metav1.ConditionFalse,
		"Invalid", "invalid", "correct its MemberCluster on the hub; everything else in it is used",
	},
	{
		clustersetv1alpha1.ConditionWithinCIDRs, metav1.ConditionFalse,
		"OutsideCIDRs", "exports outside its cidrs", "correct spec.cidrs of its MemberCluster on the hub; clusterset preview place --cidrs shows first what others would do",
	},
	{clustersetv1alpha1.ConditionJoined, metav1.ConditionFalse, notJoined, "not joined", "remove what is in the way; the hub process tries again by itself"},
}

const notJoined = "NotJoined"

// notEnforced returns why the communities that MemberClusters name don't count, empty if they do or if there are none.
func notEnforced(members []clustersetv1alpha1.MemberCluster) string {
	set, said := communities.Set{}, false
	for i := range members {
		m := &members[i]
		if m.Left() {
			continue
		}
		set[m.Name] = m.Spec.Communities
		c := meta.FindStatusCondition(m.Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced)
		if c != nil && c.Status == metav1.ConditionFalse {
			return c.Message
		}
		said = said || c != nil
	}
	if set.On() && !said {
		return "no hub process reports enforcing them: it is down, or lacks the rights"
	}
	return ""
}

// OnHub returns a cluster as the hub knows it. Its MemberCluster's status is older: it is written when the phase changes.
// renewed is when its Lease was renewed, zero if that isn't known: a clock that is ahead can't make it later than now. exports is the number of its
// ExportedServices.
func OnHub(m *clustersetv1alpha1.MemberCluster, renewed time.Time, exports int, now time.Time) Cluster {
	c := clusterOf(m)
	if renewed.After(now) {
		renewed = now
	}
	if !renewed.IsZero() {
		c.LastHeartbeat = &renewed
	}
	c.Exports = &exports
	return c
}

// here counts the local cluster's services and finds those that don't work.
func (s *Services) here(l *LocalFacts, hub *HubFacts) {
	imported, exported := len(l.Imports), 0
	for i := range l.Exports {
		e := &l.Exports[i]
		if meta.IsStatusConditionTrue(e.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady)) {
			exported++
		}
		problem := Problem{Namespace: e.Namespace, Name: e.Name, What: "ServiceExport"}
		if c := meta.FindStatusCondition(e.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); c != nil && c.Status == metav1.ConditionTrue {
			s.Conflicts = append(s.Conflicts, problem.because(c, ""))
		}
		if wrong := problem.Of(e.Status.Conditions); len(wrong) > 0 {
			s.Problems = append(s.Problems, wrong...)
		} else if len(e.Status.Conditions) == 0 {
			problem.Reason, problem.Message = "Unseen", "no agent has processed it"
			problem.Cure = "start clusterset member in this cluster; if it runs, its log says what it waits for"
			s.Problems = append(s.Problems, problem)
		}
	}
	for i := range l.Imports {
		o := &l.Imports[i]
		s.Problems = append(s.Problems, Problem{Namespace: o.Namespace, Name: o.Name, What: "ServiceImport"}.Of(o.Status.Conditions)...)
	}
	for _, key := range l.unexported() {
		if _, held := l.Held[key]; held {
			s.Problems = append(s.Problems, Problem{
				Namespace: key.Namespace, Name: key.Name, What: "ServiceExport", Reason: "Held",
				Message: "it was deleted with many others or with its kind, and the Service is still exported: the agent holds back a mass withdrawal",
				Cure:    "create it again; or, to confirm, delete the Service, wait 10m (--hold-withdrawals), or start the agent with --hold-withdrawals=0",
			})
		}
	}
	s.Imported, s.Exported = &imported, &exported
	s.Problems = append(s.Problems, l.Marks...)
	there := l.exported()
	for i := 0; hub != nil && i < len(hub.Exports); i++ {
		there[types.NamespacedName{Namespace: hub.Exports[i].Spec.ServiceNamespace, Name: hub.Exports[i].Spec.ServiceName}] = true
	}
	for key, what := range l.Others {
		if there[key] && (l.Agent != nil || len(l.Members) > 0 && !l.isHub()) { // else there is no agent of ours
			s.Problems = append(s.Problems, Problem{key.Namespace, key.Name, "Service", "OtherSystem", what, "let one of the two connect it (docs/beside.md)"})
		}
	}
	s.extended(l)
}

// exported returns the services with a ServiceExport.
func (l *LocalFacts) exported() map[types.NamespacedName]bool {
	there := map[types.NamespacedName]bool{}
	for i := range l.Exports {
		there[client.ObjectKeyFromObject(&l.Exports[i])] = true
	}
	return there
}

// unexported returns the services that are still imported from this cluster although it has no ServiceExport of them: for a few seconds, or because
// its agent holds them.
func (l *LocalFacts) unexported() (keys []types.NamespacedName) {
	there := l.exported()
	for i := range l.Imports {
		key := client.ObjectKeyFromObject(&l.Imports[i])
		if l.Cluster != "" && !there[key] && slices.ContainsFunc(l.Imports[i].Status.Clusters, func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster == l.Cluster }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// everywhere finds what all clusters' exports show: their conflicts, as every importer merges them, and services with nothing behind them. What this
// cluster says of a service isn't said again.
func (s *Services) everywhere(hub *HubFacts) {
	known, found := map[Problem]bool{}, Services{}
	for _, p := range slices.Concat(s.Problems, s.LastResort) {
		known[Problem{Namespace: p.Namespace, Name: p.Name, Reason: p.Reason}] = true
	}
	for _, p := range s.Conflicts {
		known[Problem{Namespace: p.Namespace, Name: p.Name}] = true
	}
	ails := ailing(hub.Members, "", nil)
	for key, e := range hub.Services {
		p := Problem{Namespace: key.Namespace, Name: key.Name, What: "Exports"}
		if len(e.Conflicts) > 0 && !known[Problem{Namespace: p.Namespace, Name: p.Name}] {
			c := e.ConflictCondition()
			s.Conflicts = append(s.Conflicts, p.because(&c, "make the exports alike; until then the oldest one decides"))
		}
		if e.Ready > 0 {
			continue
		}
		var ready, exporters []string
		for _, by := range e.By {
			if exporters = append(exporters, by.Cluster); by.Ready > 0 {
				ready = append(ready, by.Cluster)
			}
		}
		if len(ready) > 0 {
			found.onlyIn(p, ready, ails, e.Type == mcsv1beta1.Headless)
			continue
		}
		p.Reason, p.Cure = api.ReasonNoEndpoints, cures[api.ConditionEndpoints]
		p.Message = "no endpoint is ready in any cluster that exports the service: " + screen.Several(exporters, shownNames, ", ")
		found.Problems = append(found.Problems, p)
	}
	said := func(p Problem) bool { return known[Problem{Namespace: p.Namespace, Name: p.Name, Reason: p.Reason}] }
	s.Problems = append(s.Problems, slices.DeleteFunc(found.Problems, said)...)
	s.LastResort = append(s.LastResort, slices.DeleteFunc(found.LastResort, said)...)
}

// ByName returns MemberClusters by their names, and a function that looks one up, nil if there is none.
func ByName(all []clustersetv1alpha1.MemberCluster) (map[string]*clustersetv1alpha1.MemberCluster, func(string) *clustersetv1alpha1.MemberCluster) {
	byName := make(map[string]*clustersetv1alpha1.MemberCluster, len(all))
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	return byName, func(name string) *clustersetv1alpha1.MemberCluster { return byName[name] }
}

func (p Problem) because(c *metav1.Condition, cure string) Problem {
	p.Reason, p.Message, p.Cure = c.Reason, c.Message, cure
	return p
}

// harmless are conditions of ServiceExports that are no problem of the service here when they are False: a service that others have for themselves
// (where it is missed, the importing cluster says so), and namespaces that others lack, which Report.Elsewhere has. Nor is one that only its
// cluster's communities exclude all others, and that the cluster exports nothing is said once.
var harmless = []string{api.ConditionReachable, api.ConditionImported}

// cures are what to do about conditions whose messages don't say it.
var cures = map[string]string{
	api.ConditionVisible:   "name clusters or communities that it is for in " + api.AnnotationExportTo + ", or delete the ServiceExport",
	api.ConditionEndpoints: "start its pods in one of the clusters, or end its exports",
	api.ConditionConfirmed: "start the agents of these clusters, or clusterset join --rejoin those that the hub has lost; if a service shall go, end its export there",
}

// Of returns a problem for each condition that isn't as it should be, whatever its type: those of ours and of the Multi-Cluster Services API are True
// if all is well, but for the harmless ones. Nothing else is said of an object that isn't valid.
func (p Problem) Of(conditions []metav1.Condition) (all []Problem) {
	for i := range conditions {
		c := &conditions[i]
		theirs := c.Type != string(mcsv1beta1.ServiceExportConditionValid) && c.Type != string(mcsv1beta1.ServiceExportConditionReady) &&
			!strings.HasPrefix(c.Type, api.Domain+"/")
		if c.Status == metav1.ConditionTrue || theirs || slices.Contains(harmless, c.Type) || c.Reason == api.ReasonAlone || c.Reason == api.ReasonNameTaken {
			continue
		}
		said := p.because(c, cures[c.Type])
		if c.Type == string(mcsv1beta1.ServiceExportConditionValid) {
			return []Problem{said}
		}
		all = append(all, said)
	}
	return all
}
