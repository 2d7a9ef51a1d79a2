package view

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/page"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

func member(name, place string, phase clustersetv1alpha1.MemberClusterPhase, heard *metav1.Time, change ...func(*clustersetv1alpha1.MemberCluster)) clustersetv1alpha1.MemberCluster {
	zone, region, _ := strings.Cut(place, "/")
	exports := int32(12)
	mc := clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clustersetv1alpha1.MemberClusterSpec{Zone: zone, Region: region},
		Status:     clustersetv1alpha1.MemberClusterStatus{Phase: phase, LastHeartbeatTime: heard, AgentVersion: "v1.2.3", ExportedServices: &exports},
	}
	for _, c := range change {
		c(&mc)
	}
	return mc
}

func drained(mc *clustersetv1alpha1.MemberCluster) { mc.Spec.Drain = true }

// learned sets zones that were learned from the cluster's nodes. The spec states none.
func learned(mc *clustersetv1alpha1.MemberCluster) {
	mc.Status.Zones = []string{"eu-central-1a", "eu-central-1b", "eu-central-1c", "eu-central-1d", "eu-central-1e"}
}

func silent(mc *clustersetv1alpha1.MemberCluster) {
	mc.Status.Conditions = []metav1.Condition{{
		Type: clustersetv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: clustersetv1alpha1.ReasonHeartbeatMissed,
		Message: "no heartbeat since 2026-05-04T11:58:50Z",
	}}
}

// answers adds the condition with which an agent reports whether the hub answers.
func answers(status metav1.ConditionStatus, since time.Duration) func(*clustersetv1alpha1.MemberCluster) {
	return func(mc *clustersetv1alpha1.MemberCluster) {
		mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
			Type: clustersetv1alpha1.ConditionHubAnswers, Status: status, LastTransitionTime: *ago(since),
		})
	}
}

// limited marks a cluster as having reached the limit of services.
func limited(mc *clustersetv1alpha1.MemberCluster) {
	mc.Status.Conditions = append(mc.Status.Conditions, condition(clustersetv1alpha1.ConditionLimited, metav1.ConditionTrue,
		clustersetv1alpha1.ReasonTooManyServices, "the cluster has as many services on the hub as it may (--max-services), and more are refused"))
}

// inCommunities returns clusters in communities, which the hub enforces.
func inCommunities() []clustersetv1alpha1.MemberCluster {
	in := func(communities ...string) func(*clustersetv1alpha1.MemberCluster) {
		return func(mc *clustersetv1alpha1.MemberCluster) {
			mc.Spec.Communities = communities
			mc.Status.Conditions = append(mc.Status.Conditions, condition(clustersetv1alpha1.ConditionCommunitiesEnforced, metav1.ConditionTrue, clustersetv1alpha1.ReasonEnforced, ""))
		}
	}
	return []clustersetv1alpha1.MemberCluster{
		member("beijing", "cn-north-1a/cn-north-1", clustersetv1alpha1.MemberReady, nil, in("payments", "edge-asia")),
		member("lyon", "", clustersetv1alpha1.MemberReady, nil, in("payments", "a", "b", "c", "d")),
		member("oslo", "", clustersetv1alpha1.MemberReady, nil, in()),
		member("theirs", "", "", nil, in(), func(mc *clustersetv1alpha1.MemberCluster) {
			mc.Status.Conditions = append(mc.Status.Conditions, condition(clustersetv1alpha1.ConditionJoined, metav1.ConditionFalse,
				clustersetv1alpha1.ReasonNotOurs, "ServiceAccount clusterset-member-theirs/clusterset-member exists and isn't clusterset's"))
		}),
	}
}

// inNetworks returns clusters in three networks, of which one has no name.
func inNetworks() []clustersetv1alpha1.MemberCluster {
	network := func(name string, external ...string) func(*clustersetv1alpha1.MemberCluster) {
		return func(mc *clustersetv1alpha1.MemberCluster) {
			mc.Spec.Network, mc.Spec.ExternalCIDRs = name, external
		}
	}
	return []clustersetv1alpha1.MemberCluster{
		member("beijing", "cn-north-1a/cn-north-1", clustersetv1alpha1.MemberReady, nil, network("core"), answers(metav1.ConditionTrue, time.Hour)),
		member("shanghai", "cn-east-1b/cn-east-1", clustersetv1alpha1.MemberReady, nil, network("edge", "192.0.2.0/24")),
		member("lyon", "", clustersetv1alpha1.MemberReady, nil, network("")),
		member("tianjin", "cn-north-1a/cn-north-1", clustersetv1alpha1.MemberReady, nil, network("core")),
	}
}

