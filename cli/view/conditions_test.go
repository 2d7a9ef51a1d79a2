package view

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// What a condition of ours says to be wrong, status shows, or an alert tells of it. Whoever adds a condition adds it here.
func TestEveryConditionIsReported(t *testing.T) {
	type change = func(*LocalFacts)
	member := func(kind string, is metav1.ConditionStatus) change {
		return func(l *LocalFacts) {
			l.Members[0].Status.Conditions = []metav1.Condition{{Type: kind, Status: is, Message: "because", LastTransitionTime: *ago(time.Minute)}}
		}
	}
	silent := func(l *LocalFacts) { // the phase says the same as the condition Ready
		l.Members[0].Status.Phase = clustersetv1alpha1.MemberSuspect
		member(clustersetv1alpha1.ConditionReady, metav1.ConditionFalse)(l)
	}
	forgotten := func(l *LocalFacts) { // so does the phase
		l.Members[0].Status.Phase = clustersetv1alpha1.MemberExpired
		member(clustersetv1alpha1.ConditionForgotten, metav1.ConditionTrue)(l)
	}
	exporting := func(kind, reason string) change {
		return func(l *LocalFacts) {
			l.Exports[0].Status.Conditions = append(l.Exports[0].Status.Conditions, condition(kind, metav1.ConditionFalse, reason, "because"))
		}
	}
	reported := map[string]struct {
		change change
		reason string // of the problem
	}{
		"ConditionReady":               {silent, "Suspect"},
		"ConditionExpiryPaused":        {member(clustersetv1alpha1.ConditionExpiryPaused, metav1.ConditionTrue), "ExpiryPaused"},
		"ConditionLeft":                {member(clustersetv1alpha1.ConditionLeft, metav1.ConditionTrue), phaseLeft},
		"ConditionForgotten":           {forgotten, "Expired"},
		"ConditionJoined":              {member(clustersetv1alpha1.ConditionJoined, metav1.ConditionFalse), "NotJoined"},
		"ConditionCommunitiesEnforced": {member(clustersetv1alpha1.ConditionCommunitiesEnforced, metav1.ConditionFalse), "NotEnforced"},
		"ConditionLimited":             {member(clustersetv1alpha1.ConditionLimited, metav1.ConditionTrue), "Limited"},
		"ConditionValid":               {member(clustersetv1alpha1.ConditionValid, metav1.ConditionFalse), "Invalid"},
		"ConditionWithinCIDRs":         {member(clustersetv1alpha1.ConditionWithinCIDRs, metav1.ConditionFalse), "OutsideCIDRs"},
		"ConditionHubAnswers":          {member(clustersetv1alpha1.ConditionHubAnswers, metav1.ConditionFalse), string(HubQuiet)},
		"ConditionOnHub":               {member(clustersetv1alpha1.ConditionOnHub, metav1.ConditionFalse), "LostByHub"},
		"ConditionVisible":             {exporting(api.ConditionVisible, api.ReasonNoPeers), api.ReasonNoPeers},
		"ConditionComplete":            {exporting(api.ConditionComplete, api.ReasonNotUsed), api.ReasonNotUsed},
		"ConditionEndpoints":           {exporting(api.ConditionEndpoints, api.ReasonNoEndpoints), api.ReasonNoEndpoints},
		"ConditionConfirmed":           {exporting(api.ConditionConfirmed, api.ReasonNoRecord), api.ReasonNoRecord},
		"ConditionImported":            {exporting(api.ConditionImported, api.ReasonNamespaceMissing), MissingElsewhere},
	}
	// A service that each network has for itself needn't be reached from others. Where one is missing, the importing member reports NotReached.
	// How ClusterSetIPs are steered is no problem, nor is a share that somebody wants.
	elsewhere := []string{"ConditionReachable", "ConditionShared", "ConditionSteered"}

	reasons := func(change change) (all []string) {
		l := local(clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}, Status: clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady}})
		l.Imports, l.Exports = nil, []mcsv1beta1.ServiceExport{export("web", condition("Ready", metav1.ConditionTrue, "Exported", ""))}
		change(l)
		r := Build(Facts{Now: now, Local: l})
		for _, p := range r.All() {
			if all = append(all, p.Reason); p.Cure == "" {
				t.Errorf("%s has no cure", p.Reason)
			}
		}
		return all
	}
	if got := reasons(func(*LocalFacts) {}); len(got) > 0 {
		t.Errorf("nothing is wrong, and there is %q", got)
	}
	conditions := conditionsOf(t, "api", "api/clusterset/v1alpha1")
	if here := len(reported) + len(elsewhere); len(conditions) != here {
		t.Errorf("there are %d conditions: %q, and %d here", len(conditions), conditions, here)
	}
	for _, name := range conditions {
		if slices.Contains(elsewhere, name) {
			continue
		}
		if is := reported[name]; is.change == nil {
			t.Errorf("nothing reports %s", name)
		} else if got := reasons(is.change); !slices.Equal(got, []string{is.reason}) {
			t.Errorf("%s: status has the problems %q, want %s", name, got, is.reason)
		}
	}
}

// conditionsOf returns the names of the constants that are types of conditions, in packages of this module.
func conditionsOf(t *testing.T, packages ...string) (names []string) {
	for _, of := range packages {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(of), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range conditionType.FindAllSubmatch(content, -1) {
				names = append(names, string(found[1]))
			}
		}
	}
	return names
}

var conditionType = regexp.MustCompile(`(?m)^\t(Condition\w+) += `)
