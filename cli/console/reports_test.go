package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/services"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/connect"
)

// reported is a set in which beijing and shanghai export shop/web, as beijing and the hub know it.
type reported struct {
	hub           []*clustersetv1alpha1.MemberCluster
	endpoints     *clustersetv1alpha1.ExportedEndpoints // shanghai's; beijing has none
	lease         *coordinationv1.Lease                 // shanghai's
	report        *clustersetv1alpha1.MemberReport      // likewise
	imported      *mcsv1beta1.ServiceImport
	exported      *mcsv1beta1.ServiceExport
	event         *eventsv1.Event
	local, served []client.Object
}

func fine() *reported {
	r := &reported{
		endpoints: &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("shanghai"), Name: "web.shop"}},
		lease: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("shanghai"), Name: api.HeartbeatLease},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
		},
		report: &clustersetv1alpha1.MemberReport{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("shanghai"), Name: clustersetv1alpha1.MemberReportName},
			Spec:       clustersetv1alpha1.MemberReportSpec{Namespaces: new(clustersetv1alpha1.NamespaceDigest([]string{"default", "shop"}))},
		},
		imported: &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: desired.Labels()}},
		exported: &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		event:    &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Reason: "none", EventTime: metav1.NowMicro(), Regarding: corev1.ObjectReference{Namespace: "shop", Name: "web"}},
	}
	r.endpoints.Spec.ServiceNamespace, r.endpoints.Spec.ServiceName = "shop", "web"
	r.endpoints.Spec.Endpoints = []clustersetv1alpha1.Endpoint{{Addresses: []string{"10.2.0.1"}}}
	r.imported.Spec.Type = mcsv1beta1.ClusterSetIP
	r.imported.Status.Clusters = []mcsv1beta1.ClusterStatus{{Cluster: "beijing"}, {Cluster: "shanghai"}}
	r.exported.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	for _, name := range []string{"beijing", "shanghai"} {
		r.hub = append(r.hub, &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady}})
		e := &clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(name), Name: "web.shop"}}
		e.Spec = clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: "web", Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{"10.96.0.7"}, ExportedAt: metav1.NewTime(time.Unix(1e9, 0)),
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		}
		r.served = append(r.served, e)
	}
	r.local = []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "beijing", Stamp: metav1.NowMicro()},
	}
	return r
}

// clusters returns the hub and beijing, in which an agent has copied the MemberClusters.
func (r *reported) clusters() (hub, member *objects.Cluster) {
	scheme := connect.NewScheme()
	utilruntime.Must(mcsv1beta1.Install(scheme))
	open := func(what string, all ...client.Object) *objects.Cluster {
		name := func(o client.Object) []string { return []string{o.GetName()} }
		reason := func(o client.Object) []string { return []string{o.(*eventsv1.Event).Reason} } //nolint:forcetypeassert // the index is of Events
		return &objects.Cluster{What: what, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).
			WithIndex(&coordinationv1.Lease{}, "metadata.name", name).WithIndex(&eventsv1.Event{}, "reason", reason).Build()}
	}
	there, here := append([]client.Object{r.endpoints, r.lease, r.report}, r.served...), append([]client.Object{r.imported, r.event}, r.local...)
	if r.exported != nil {
		here = append(here, r.exported)
	}
	for _, m := range r.hub {
		m.UID = "1"
		there = append(there, m.DeepCopy())
		m.Labels = desired.Labels()
		here = append(here, m)
	}
	return open("hub", there...), open("cluster", here...)
}

func wrong(conditions *[]metav1.Condition, kind, reason string) {
	*conditions = append(*conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "because", LastTransitionTime: metav1.Now()})
}

