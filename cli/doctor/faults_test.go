package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/importer/desired"
)

// broken is a set of two clusters, seen from beijing and its hub, in which something is broken.
type broken struct {
	view.Facts
	checked Facts // what doctor reads besides
}

func sound() *broken {
	b := &broken{checked: *healthy()}
	var members []clustersetv1alpha1.MemberCluster
	for _, name := range []string{"beijing", "shanghai"} {
		m := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Status.Phase = clustersetv1alpha1.MemberReady
		members = append(members, m)
	}
	export := clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("shanghai"), Name: api.ExportedServiceName("shop", "web")}}
	export.Spec.ServiceNamespace, export.Spec.ServiceName = "shop", "web"
	b.Now = now
	b.Local = &view.LocalFacts{
		Cluster: "beijing", Members: slices.Clone(members), Namespaces: map[string]bool{"shop": true},
		Reach: &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Stamp: metav1.NewMicroTime(now), Clusters: []clustersetv1alpha1.ClusterReachability{
			{Name: "shanghai", Reachable: metav1.ConditionTrue, Reason: "Answers", Since: metav1.NewTime(now)},
		}},
	}
	b.Hub = &view.HubFacts{
		Server: "https://hub:6443", Members: members, Exports: []clustersetv1alpha1.ExportedService{export},
		Heard: map[string]view.Heartbeat{"beijing": {Renewed: now}, "shanghai": {Renewed: now}},
	}
	return b
}

// shanghai gives its MemberCluster, here and on the hub, another state.
func (b *broken) shanghai(change func(*clustersetv1alpha1.MemberCluster)) {
	change(&b.Local.Members[1])
	change(&b.Hub.Members[1])
}

func conditioned(kind string, is metav1.ConditionStatus, message string) func(*clustersetv1alpha1.MemberCluster) {
	return func(m *clustersetv1alpha1.MemberCluster) {
		m.Status.Conditions = []metav1.Condition{{Type: kind, Status: is, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	}
}

// hubAnswers is what the agent here says of its last request to the hub.
func (b *broken) hubAnswers(reason, message string) {
	conditioned(clustersetv1alpha1.ConditionHubAnswers, metav1.ConditionFalse, message)(&b.Local.Members[0])
	b.Local.Members[0].Status.Conditions[0].Reason = reason
}

func phased(p clustersetv1alpha1.MemberClusterPhase) func(*clustersetv1alpha1.MemberCluster) {
	return func(m *clustersetv1alpha1.MemberCluster) { m.Status.Phase = p }
}

const secretName = api.SystemNamespace + "/" + api.HubSecret

// renewed is the Lease of an agent that renewed it last so long ago.
func renewed(ago time.Duration) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: api.MemberLeaderLease}}
	l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = ptr.To(metav1.NewMicroTime(now.Add(-ago))), ptr.To(int32(15))
	return l
}

func (b *broken) reach(is metav1.ConditionStatus, reason string) {
	b.Local.Reach.Clusters[0].Reachable, b.Local.Reach.Clusters[0].Reason = is, reason
}

// export gives this cluster an export with a condition that is False.
func (b *broken) export(kind, reason string) {
	b.Local.Exports = []mcsv1beta1.ServiceExport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Status: mcsv1beta1.ServiceExportStatus{Conditions: []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue}, {Type: kind, Status: metav1.ConditionFalse, Reason: reason},
	}}}}
}