// acrossNetworks returns what beijing imports from them: web is reached at nodes of shanghai, db and mq of shanghai are headless, cart of lyon has
// nowhere to be, and api is in tianjin too.
func acrossNetworks() *LocalFacts {
	l := local(inNetworks()...)
	l.Imports, l.Exports = nil, nil
	for name, clusters := range map[string][]string{"web": {"shanghai"}, "db": {"shanghai"}, "mq": {"shanghai"}, "cart": {"lyon"}, "api": {"lyon", "tianjin"}} {
		kind := mcsv1beta1.ClusterSetIP
		if name == "db" || name == "mq" {
			kind = mcsv1beta1.Headless
		}
		o := imported(name, kind)
		o.Spec.Ports = []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}
		for _, c := range clusters {
			o.Status.Clusters = append(o.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: c})
		}
		l.Imports = append(l.Imports, o)
	}
	l.Slices = []discoveryv1.EndpointSlice{external("web", 31234, "192.0.2.21", "192.0.2.22"), routed("api", "tianjin", "http", "10.245.0.1")}
	return l
}

// external returns the slice of shanghai's external addresses.
func external(service string, port int32, addresses ...string) discoveryv1.EndpointSlice {
	s := routed(service, "shanghai", "http", addresses...)
	s.Annotations, s.Ports[0].Port = map[string]string{api.AnnotationExternal: "1"}, &port
	return s
}

func exported(cluster, name, port string, at time.Time) clustersetv1alpha1.ExportedService {
	return clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name + ".shop"},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: name, Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.NewTime(at),
			Ports: []clustersetv1alpha1.ServicePort{{Name: port, Protocol: "TCP", Port: 80}},
		},
	}
}

// behind returns an endpoint of a service.
func behind(cluster, name string) clustersetv1alpha1.ExportedEndpoints {
	return clustersetv1alpha1.ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name + ".shop"},
		Spec:       clustersetv1alpha1.ExportedEndpointsSpec{ServiceNamespace: "shop", ServiceName: name, Endpoints: []clustersetv1alpha1.Endpoint{{Addresses: []string{"10.2.0.1"}}}},
	}
}

func export(name string, conditions ...metav1.Condition) mcsv1beta1.ServiceExport {
	return mcsv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Status:     mcsv1beta1.ServiceExportStatus{Conditions: conditions},
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func local(members ...clustersetv1alpha1.MemberCluster) *LocalFacts {
	fine := condition("Ready", metav1.ConditionTrue, "Exported", "")
	for i := range members {
		members[i].Labels = desired.Labels()
	}
	return &LocalFacts{
		Cluster: "beijing", Members: members,
		Imports: []mcsv1beta1.ServiceImport{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Status: mcsv1beta1.ServiceImportStatus{
				Conditions: []metav1.Condition{condition("Ready", metav1.ConditionFalse, "IPFamilyNotSupported", "no ClusterSetIP: the oldest export has IPv6, which Services of this cluster can't have")},
			}},
		},
		Exports: []mcsv1beta1.ServiceExport{
			export("web", fine, condition("Conflict", metav1.ConditionTrue, "PortConflict", "ports: shanghai (1 of 2 clusters) disagrees with beijing, whose export is the oldest; \x1b[31mevil\x07")),
			export("gone", condition("Valid", metav1.ConditionFalse, "NoService", "there is no Service shop/gone")),
			export("new"),
		},
	}
}

func members() []clustersetv1alpha1.MemberCluster {
	return []clustersetv1alpha1.MemberCluster{
		member("shanghai", "cn-east-1b/cn-east-1", clustersetv1alpha1.MemberSuspect, ago(70*time.Second), silent),
		member("beijing", "cn-north-1a/cn-north-1", clustersetv1alpha1.MemberReady, nil, answers(metav1.ConditionTrue, 3*time.Hour)),
		member("frankfurt", "/eu-central-1", clustersetv1alpha1.MemberReady, nil, drained, learned),
		member("edge-7", "", clustersetv1alpha1.MemberExpired, ago(50*time.Hour), silent),
		member("thief", "", clustersetv1alpha1.MemberReady, nil, limited),
		member("young", "", "", nil, func(mc *clustersetv1alpha1.MemberCluster) { mc.Status = clustersetv1alpha1.MemberClusterStatus{} }),
	}
}