// Whatever is wrong, status, doctor, services and the console show it, and count the same; with the hub alone too, if the hub can know it.
func TestEveryReportShowsEveryProblem(t *testing.T) {
	export := func(kind, reason string) func(*reported) {
		return func(r *reported) { wrong(&r.exported.Status.Conditions, kind, reason) }
	}
	unexported := func(r *reported) { r.exported = nil }
	silent := func(phase clustersetv1alpha1.MemberClusterPhase) func(*reported) {
		return func(r *reported) { r.hub[1].Status.Phase = phase }
	}
	for name, c := range map[string]struct {
		change func(*reported)
		want   string // the reasons that a member and the hub see, separated by spaces
		hub    string // those that the hub sees alone
	}{
		"nothing":                    {func(*reported) {}, "", ""},
		"an export isn't ready":      {export("Ready", "Failed"), "Failed", ""},
		"an export isn't valid":      {export("Valid", "NoService"), "NoService", ""},
		"something isn't used":       {export(api.ConditionComplete, api.ReasonNotUsed), api.ReasonNotUsed, ""},
		"export-to excludes all":     {export(api.ConditionVisible, api.ReasonNoPeers), api.ReasonNoPeers, ""},
		"alone in its community":     {export(api.ConditionVisible, api.ReasonAlone), "", ""},
		"something is left out":      {func(r *reported) { wrong(&r.imported.Status.Conditions, api.ConditionComplete, api.ReasonLeftOut) }, api.ReasonLeftOut, ""},
		"just un-exported":           {unexported, "", ""},
		"a mass withdrawal is held":  {func(r *reported) { unexported(r); r.event.Reason = "WithdrawalHeld" }, "Held", ""},
		"nothing is behind it":       {func(r *reported) { r.endpoints.Spec.Endpoints = nil }, api.ReasonNoEndpoints, api.ReasonNoEndpoints},
		"nothing is ready behind it": {func(r *reported) { r.endpoints.Spec.Endpoints[0].Conditions.Ready = new(bool) }, api.ReasonNoEndpoints, api.ReasonNoEndpoints},
		"the importer says so too": {func(r *reported) {
			r.endpoints.Spec.Endpoints = nil
			wrong(&r.imported.Status.Conditions, api.ConditionEndpoints, api.ReasonNoEndpoints)
		}, api.ReasonNoEndpoints, api.ReasonNoEndpoints},
		"the others lack its namespace": {func(r *reported) {
			*r.report.Spec.Namespaces = clustersetv1alpha1.NamespaceDigest([]string{"default"})
		}, view.MissingElsewhere, view.MissingElsewhere},
		"they lacked it until now": {func(r *reported) {
			r.hub[1].Status.Namespaces = clustersetv1alpha1.NamespaceDigest([]string{"default"})
		}, "", ""},
		"its namespace is missing": {func(r *reported) { r.local[0].SetName("default"); r.exported = nil; r.imported.Status.Clusters = nil }, "Missing", ""},
		"only silent clusters":     {silent(clustersetv1alpha1.MemberSuspect), "Suspect", "Suspect"},
		"only lost clusters":       {silent(clustersetv1alpha1.MemberExpired), "Expired", "Expired"},
		"its settings are invalid": {func(r *reported) { wrong(&r.hub[1].Status.Conditions, clustersetv1alpha1.ConditionValid, "Invalid") }, "Invalid", "Invalid"},
		"two clusters share a name": {func(r *reported) {
			r.exported.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: api.ReasonNameTaken, Message: "because"}}
		}, api.ReasonNameTaken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := fine()
			c.change(r)
			hub, member := r.clusters()
			r.say(t, hub, member, strings.Fields(c.want))
			r.say(t, hub, nil, strings.Fields(c.hub))
		})
	}
}

// say asks every report of the hub and, unless it is nil, of a member.
func (r *reported) say(t *testing.T, hub, member *objects.Cluster, want []string) {
	t.Helper()
	facts, err := view.Fetch(t.Context(), member, hub)
	if err != nil || facts.Hub.Err != nil {
		t.Fatal(err, facts.Hub.Err)
	}
	report := view.Build(facts)
	got := map[string][]string{}
	for _, p := range report.All() {
		got["status"] = append(got["status"], p.Reason)
		if text := (view.Screen{}).Render(report); p.Cure == "" || !strings.Contains(text, p.Reason+": "+p.Message+"\n    → "+p.Cure) {
			t.Errorf("status doesn't show %+v:\n%s", p, text)
		}
	}
	s := New(Options{})
	s.SetHub(facts.Hub)
	s.AddSource(Source{Role: RoleHub, State: Live})
	for _, o := range services.Of(facts, nil, report) {
		for _, p := range o.Problems {
			if p.Reason != "LastResort" {
				got["services"] = append(got["services"], p.Reason)
			}
		}
	}
	if member != nil {
		s.AddSource(Source{Role: RoleMember, Cluster: "beijing", State: Live, Local: facts.Local})
		checked := &doctor.Facts{Cluster: &doctor.Server{}, Hub: &doctor.Server{}}
		checked.See(&facts, report)
		for _, f := range doctor.Diagnose(checked).Findings {
			if f.Check == "set" && f.Level == doctor.Problem {
				got["doctor"] = append(got["doctor"], strings.Split(f.Message, ": ")[1])
			}
		}
	}
	problems := answer[Problems](t, s, "/api/problems")
	if problems.Total != len(problems.Items) {
		t.Errorf("the console counts %d of %d", problems.Total, len(problems.Items))
	}
	for _, p := range problems.Items {
		got["console"] = append(got["console"], p.Reason)
	}
	ofServices := slices.DeleteFunc(slices.Clone(want), func(reason string) bool {
		return slices.Contains([]string{view.MissingElsewhere, "Missing", "Suspect", "Expired", "Invalid", api.ReasonNameTaken}, reason)
	})
	for name, want := range map[string][]string{"status": want, "doctor": want, "console": want, "services": ofServices} {
		if name == "doctor" && member == nil {
			continue // it checks a member
		}
		if !slices.Equal(got[name], want) {
			t.Errorf("with the member %v, %s says %q, want %q", member != nil, name, got[name], want)
		}
	}
}
