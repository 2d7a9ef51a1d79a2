package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/namespaces"
)

// For each way to break a set there is a problem, and it says what to do.
func TestWhatIsBrokenIsAProblem(t *testing.T) {
	ready := func(name string) clustersetv1alpha1.MemberCluster {
		return member(name, "", clustersetv1alpha1.MemberReady, nil)
	}
	left := ready("gone")
	left.SetLeft(now)
	hub := func(change ...func(*HubFacts)) *HubFacts {
		h := &HubFacts{Members: []clustersetv1alpha1.MemberCluster{ready("beijing"), ready("shanghai")}, Exports: []clustersetv1alpha1.ExportedService{
			exported("beijing", "web", "http", now), exported("shanghai", "web", "http", now), exported("shanghai", "db", "http", now),
		}}
		for _, c := range change {
			c(h)
		}
		return h
	}
	here := func(namespaces ...string) *LocalFacts {
		l := &LocalFacts{Cluster: "beijing", Members: []clustersetv1alpha1.MemberCluster{ready("beijing")}, Namespaces: map[string]bool{}}
		for _, name := range namespaces {
			l.Namespaces[name] = true
		}
		return l
	}
	for name, c := range map[string]struct {
		facts Facts
		want  []string // what, about, reason
	}{
		"nothing":                             {Facts{Local: here("shop"), Hub: hub()}, nil},
		"missing namespace":                   {Facts{Local: here("default"), Hub: hub()}, []string{"Namespace shop Missing: this cluster has no namespace shop, so its services can't be imported"}},
		"a namespace that the agent excludes": {Facts{Local: settings(here("default"), Settings{Imports: namespaces.Filter{Exclude: []string{"sh*"}}}), Hub: hub()}, nil},
		"a namespace that the agent creates":  {Facts{Local: settings(here("default"), Settings{CreateNamespaces: true}), Hub: hub()}, nil},
		"namespaces that may not be read":     {Facts{Local: &LocalFacts{Cluster: "beijing"}, Hub: hub()}, nil},
		"a namespace of others": {Facts{Local: here("default"), Hub: hub(func(h *HubFacts) {
			h.Members[0].Spec.Communities, h.Members[1].Spec.Communities = []string{"a"}, []string{"b"}
			h.Exports = h.Exports[1:]
		})}, []string{"Hub hub NotEnforced"}},
		"left the hub":      {Facts{Local: here("shop"), Hub: hub(func(h *HubFacts) { h.Members = h.Members[1:] })}, []string{"MemberCluster beijing NotAMember"}},
		"the hub refuses":   {Facts{Hub: &HubFacts{Err: fmt.Errorf("it refuses; ask: %w", apierrors.NewForbidden(corev1.Resource("it"), "", nil))}}, []string{"Hub hub Unreachable: it refuses"}},
		"it is no hub":      {Facts{Hub: &HubFacts{Err: fmt.Errorf("it is none; check: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "MemberCluster"}})}}, []string{"Hub hub Unreachable: it is none"}},
		"one has left":      {Facts{Hub: hub(func(h *HubFacts) { h.Members = append(h.Members, left) })}, nil},
		"this one has left": {Facts{Local: &LocalFacts{Cluster: "gone"}, Hub: hub(func(h *HubFacts) { h.Members = append(h.Members, left) })}, []string{"MemberCluster gone Left"}},
		"no hub process": {Facts{Hub: hub(func(h *HubFacts) {
			h.Heard = map[string]Heartbeat{"beijing": {Renewed: now.Add(-time.Second)}, "shanghai": {Renewed: now.Add(-time.Hour)}}
		})}, []string{"MemberCluster shanghai Unwatched"}},
		"no hub process for a minute, by the hub's clock": {Facts{Hub: hub(func(h *HubFacts) {
			h.Process, h.Heard = now.Add(-50*time.Second), map[string]Heartbeat{"beijing": {Renewed: now.Add(-time.Second)}, "shanghai": {Renewed: now.Add(-time.Hour)}}
		})}, []string{"Hub hub NoHubProcess: no process of clusterset hub has renewed the Lease clusterset-hub-leader for 50s", "MemberCluster shanghai Unwatched"}},
		"a hub process, and a clock that is ahead here": {Facts{Hub: hub(func(h *HubFacts) {
			h.Process, h.Heard = now.Add(-time.Minute), map[string]Heartbeat{"beijing": {Renewed: now.Add(-50 * time.Second)}}
		})}, nil},
		"a hub process, and a heartbeat of the future": {Facts{Hub: hub(func(h *HubFacts) {
			h.Process, h.Heard = now.Add(-time.Second), map[string]Heartbeat{"beijing": {Renewed: now.Add(time.Hour)}}
		})}, nil},
		"a cluster that is silent, and whose networks are wrong": {Facts{Hub: hub(func(h *HubFacts) {
			m := &h.Members[1]
			m.Status.Phase, m.Status.Conditions = clustersetv1alpha1.MemberSuspect, []metav1.Condition{
				condition(clustersetv1alpha1.ConditionReady, metav1.ConditionFalse, "HeartbeatMissed", "no heartbeat"),
				condition(clustersetv1alpha1.ConditionValid, metav1.ConditionFalse, "Invalid", "spec.weight"),
				condition(clustersetv1alpha1.ConditionWithinCIDRs, metav1.ConditionFalse, "OutsideCIDRs", "spec.cidrs leaves out"),
			}
		})}, []string{"MemberCluster shanghai Suspect", "MemberCluster shanghai Invalid: spec.weight", "MemberCluster shanghai OutsideCIDRs: spec.cidrs leaves out"}},
		"a hub that is cut off leaves all Ready": {Facts{Hub: hub(func(h *HubFacts) {
			h.Heard = map[string]Heartbeat{"beijing": {Renewed: now.Add(-time.Hour)}, "shanghai": {Renewed: now.Add(-time.Hour)}}
			h.Members[0].Status.Conditions = []metav1.Condition{condition(clustersetv1alpha1.ConditionExpiryPaused, metav1.ConditionTrue, "MostMembersSilent", "")}
		})}, []string{"Hub hub ExpiryPaused"}},
		"no hub process, and all are heard": {Facts{Hub: hub(func(h *HubFacts) { h.Process = now.Add(-4 * time.Minute) })}, []string{"Hub hub NoHubProcess"}},
		"another hub process takes over":    {Facts{Hub: hub(func(h *HubFacts) { h.Process = now.Add(-2 * time.Minute) })}, nil},
		"the hub is away for longer":        {Facts{Hub: hub(func(h *HubFacts) { h.Read, h.Process = now.Add(-time.Hour), now.Add(-time.Hour) })}, nil},
		"suspect":                           {Facts{Hub: hub(func(h *HubFacts) { h.Members[1].Status.Phase = clustersetv1alpha1.MemberSuspect })}, []string{"MemberCluster shanghai Suspect"}},
		"expired":                           {Facts{Hub: hub(func(h *HubFacts) { h.Members[1].Status.Phase = clustersetv1alpha1.MemberExpired })}, []string{"MemberCluster shanghai Expired"}},
		"silent from the start":             {Facts{Hub: hub(func(h *HubFacts) { h.Members[1].Status.Phase = "" })}, []string{"MemberCluster shanghai NoHeartbeat"}},
		"drained on purpose":                {Facts{Hub: hub(func(h *HubFacts) { drained(&h.Members[1]) })}, nil},
	} {
		c.facts.Now = now
		r := Build(c.facts)
		var got []string
		for _, p := range r.Problems {
			got = append(got, p.What+" "+p.About()+" "+p.Reason+": "+p.Message)
			if p.Cure == "" {
				t.Errorf("%s: %+v has no cure", name, p)
			}
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if len(r.All()) != len(c.want) {
			t.Errorf("%s: counts %d", name, len(r.All()))
		}
	}
}

// A namespace that another cluster lacks by its last report is a problem, unless that cluster imports nothing of it, says nothing, or is read itself.
// Its Lease has the report at once, and says as of when; its MemberCluster up to 16 minutes later (C77 of docs/spec/control-plane.md).
func TestNamespacesThatOtherClustersLack(t *testing.T) {
	with := func(name string, there ...string) clustersetv1alpha1.MemberCluster {
		mc := member(name, "", clustersetv1alpha1.MemberReady, nil)
		mc.Status.Namespaces = clustersetv1alpha1.NamespaceDigest(there)
		return mc
	}
	const atWorst = "as of 16m ago at worst"
	for name, c := range map[string]struct {
		there []string // the namespaces that lyon's MemberCluster has; without any it says nothing
		lease []string // and its Lease, renewed 12 minutes ago
		local *LocalFacts
		want  string // as of when it lacks one; empty: it doesn't
	}{
		"lacks it by its Lease":  {nil, []string{"default"}, nil, "as of 12m ago"},
		"has it by its Lease":    {[]string{"default"}, []string{"default", "shop"}, nil, ""},
		"creates it":             {[]string{"default"}, []string{}, nil, ""},
		"lacks it":               {[]string{"default"}, nil, nil, atWorst},
		"has it":                 {[]string{"default", "shop"}, nil, nil, ""},
		"says nothing":           {nil, nil, nil, ""},
		"in another community":   {[]string{"default"}, nil, nil, ""},
		"left":                   {[]string{"default"}, nil, nil, ""},
		"exported to others":     {[]string{"default"}, nil, nil, ""},
		"read itself":            {[]string{"default"}, nil, &LocalFacts{Cluster: "lyon", Namespaces: map[string]bool{"shop": true}}, ""},
		"read without the right": {[]string{"default"}, nil, &LocalFacts{Cluster: "lyon"}, atWorst},
		"another is read":        {[]string{"default"}, nil, &LocalFacts{Cluster: "beijing", Namespaces: map[string]bool{"shop": true}}, atWorst},
	} {
		lyon, web := with("lyon", c.there...), exported("beijing", "web", "http", now)
		switch name {
		case "in another community":
			lyon.Spec.Communities = []string{"x"}
		case "left":
			lyon.SetLeft(now)
		case "exported to others":
			web.Spec.ExportTo = []string{"shanghai"}
		}
		hub := &HubFacts{Members: []clustersetv1alpha1.MemberCluster{with("beijing", "default"), lyon}, Exports: []clustersetv1alpha1.ExportedService{web}}
		if c.local != nil {
			c.local.Members = []clustersetv1alpha1.MemberCluster{with("beijing", "shop")}
		}
		if c.lease != nil {
			digest := clustersetv1alpha1.NamespaceDigest(c.lease)
			hub.Heard, hub.Members[1].Status.Phase = map[string]Heartbeat{"lyon": {Renewed: now.Add(-12 * time.Minute), Namespaces: &digest}}, clustersetv1alpha1.MemberSuspect
		}
		r := Build(Facts{Now: now, Local: c.local, Hub: hub})
		if is := len(r.Elsewhere) > 0; is != (c.want != "") || is && (len(r.Elsewhere) > 1 || r.Elsewhere[0].Message != "its services aren't imported in lyon ("+c.want+"): there is no namespace shop") {
			t.Errorf("%s: %+v", name, r.Elsewhere)
		}
		if slices.ContainsFunc(r.All(), func(p Problem) bool { return p.What == "Namespace" }) != (c.want != "") {
			t.Errorf("%s: the problems are %+v", name, r.All())
		}
	}
}

func settings(l *LocalFacts, s Settings) *LocalFacts {
	l.Agent = &s
	return l
}

// People may write MemberClusters in a member, with or without an agent. They don't make it the hub, and nothing is heard of them.
func TestAUsersMemberClusterMakesNoHub(t *testing.T) {
	copied, written := member("beijing", "", clustersetv1alpha1.MemberReady, nil), member("edge", "", "", nil)
	copied.Labels = desired.Labels()
	young := member("young", "", "", nil)
	young.Labels = desired.Labels()
	for name, c := range map[string]struct {
		members  []client.Object
		problems string
	}{
		"beside copies":    {[]client.Object{&copied, &written}, ""},
		"without an agent": {[]client.Object{&written}, ""},
		"a copy":           {[]client.Object{&copied, &young}, "young"},
	} {
		none := map[string]error{"ExportedService": &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ExportedService"}}}
		f, err := Fetch(t.Context(), cluster(none, c.members...), nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		r := Build(f)
		for _, p := range r.Problems {
			if p.Reason == "NoHeartbeat" {
				all = append(all, p.Name)
			}
		}
		if got := strings.Join(all, " "); r.Hub.State != HubUnknown || got != c.problems {
			t.Errorf("%s: the hub is %s %s, and there is no heartbeat of %q", name, r.Hub.State, r.Hub.Server, got)
		}
	}
}

// A Service that asks for other clusters' endpoints and can't have them is a problem with its cure; one that has them is counted.
func TestServicesThatAskToBeExtended(t *testing.T) {
	web := func(change func(*Asking)) Facts {
		a := Asking{Extended: desired.Extended{Allowed: true, Service: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.KeyExtend: api.ExtendTrue}},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.7", Selector: map[string]string{"app": "web"}},
		}}}
		change(&a)
		imp := mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		imp.Status.Clusters = []mcsv1beta1.ClusterStatus{{Cluster: "beijing"}, {Cluster: "shanghai"}}
		return Facts{Local: &LocalFacts{Cluster: "beijing", Asking: []Asking{a}, Imports: []mcsv1beta1.ServiceImport{imp}}}
	}
	alone := web(func(*Asking) {})
	alone.Local.Imports[0].Status.Clusters = alone.Local.Imports[0].Status.Clusters[:1]
	said := web(func(*Asking) {})
	said.Local.Refusals = map[client.ObjectKey]string{{Namespace: "shop", Name: "web"}: "the API server refuses its slices (its agent said so 1m0s ago)"}
	for _, c := range []struct {
		name     string
		facts    Facts
		extended int
		want     string // in the problem's message; empty: none
	}{
		{"extended", web(func(a *Asking) { a.Is = true }), 1, ""},
		{"nobody else has a ready endpoint", web(func(*Asking) {}), 0, ""},
		{"not allowed", web(func(a *Asking) { a.Allowed = false }), 0, "kubectl label namespace shop clusterset.dev/extend=allowed"},
		{"what only the agent knows", said, 0, "the API server refuses its slices (its agent said so 1m0s ago)"},
		{"nobody else exports it", alone, 0, "no other cluster exports the service"},
	} {
		r := Build(c.facts)
		var got []string
		for _, p := range r.Services.Problems {
			if p.What == "Service" && p.Reason == "NotExtended" && p.Cure != "" {
				got = append(got, p.Message)
			}
		}
		if r.Services.Extended != c.extended || len(got) > 1 || (len(got) == 1) != (c.want != "") || c.want != "" && !strings.Contains(got[0], c.want) {
			t.Errorf("%s: %d extended, problems %q, want %q", c.name, r.Services.Extended, got, c.want)
		}
		if c.extended > 0 && !strings.Contains(Screen{}.Render(r), "1 extended") {
			t.Error(Screen{}.Render(r))
		}
	}
}

// A member with a MemberCluster that isn't its agent's copy doesn't follow the hub: it says so in its heartbeat, or is seen to have one (C76 of
// docs/spec/control-plane.md).
func TestStatusNamesAMemberThatDoesNotFollow(t *testing.T) {
	with := func(name string, uid types.UID, change ...func(*clustersetv1alpha1.MemberCluster)) clustersetv1alpha1.MemberCluster {
		m := member(name, "", clustersetv1alpha1.MemberReady, nil, change...)
		m.UID = uid
		return m
	}
	copied := func(m *clustersetv1alpha1.MemberCluster) { m.Labels = desired.Labels() }
	gone := func(m *clustersetv1alpha1.MemberCluster) { m.SetLeft(now) }
	says := func(said Heartbeat) *HubFacts {
		return &HubFacts{Members: []clustersetv1alpha1.MemberCluster{with("beijing", "1"), with("shanghai", "2"), with("gone", "3", gone)}, Heard: map[string]Heartbeat{"beijing": said}}
	}
	quiet, cant := says(Heartbeat{Renewed: now}), says(Heartbeat{Renewed: now, CantFollow: "shanghai"})
	here := func(members ...clustersetv1alpha1.MemberCluster) *LocalFacts {
		return &LocalFacts{Cluster: "beijing", Members: members}
	}
	silent := says(Heartbeat{Renewed: now.Add(-time.Hour), CantFollow: "shanghai"})
	silent.Members[0].Status.Phase = clustersetv1alpha1.MemberSuspect
	for name, c := range map[string]struct {
		local *LocalFacts
		hub   *HubFacts
		want  string
	}{
		"copies":                  {here(with("beijing", "7", copied), with("shanghai", "8", copied)), quiet, ""},
		"this cluster is the hub": {here(with("beijing", "1"), with("shanghai", "2")), quiet, ""},
		"one that a person wrote": {here(with("beijing", "7", copied), with("shanghai", "8")), quiet, "shanghai"},
		"all":                     {here(with("beijing", "7"), with("shanghai", "8")), quiet, "beijing, shanghai"},
		"it says so too":          {here(with("beijing", "7"), with("shanghai", "8")), cant, "beijing, shanghai"},
		"only it says so":         {nil, cant, "shanghai"},
		"it said so long ago":     {nil, silent, ""},
		"of no cluster of the set, or of one that left": {here(with("beijing", "7", copied), with("edge", "8"), with("gone", "9")), quiet, ""},
	} {
		var got []string
		for _, p := range Build(Facts{Now: now, Local: c.local, Hub: c.hub}).Problems {
			if p.Reason == "NotFollowing" && p.Name == "beijing" && strings.HasPrefix(p.Cure, "kubectl delete membercluster ") {
				got = append(got, strings.TrimPrefix(p.Message, "MemberClusters that aren't its agent's copies keep it from following the hub: "))
			}
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An account with the rights that clusterset doctor --for cli asks for may read no Secrets: the agent's Reachability says which cluster this is. Where
// nothing says it, it is told what isn't checked.
func TestStatusWithTheRightsOfCLI(t *testing.T) {
	copied, left := member("shanghai", "", clustersetv1alpha1.MemberReady, nil), member("beijing", "", clustersetv1alpha1.MemberReady, nil)
	copied.Labels = desired.Labels()
	left.SetLeft(now)
	reach := &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "beijing", Stamp: metav1.NowMicro()}
	for name, c := range map[string]struct {
		reach []client.Object
		left  bool
	}{"measured": {[]client.Object{reach}, true}, "not measured": {nil, false}} {
		f, err := Fetch(t.Context(), cluster(map[string]error{"Secret": apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)}, append(c.reach, &copied)...), nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Hub = &HubFacts{Members: []clustersetv1alpha1.MemberCluster{left, copied}}
		r := Build(f)
		found := slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Name == "beijing" && p.Reason == phaseLeft })
		if found != c.left || slices.Contains(r.Notes, unnamed) == c.left {
			t.Errorf("%s: %+v, %q", name, r.Problems, r.Notes)
		}
	}
}

// A mark that exports nothing is a problem for as long as it is there (rule C1 of docs/spec/control-plane.md), and so is another system that connects
// a service that this cluster exports, beside an agent of ours (C4).
func TestUnusedMarksAndOtherSystemsAreProblems(t *testing.T) {
	meta := func(name string, labels, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels, Annotations: annotations}
	}
	slice := func(name, by string) client.Object {
		return &discoveryv1.EndpointSlice{ObjectMeta: meta(name, map[string]string{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: by}, nil)}
	}
	copied := member("beijing", "", clustersetv1alpha1.MemberReady, nil)
	copied.Labels = desired.Labels()
	read := cluster(nil,
		&copied,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "pay", Labels: map[string]string{api.KeyGlobalService: "yes"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{api.KeyGlobalService: "true"}}},
		&corev1.Service{ObjectMeta: meta("typo", nil, map[string]string{api.KeyGlobalService: "ture"})},
		&corev1.Service{ObjectMeta: meta("local", nil, map[string]string{api.KeyGlobalService: "false"})},
		slice("web", "endpointslice-dispatch-controller.karmada.io"), slice("db", "endpointslice-controller.k8s.io"),
		slice("vm", "kubectl"), slice("theirs", "endpointslice.reflection.liqo.io"),
	)
	f, err := Fetch(t.Context(), read, nil)
	if err != nil {
		t.Fatal(err)
	}
	fine := condition("Ready", metav1.ConditionTrue, "Exported", "")
	f.Local.Exports = []mcsv1beta1.ServiceExport{export("web", fine), export("db", fine), export("vm", fine)}
	problems := func() (all []string) {
		r := Build(f)
		for _, p := range r.Services.Problems {
			if all = append(all, p.What+" "+p.About()+": "+p.Reason+": "+p.Message); p.Cure == "" {
				t.Errorf("%+v has no cure", p)
			}
		}
		return all
	}
	want := []string{
		`Namespace pay: NotUsed: metadata.labels[fabedge.io/global-service]: Invalid value: "yes": must be "true" or "false"; it exports nothing`,
		`Service shop/typo: NotUsed: metadata.annotations[fabedge.io/global-service]: Invalid value: "ture": must be "true" or "false"; it exports nothing; did you mean true?`,
		"Service shop/web: OtherSystem: endpointslice-dispatch-controller.karmada.io has EndpointSlices for it too, which aren't exported and don't count as this cluster's",
	}
	if got := problems(); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	// Without an agent of ours, the other system's objects are as they should be: the DNS servers read them (docs/beside.md).
	f.Local.Members = nil
	if got := problems(); len(got) != 2 {
		t.Errorf("without an agent: %q", got)
	}
	// Of a service that the set exports, a ServiceImport that another wrote.
	f.Local.Members, f.Hub = []clustersetv1alpha1.MemberCluster{copied}, &HubFacts{Exports: []clustersetv1alpha1.ExportedService{exported("shanghai", "ledger", "http", now)}}
	f.Local.Others = others(t.Context(), read, []mcsv1beta1.ServiceImport{{ObjectMeta: meta("ledger", nil, nil)}, {ObjectMeta: meta("other", nil, nil)}})
	if got := problems(); len(got) != 4 || !strings.HasPrefix(got[1], "Service shop/ledger: OtherSystem: somebody else's ServiceImport has its name") {
		t.Errorf("a ServiceImport: %q", got)
	}
}
