package console

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/importer/desired"
)

// observed returns the console of testdata/hub.yaml with a member that it reads, and one that it can't read.
func observed(t *testing.T) *Server {
	t.Helper()
	s, _ := hub(t)
	s.SetHeard(map[string]view.Heartbeat{
		"beijing": {Renewed: time.Now(), Measures: true, CantReach: []string{"shanghai"}, Unmeasured: []string{"lyon"}},
		"tianjin": {Renewed: time.Now(), Measures: true},
	}, time.Now())
	local := &view.LocalFacts{
		Cluster: "beijing", Namespaces: map[string]bool{"shop": true},
		Imports: []mcsv1beta1.ServiceImport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: mcsv1beta1.ServiceImportSpec{IPs: []string{"10.96.7.7"}}}},
		Exports: []mcsv1beta1.ServiceExport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "unseen"}}},
		Asking: []view.Asking{
			{Extended: desired.Extended{Allowed: true, Service: own("web")}, Is: true},
			{Extended: desired.Extended{Service: own("cart")}},
		},
		Reach: &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "beijing", Stamp: metav1.NowMicro(), Clusters: []clustersetv1alpha1.ClusterReachability{
			{Name: "tianjin", Reachable: metav1.ConditionTrue, Reason: "Answers", RoundTripMicroseconds: 1200},
			{Name: "shanghai", Reachable: metav1.ConditionFalse, Reason: "NoAnswer", Since: metav1.NewTime(time.Now().Add(-72 * time.Hour)), Beacons: []string{"10.3.0.1:7353"}},
		}},
	}
	s.now.sources = []*Source{
		{Role: RoleHub, Context: "hub", State: Live, Asked: &doctor.Facts{Now: askedAt, Hub: &doctor.Server{What: "hub", Timed: true, Skew: -90 * time.Second}}},
		{Role: RoleMember, Context: "bj", Cluster: "beijing", State: Live, Local: local, Asked: asked()},
		{Role: RoleMember, Context: "tj", Cluster: "tianjin", State: Away, Error: "connection refused"},
	}
	return s
}

var askedAt = time.Date(2026, 2, 3, 0, 1, 0, 0, time.UTC)

// asked is what the doctor has asked of a member: its cluster DNS sends one of two zones, and another ConfigMap can't be read.
func asked() *doctor.Facts {
	servers := map[string]string{"part": "dns"}
	return &doctor.Facts{
		Now: askedAt, Zones: doctor.Zones, Cluster: &doctor.Server{What: "cluster", Address: "https://bj", Timed: true},
		ClusterDNS:   doctor.ConfigMap{Key: "kube-system/coredns", Found: true, Data: map[string]string{"Corefile": "clusterset.local {\n forward . 10.96.0.53\n}"}},
		NodeLocalDNS: doctor.ConfigMap{Key: "kube-system/node-local-dns", Err: errors.New("it is forbidden")},
		Services:     []doctor.Service{{Namespace: "names", Name: "dns", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.53")}, Selector: servers, DNS: true}},
		Workloads:    []doctor.Workload{{Part: view.PartDNS, Namespace: "names", Name: "dns", Labels: servers}},
	}
}

// own is a Service that asks to be extended.
func own(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{api.KeyExtend: api.ExtendTrue}},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.9", Selector: map[string]string{"app": name}},
	}
}

// Problems has all that status and doctor know of the hub and of each member, what can't be read, and what services have, each with a cure and
// a command. The most urgent are first. What doctor couldn't check is no problem.
func TestProblems(t *testing.T) {
	s := observed(t)
	answers(t, s, "problems", "/api/problems")
	answers(t, s, "service-member", "/api/service?service=shop/web&from=tianjin")
	answers(t, s, "services-clustersetip", "/api/services?q=10.96.7.7")
}