func facts() map[string]Facts {
	hub := &HubFacts{
		Server: "https://hub.example:6443", Latency: 12 * time.Millisecond, Members: members(),
		// beijing's clock is ahead.
		Heard: map[string]Heartbeat{"beijing": {Renewed: now.Add(time.Hour)}, "shanghai": {Renewed: now.Add(-69 * time.Second)}},
		Exports: []clustersetv1alpha1.ExportedService{
			exported("beijing", "web", "http", now.Add(-time.Hour)), exported("shanghai", "web", "https", now),
			exported("beijing", "api", "http", now), exported("frankfurt", "api", "grpc", now.Add(-time.Minute)),
		},
	}
	old := member("beijing", "cn-north-1a/cn-north-1", clustersetv1alpha1.MemberReady, nil, answers(metav1.ConditionFalse, 14*time.Minute))
	old.Status.Conditions = append(old.Status.Conditions, condition(clustersetv1alpha1.ConditionSteered, metav1.ConditionTrue,
		clustersetv1alpha1.ReasonLabels, "by labels, because Cilium runs, and reads no hints without enable-service-topology"))
	refused := *old.DeepCopy()
	refused.Status.Conditions[0].Reason = clustersetv1alpha1.ReasonHubRefuses
	held := local(members()...)
	held.Imports[0].Status.Clusters = []mcsv1beta1.ClusterStatus{{Cluster: "beijing"}, {Cluster: "shanghai"}}
	held.Exports, held.Held = held.Exports[1:], map[client.ObjectKey]string{{Namespace: "shop", Name: "web"}: ""}
	hub.Know([]clustersetv1alpha1.ExportedEndpoints{behind("beijing", "web"), behind("frankfurt", "api")})
	worn := local(members()...)
	worn.Imports[0] = imported("web", mcsv1beta1.ClusterSetIP)
	worn.Slices = []discoveryv1.EndpointSlice{routed("web", "shanghai", "http", "10.2.0.1"), routed("web", "frankfurt", "http", "10.3.0.1")}
	return map[string]Facts{
		"last-resort": {Now: now, Local: worn},
		"held":        {Now: now, Local: held},
		"local":       {Now: now, Local: local(members()...)},
		"hub":         {Now: now, Local: local(old), Hub: hub},
		"hub-only":    {Now: now, Hub: hub, Notes: []string{"only the hub is read: no kubeconfig found"}},
		"hub-down":    {Now: now, Local: local(old), Hub: &HubFacts{Server: "https://hub.example:6443", Err: errors.New("the hub at https://hub.example:6443 can't be reached: connection refused; check --hub-kubeconfig")}},
		"quiet":       {Now: now, Local: local(old)},
		"refused":     {Now: now, Local: local(refused)},
		"communities": {Now: now, Hub: &HubFacts{Server: "https://hub.example:6443", Members: inCommunities()}},
		"networks":    {Now: now, Local: acrossNetworks()},
		"empty":       {Now: now, Local: &LocalFacts{}},
	}
}

func TestRender(t *testing.T) {
	for name, f := range facts() {
		r := Build(f)
		page.Fresh(t, "testdata/"+name+".txt", Screen{}.Render(r))
		if name == "hub" {
			page.Fresh(t, "testdata/"+name+"-wide.txt", Screen{Wide: true}.Render(r))
			page.Fresh(t, "testdata/"+name+"-colours.txt", Screen{Colours: true}.Render(r))
			content, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			page.Fresh(t, "testdata/"+name+".json", string(content)+"\n")
		}
	}
}

// However many services have problems, the output fits one screen; each has its whole message and its cure.
func TestManyProblemsAreCutOff(t *testing.T) {
	l := local(members()...)
	for range 100 {
		l.Exports = append(l.Exports, export("broken", condition("Ready", metav1.ConditionFalse, "Failed", strings.Repeat("long ", 1000))))
	}
	l.Members = l.Members[1:2]
	text := Screen{}.Render(Build(Facts{Now: now, Local: l}))
	if lines := strings.Count(text, "\n"); lines > 36 || !strings.Contains(text, "-o wide shows all") {
		t.Errorf("%d lines:\n%s", lines, text)
	}
	if whole := "Failed: " + strings.TrimSpace(strings.Repeat("long ", 1000)) + "\n    → "; !strings.Contains(text, whole) {
		t.Errorf("no whole message:\n%.9000s", text)
	}
}

// A MemberCluster with an invalid value stands out, and the message of the hub says which.
func TestInvalidMemberClusterIsNamed(t *testing.T) {
	mc := member("lyon", "", clustersetv1alpha1.MemberReady, nil, func(mc *clustersetv1alpha1.MemberCluster) {
		mc.Status.Conditions = append(mc.Status.Conditions, condition(clustersetv1alpha1.ConditionValid, metav1.ConditionFalse, clustersetv1alpha1.ReasonInvalid, "not used as it is: spec.cidrs[0]"))
	})
	c := clusterOf(&mc)
	if cell := phase(&c); cell.Text != "Ready, invalid" || cell.Colour != screen.Bad || c.Message != "not used as it is: spec.cidrs[0]" {
		t.Errorf("%+v, %q", cell, c.Message)
	}
}
