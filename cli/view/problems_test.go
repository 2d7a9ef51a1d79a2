package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// For each way to break a set there is a problem, and it says what to do.
func TestWhatIsBrokenIsAProblem(t *testing.T) {
	ready := func(name string) clustersetv1alpha1.MemberCluster {
		return member(name, "", clustersetv1alpha1.MemberReady, nil)
	}
	left := ready("gone")
	left.DeletionTimestamp = ago(time.Minute)
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
		"nothing":                         {Facts{Local: here("shop"), Hub: hub()}, nil},
		"missing namespace":               {Facts{Local: here("default"), Hub: hub()}, []string{"Namespace shop Missing: this cluster has no namespace shop, so 2 services db, web can't be imported"}},
		"namespaces that may not be read": {Facts{Local: &LocalFacts{Cluster: "beijing"}, Hub: hub()}, nil},
		"a namespace of others": {Facts{Local: here("default"), Hub: hub(func(h *HubFacts) {
			h.Members[0].Spec.Communities, h.Members[1].Spec.Communities = []string{"a"}, []string{"b"}
			h.Exports = h.Exports[1:]
		})}, []string{"Hub hub NotEnforced"}},
		"left the hub":      {Facts{Local: here("shop"), Hub: hub(func(h *HubFacts) { h.Members = h.Members[1:] })}, []string{"MemberCluster beijing NotAMember"}},
		"one has left":      {Facts{Hub: hub(func(h *HubFacts) { h.Members = append(h.Members, left) })}, nil},
		"this one has left": {Facts{Local: &LocalFacts{Cluster: "gone"}, Hub: hub(func(h *HubFacts) { h.Members = append(h.Members, left) })}, []string{"MemberCluster gone Left"}},
		"no hub process": {Facts{Hub: hub(func(h *HubFacts) {
			h.Renewed = map[string]time.Time{"beijing": now.Add(-time.Second), "shanghai": now.Add(-time.Hour)}
		})}, []string{"MemberCluster shanghai Unwatched"}},
		"suspect":               {Facts{Hub: hub(func(h *HubFacts) { h.Members[1].Status.Phase = clustersetv1alpha1.MemberSuspect })}, []string{"MemberCluster shanghai Suspect"}},
		"expired":               {Facts{Hub: hub(func(h *HubFacts) { h.Members[1].Status.Phase = clustersetv1alpha1.MemberExpired })}, []string{"MemberCluster shanghai Expired"}},
		"silent from the start": {Facts{Hub: hub(func(h *HubFacts) { h.Members[1].Status.Phase = "" })}, []string{"MemberCluster shanghai NoHeartbeat"}},
		"drained on purpose":    {Facts{Hub: hub(func(h *HubFacts) { drained(&h.Members[1]) })}, nil},
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
		if r.ProblemCount() != len(c.want) {
			t.Errorf("%s: counts %d", name, r.ProblemCount())
		}
	}
}

// An API server that refuses, or that isn't a hub, isn't unreachable.
func TestHubThatAnswersIsNotUnreachable(t *testing.T) {
	for want, err := range map[HubState]error{
		HubRefused:   apierrors.NewForbidden(schema.GroupResource{Resource: "memberclusters"}, "", nil),
		HubElsewhere: &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "MemberCluster"}},
	} {
		if r := Build(Facts{Now: now, Hub: &HubFacts{Err: err}}); r.Hub.State != want {
			t.Errorf("%v: %s, want %s", err, r.Hub.State, want)
		}
	}
}

// Where the hub's own MemberClusters are read, the exports are counted, instead of shown as each agent reported them.
func TestTheHubReadAsACluster(t *testing.T) {
	l := LocalFacts{Members: []clustersetv1alpha1.MemberCluster{member("beijing", "", clustersetv1alpha1.MemberReady, nil)}}
	if !l.isHub() {
		t.Error("MemberClusters that no agent has copied are the hub's")
	}
	l.Members[0].Labels = map[string]string{"clusterset.dev/managed-by": "importer"}
	if l.isHub() {
		t.Error("copies aren't the hub's")
	}
}