// What status and doctor both report is listed once: of a cluster whose name is taken, too, instead of each of its exports.
func TestProblemsAreListedOnce(t *testing.T) {
	s := observed(t)
	taken := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: api.ReasonNameTaken, Message: "another agent is at work"}
	local := s.Source(1).Local
	beijing := s.current().set.members[0]
	local.Members = append(local.Members, *beijing.DeepCopy())
	local.Exports[0].Status.Conditions = []metav1.Condition{taken}
	local.Exports = append(local.Exports, mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "absent"}, Status: mcsv1beta1.ServiceExportStatus{
		Conditions: []metav1.Condition{{Type: "Valid", Status: metav1.ConditionFalse, Reason: "NoService", Message: "there is no such Service"}},
	}})
	suspect := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Status: clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberSuspect}}
	local.Members = append(local.Members, suspect)
	local.Imports = append(local.Imports, mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless}})
	local.Slices = []discoveryv1.EndpointSlice{{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{mcsv1beta1.LabelServiceName: "db", api.LabelSourceCluster: "shanghai"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.8.2.10"}}},
	}}
	is := s.current()
	found := is.found(time.Now())
	problems, unchecked := append(found.Items, found.Answered...), found.Unchecked
	reasons := map[string]int{}
	for i, p := range problems {
		reasons[p.Reason]++
		for j, other := range problems {
			if i != j && strings.Contains(p.Message, other.Message) {
				t.Errorf("%s %q says the same as %s %q", p.Reason, p.Message, other.Reason, other.Message)
			}
		}
	}
	for reason, n := range map[string]int{"NoService": 1, api.ReasonNameTaken: 1, "Suspect": 1, "set": 0, "LastResort": 1, "clusterdns": 1, "clock": 2} {
		if reasons[reason] != n {
			t.Errorf("%s is listed %d times, want %d", reason, reasons[reason], n)
		}
	}
	for _, u := range unchecked {
		if u.Urgent || slices.Contains(elsewhereListed, u.Reason) {
			t.Errorf("unchecked: %+v", u)
		}
	}
}

// Of a member that can't be read any more, what the doctor asked stays. It has nothing to say of a member that it hasn't asked yet.
func TestFindingsOfAMemberThatIsAway(t *testing.T) {
	s := New(Options{})
	s.AddSource(Source{Role: RoleMember, Context: "bj", State: Away, Error: "connection refused", Asked: asked()})
	s.AddSource(Source{Role: RoleMember, Context: "tj", State: Loading})
	is := s.current()
	found := is.found(time.Now())
	var all []string
	for _, f := range slices.Concat(found.Items, found.Answered, found.Unchecked) {
		all = append(all, f.Name+" "+f.Reason)
	}
	if got, want := strings.Join(all, ", "), "bj Away, bj clusterdns, bj nodelocaldns"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// Links has what leads from each cluster to each, and who reaches whom: as its Lease says, or with the round trip as its own cluster does.
func TestLinks(t *testing.T) {
	s := observed(t)
	answers(t, s, "links", "/api/links")
}

// What is known of a hub or a member that is away is as old as its last answer. That nobody watches the heartbeats, or that an agent is stuck,
// doesn't follow from it.
func TestAHubThatIsAwayMakesNoClusterUnwatched(t *testing.T) {
	s := observed(t)
	now := time.Now()
	lease := &coordinationv1.Lease{}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now))
	s.now.sources[1].Local.AgentLease = lease
	s.now.sources[1].Local.Members = []clustersetv1alpha1.MemberCluster{{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}}}
	reasons := func() map[string]int {
		n := map[string]int{}
		is := s.current()
		for _, p := range is.found(now.Add(8 * time.Minute)).Items {
			n[p.Reason]++
		}
		return n
	}
	if got := reasons(); got["Unwatched"] == 0 || got["NoHubProcess"] != 1 || got["AgentStopped"] != 1 {
		t.Errorf("heartbeats that stopped are no problem: %v", got)
	}
	for _, from := range s.now.sources[:2] {
		from.State, from.LastAnswer = Away, now
	}
	if got := reasons(); got["Unwatched"] > 0 || got["NoHubProcess"] > 0 || got["AgentStopped"] > 0 || got[string(Away)] != 3 {
		t.Errorf("the hub and the members are away: %v", got)
	}
	s.now.sources[1].State = Live
	if got := reasons(); got["Unwatched"] > 0 || got["AgentStopped"] != 1 {
		t.Errorf("the hub is away: %v", got)
	}
}