// faults are the ways to break a set, in the words of docs/troubleshooting.md.
var faults = []struct {
	name  string
	make  func(*broken)
	green bool // by rule D48, a way that isn't measured is no problem
}{
	{"the agent here is frozen, stopped or crashes", func(b *broken) { b.Local.AgentLease = renewed(50 * time.Second) }, false},
	{"the Secret of the agent's credentials is gone", func(b *broken) {
		b.Local.AgentLease, b.Local.Agent = renewed(time.Second), &view.Settings{HubSecret: secretName}
		b.Local.SecretMissing, b.checked.Credentials.Err = true, apierrors.NewNotFound(corev1.Resource("secrets"), api.HubSecret)
	}, false},
	{"the agent waits for its credentials", func(b *broken) {
		b.Local, b.Hub = &view.LocalFacts{Agent: &view.Settings{HubSecret: secretName}, SecretMissing: true}, nil
	}, false},
	{"nobody has copied a new member's credentials from the hub", func(b *broken) {
		b.shanghai(phased(""))
		b.shanghai(conditioned(clustersetv1alpha1.ConditionJoined, metav1.ConditionTrue, ""))
		b.Hub.Members[1].Status.Conditions[0].Reason = clustersetv1alpha1.ReasonCredentialsWait
	}, false},
	{"another cluster's agent is down", func(b *broken) { b.shanghai(phased(clustersetv1alpha1.MemberSuspect)) }, false},
	{"another cluster has been silent for minutes", func(b *broken) { b.shanghai(phased(clustersetv1alpha1.MemberExpired)) }, false},
	{"a name has endpoints only in clusters that are Expired", func(b *broken) {
		b.shanghai(phased(clustersetv1alpha1.MemberExpired))
		b.Local.Imports = []mcsv1beta1.ServiceImport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless}}}
		b.Local.Slices = []discoveryv1.EndpointSlice{{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{api.LabelServiceName: "db", api.LabelSourceCluster: "shanghai"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.2.0.1"}}},
		}}
	}, false},
	{"an agent has never run", func(b *broken) { b.shanghai(phased("")) }, false},
	{"this cluster has left", func(b *broken) { b.Hub.Members = b.Hub.Members[1:] }, false},
	{"this cluster has left, and was cleaned up", func(b *broken) { b.Local, b.Hub = &view.LocalFacts{}, nil }, false},
	{"a namespace is missing here", func(b *broken) { b.Local.Namespaces = map[string]bool{} }, false},
	{"the hub doesn't answer the agent", func(b *broken) {
		conditioned(clustersetv1alpha1.ConditionHubAnswers, metav1.ConditionFalse, "")(&b.Local.Members[0])
		b.Hub = nil
	}, false},
	{"the agent's token was revoked", func(b *broken) {
		b.hubAnswers(clustersetv1alpha1.ReasonHubRefusesToken, "it has been revoked, or belongs to another hub")
	}, false},
	{"the agent's token was revoked a moment ago", func(b *broken) { b.checked.Credentials.Refused = true }, false},
	{"the agent may no longer read the hub", func(b *broken) {
		b.hubAnswers(clustersetv1alpha1.ReasonHubRefuses, "")
	}, false},
	{"the hub doesn't answer the operator", func(b *broken) {
		b.Hub = &view.HubFacts{Err: errors.New("connection refused; check --hub-kubeconfig")}
		b.checked.Hub.Err = b.Hub.Err
	}, false},
	{"the hub answers, and can't be read", func(b *broken) { b.Hub = &view.HubFacts{Err: errors.New("etcdserver: request timed out")} }, false},
	{"the agent's token was revoked, and the operator can't read the hub", func(b *broken) {
		b.hubAnswers(clustersetv1alpha1.ReasonHubRefusesToken, "it has been revoked, or belongs to another hub")
		b.Hub = &view.HubFacts{Err: apierrors.NewUnauthorized("no access")}
	}, false},
	{"no hub process runs", func(b *broken) { b.Hub.Process = now.Add(-time.Minute) }, false},
	{"no hub process runs, and a cluster is silent", func(b *broken) { b.Hub.Heard["shanghai"] = view.Heartbeat{Renewed: now.Add(-time.Hour)} }, false},
	{"the hub has moved from here, and the old MemberClusters are left", func(b *broken) {
		for i := range b.Local.Members {
			b.Local.Members[i].UID, b.Local.Members[i].Finalizers = "old", []string{api.MemberFinalizer}
		}
	}, false},
	{"another cluster has a MemberCluster that isn't its agent's copy", func(b *broken) {
		b.Hub.Heard["shanghai"] = view.Heartbeat{Renewed: now, CantFollow: "beijing"}
	}, false},
	{"spec.cidrs are wrong", func(b *broken) {
		b.shanghai(conditioned(clustersetv1alpha1.ConditionValid, metav1.ConditionFalse, "not used as it is: spec.cidrs[0]"))
	}, false},
	{"spec.cidrs leave out what a cluster exports", func(b *broken) {
		b.shanghai(conditioned(clustersetv1alpha1.ConditionWithinCIDRs, metav1.ConditionFalse, "spec.cidrs leaves out 12 of 12 endpoints"))
	}, false},
	{"two clusters' networks overlap", func(b *broken) { b.reach(metav1.ConditionFalse, "WrongCluster") }, false},
	{"cidrs of two clusters of one network overlap", func(b *broken) {
		b.Hub.Members[0].Spec.CIDRs = []string{"10.244.0.0/16"}
		b.shanghai(func(m *clustersetv1alpha1.MemberCluster) { m.Spec.CIDRs = []string{"10.244.7.0/24"} })
	}, false},
	{"a service is only in a network from which nothing leads here", func(b *broken) {
		b.shanghai(func(m *clustersetv1alpha1.MemberCluster) { m.Spec.Network = "edge" })
		b.Local.Imports = []mcsv1beta1.ServiceImport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Status: mcsv1beta1.ServiceImportStatus{Clusters: []mcsv1beta1.ClusterStatus{{Cluster: "shanghai"}}}}}
	}, false},
	{"nothing is ready behind a name", func(b *broken) {
		b.Local.Imports = []mcsv1beta1.ServiceImport{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Status: mcsv1beta1.ServiceImportStatus{
			Conditions: []metav1.Condition{{Type: api.ConditionEndpoints, Status: metav1.ConditionFalse, Reason: api.ReasonNoEndpoints}},
		}}}
	}, false},
	{"another cluster lacks a namespace", func(b *broken) {
		lacks, web := clustersetv1alpha1.NamespaceDigest([]string{"default"}), clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing")}}
		web.Spec.ServiceNamespace, web.Spec.ServiceName = "shop", "web"
		b.Hub.Exports, b.Hub.Heard["shanghai"] = []clustersetv1alpha1.ExportedService{web}, view.Heartbeat{Renewed: now, Namespaces: &lacks}
	}, false},
	{"no other cluster may import an export", func(b *broken) { b.export(api.ConditionVisible, api.ReasonNoPeers) }, false},
	{"an annotation of an export is misspelled", func(b *broken) { b.export(api.ConditionComplete, api.ReasonNotUsed) }, false},
	{"a mark is misspelled", func(b *broken) {
		b.Local.Marks = []view.Problem{{Namespace: "shop", Name: "web", What: "Service", Reason: api.ReasonNotUsed}}
	}, false},
	{"another multi-cluster system has endpoints for an exported Service", func(b *broken) {
		b.Local.Others, b.Local.Agent = map[client.ObjectKey]string{{Namespace: "shop", Name: "web"}: "has EndpointSlices for it too"}, &view.Settings{}
	}, false},
	{"the definition of ServiceExport has no status subresource", func(b *broken) { b.checked.Cluster.CRDs[2].Outdated = []string{"the status subresource"} }, false},
	{"a cluster is alone in its community", func(b *broken) { b.export(api.ConditionVisible, api.ReasonAlone) }, true},
	{"the path to another cluster is cut", func(b *broken) { b.reach(metav1.ConditionFalse, "NoAnswer") }, false},
	{"this cluster's agent is cut off from all", func(b *broken) { b.reach(metav1.ConditionTrue, "AllUnreachable") }, false},
	{"another cluster can't reach one", func(b *broken) {
		b.Hub.Heard["shanghai"] = view.Heartbeat{Renewed: now, Measures: true, CantReach: []string{"beijing"}}
	}, false},
	{"a beacon was always blocked", func(b *broken) { b.reach(metav1.ConditionUnknown, "NeverReached") }, true},
	{"this cluster exports nothing, because another works under its name", func(b *broken) {
		b.export("Ready", api.ReasonNameTaken)
		b.Local.Exports[0].Status.Conditions = b.Local.Exports[0].Status.Conditions[1:]
	}, false},
	{"the cluster DNS doesn't forward", func(b *broken) { b.checked.ClusterDNS.Corefile = stock }, false},
	{"the cluster DNS forwards to an address that no Service has any more", func(b *broken) { b.checked.Services[0].Spec.ClusterIPs = []string{"10.96.0.54"} }, false},
	{"the DNS servers are down", func(b *broken) {
		b.checked.Replies = []clusterdns.Reply{{Zone: "clusterset.local", Err: errors.New("i/o timeout"), Timeout: true}}
		b.checked.Pods[1].Ready = false
	}, false},
	{"the agent's pod crashes", func(b *broken) { b.checked.Pods[0].Ready = false }, false},
	{"the agent's pod can't be created", func(b *broken) { b.checked.Pods, b.checked.Workloads[0].Pods = b.checked.Pods[1:], 0 }, false},
	{"the DNS servers have the location of another cluster", func(b *broken) { b.checked.Member.Name = "guangzhou" }, false},
	{"an upgrade isn't finished", func(b *broken) { b.checked.Pods[1].Version = "1.1.0" }, false},
	{"the agent's token is about to expire", func(b *broken) { b.checked.Credentials.Expires = now.Add(time.Hour) }, false},
	{"a Service can't fail over", func(b *broken) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.KeyExtend: api.ExtendTrue}}}
		b.Local.Asking = []view.Asking{{Extended: desired.Extended{Service: svc}}}
	}, false},
}

