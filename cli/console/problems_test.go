package console

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/importer/desired"
)

// observed returns the console of testdata/hub.yaml with a member that it reads, and one that it can't read.
func observed(t *testing.T) *Server {
	t.Helper()
	s, _ := hub(t)
	hear(s, map[string]view.Heartbeat{
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
		{Role: RoleMember, Context: "bj", Cluster: "beijing", State: Live, Local: local, Asked: asked(), Traffic: &view.Traffic{Servers: 2, Services: map[string]map[string]float64{"shop/web": {"zone": 40, "any": 2}}}},
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
		ClusterDNS:   clusterdns.Place{Key: "kube-system/coredns", Corefile: "clusterset.local {\n forward . 10.96.0.53\n}"},
		NodeLocalDNS: clusterdns.Place{Key: "kube-system/node-local-dns", Err: errors.New("it is forbidden")},
		Services: []corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "names", Name: "dns"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.53", ClusterIPs: []string{"10.96.0.53"}, Selector: servers, Ports: []corev1.ServicePort{{Port: 53}}},
		}},
		Workloads: []doctor.Workload{{Part: view.PartDNS, Namespace: "names", Name: "dns", Labels: servers}},
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
// a command, listed once. The most urgent are first. What doctor couldn't check is no problem.
func TestProblems(t *testing.T) {
	s := observed(t)
	answers(t, s, "problems", "/api/problems")
	answers(t, s, "service-member", "/api/service?service=shop/web&from=tianjin")
	answers(t, s, "services-clustersetip", "/api/services?q=10.96.7.7")
	answers(t, s, "links", "/api/links") // as the Leases say, or with the round trip as the cluster itself does
	problems := answer[Problems](t, s, "/api/problems").Items
	for i, p := range problems {
		for j, other := range problems {
			if i != j && strings.Contains(p.Message, other.Message) {
				t.Errorf("%s %q says the same as %s %q", p.Reason, p.Message, other.Reason, other.Message)
			}
		}
	}
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
	s.now.hub.Read = now
	for _, from := range s.now.sources[:2] {
		from.State, from.LastAnswer = Away, now
	}
	if got := reasons(); got["Unwatched"] > 0 || got["NoHubProcess"] > 0 || got["AgentStopped"] > 0 || got[string(Away)] != 3 {
		t.Errorf("the hub and the members are away: %v", got)
	}
	s.now.sources[1].State, s.now.sources[1].LastAnswer = Live, now.Add(8*time.Minute)
	if got := reasons(); got["Unwatched"] > 0 || got["AgentStopped"] != 1 {
		t.Errorf("the hub is away: %v", got)
	}
}