// For each way to break a set, what status and doctor say and how they exit is in the table of docs/troubleshooting.md. None is green.
func TestNoFaultIsGreen(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	if says, exits := said(sound()); exits != "0, 0" {
		t.Errorf("nothing is broken, and status and doctor exit with %s: %s", exits, says)
	}
	var rows strings.Builder
	for _, fault := range faults {
		b := sound()
		fault.make(b)
		says, exits := said(b)
		if (exits == "0, 0") != fault.green {
			t.Errorf("%s: status and doctor exit with %s: %s", fault.name, exits, says)
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", fault.name, says, exits)
	}
	if !strings.Contains(string(doc), rows.String()) {
		t.Errorf("docs/troubleshooting.md must have this table:\n%s", rows.String())
	}
}

// said returns what status and doctor say of a set, and their exit codes.
func said(b *broken) (says, exits string) {
	r := view.Build(b.Facts)
	b.checked.Set = r
	if b.checked.Hub.Err != nil { // doctor reads no more of it
		facts := b.Facts
		facts.Hub = nil
		b.checked.Set = view.Build(facts)
	}
	d := Diagnose(&b.checked)
	status, doctor := 0, 0
	var reasons, checks []string
	for _, p := range r.All() {
		reasons = append(reasons, "`"+p.Reason+"`")
	}
	for _, f := range d.Findings {
		if link := "[" + f.Check + "](#" + f.Check + ")"; f.Level == Problem && !slices.Contains(checks, link) {
			checks = append(checks, link)
		}
	}
	if len(reasons) > 0 {
		status = 1
	}
	if d.Problems > 0 {
		doctor = 1
	}
	or := func(all []string) string {
		if len(all) == 0 {
			return "-"
		}
		return strings.Join(all, ", ")
	}
	return or(reasons) + " | " + or(checks), fmt.Sprintf("%d, %d", status, doctor)
}
