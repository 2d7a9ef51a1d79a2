package exporter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Rule C19 of docs/spec/control-plane.md.
func TestVisible(t *testing.T) {
	member := func(name string, communities ...string) clustersetv1alpha1.MemberCluster {
		return clustersetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clustersetv1alpha1.MemberClusterSpec{Communities: communities},
		}
	}
	left := member("left", "x")
	left.SetLeft(time.Now())
	var many []clustersetv1alpha1.MemberCluster
	for i := range 30 {
		many = append(many, member(fmt.Sprintf("c%02d", i), "x"))
	}
	all, some := Desired{Service: &clustersetv1alpha1.ExportedService{}}, Desired{Service: &clustersetv1alpha1.ExportedService{}}
	some.Service.Spec.ExportTo = []string{"b", "y"}
	export := &mcsv1beta1.ServiceExport{}
	v := visibility{own: "a"}
	if said := v.conditions("shop", all); said != nil {
		t.Error("said before the hub said who is in the set")
	}
	for _, c := range []struct {
		name    string
		members []clustersetv1alpha1.MemberCluster
		service Desired
		want    string
	}{
		{"no communities", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "default")}, all, ""},
		{"some", []clustersetv1alpha1.MemberCluster{member("a", "x", "y"), member("b", "x"), member("c", "y"), member("d", "z"), left}, all, "True Peers …: b, c"},
		{"none", []clustersetv1alpha1.MemberCluster{member("a", "x"), member("b", "y")}, all, "False Alone …"},
		{"forgotten", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "y"), member("c")}, all, "True Peers …: c"},
		{"not exported", []clustersetv1alpha1.MemberCluster{member("a", "x"), member("b", "x")}, Desired{}, ""},
		{"export-to", []clustersetv1alpha1.MemberCluster{member("a"), member("b"), member("c"), member("d", "default", "y"), member("e", "y")}, some, "True Peers …: b, d"},
		{"export-to in a set without communities", []clustersetv1alpha1.MemberCluster{member("a"), member("b"), member("c")}, some, "True Peers …: b"},
		{"export-to nobody", []clustersetv1alpha1.MemberCluster{member("a"), member("c")}, some, "False NoPeers …"},
		{"many", append(many, member("a", "x")), all, "True Peers …: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 20 more"},
		{"back", []clustersetv1alpha1.MemberCluster{member("a"), member("b")}, all, ""},
	} {
		v.peers.Store(peersOf(pointers(c.members), "a"))
		setConditions(export, v.conditions("shop", c.service))
		got := ""
		for _, said := range export.Status.Conditions {
			_, names, found := strings.Cut(said.Message, "import it: ")
			got += string(said.Status) + " " + said.Reason + " …"
			if found {
				got += ": " + names
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if _, changed := setConditions(export, v.conditions("shop", c.service)); changed.Len() > 0 {
			t.Errorf("%s: written again", c.name)
		}
	}
}

// A ServiceExport names the clusters without its namespace, of those that may import it, and says so once per change (C77 of
// docs/spec/control-plane.md).
func TestClustersWithoutTheNamespace(t *testing.T) {
	member := func(name string, lacks ...string) clustersetv1alpha1.MemberCluster {
		m := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		there := slices.DeleteFunc([]string{"default", "pay", "shop"}, func(n string) bool { return slices.Contains(lacks, n) })
		m.Status.Namespaces = clustersetv1alpha1.NamespaceDigest(there)
		return m
	}
	apart := member("apart", "shop")
	apart.Spec.Communities = []string{"x"}
	left := member("left", "shop")
	left.SetLeft(time.Now())
	all, toC := Desired{Service: &clustersetv1alpha1.ExportedService{}}, Desired{Service: &clustersetv1alpha1.ExportedService{}}
	toC.Service.Spec.ExportTo = []string{"c"}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	v := visibility{own: "a"}
	if said := v.conditions("shop", all); said != nil {
		t.Error("said before the hub said who is in the set")
	}
	const cure = "; create it there (kubectl create namespace shop), or start the agents there with --create-namespaces"
	for _, c := range []struct {
		name    string
		members []clustersetv1alpha1.MemberCluster
		service Desired
		want    string // the clusters
		event   bool
	}{
		{"all have it", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "pay")}, all, "", false},
		{"one", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "pay", "shop")}, all, "b", true},
		{"the same", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "shop")}, all, "b", false},
		{"another", []clustersetv1alpha1.MemberCluster{member("a", "shop"), member("c", "shop"), member("b", "shop"), apart, left}, all, "b, c", true},
		{"export-to", []clustersetv1alpha1.MemberCluster{member("a"), member("c", "shop"), member("b", "shop")}, toC, "c", true},
		{"not exported", []clustersetv1alpha1.MemberCluster{member("a"), member("c", "shop")}, Desired{}, "", false},
	} {
		v.peers.Store(peersOf(pointers(c.members), "a"))
		events, _ := setConditions(export, v.conditions("shop", c.service))
		events = slices.DeleteFunc(events, func(c metav1.Condition) bool { _, worth := eventType(c); return !worth })
		got, want := "", ""
		if said := meta.FindStatusCondition(export.Status.Conditions, api.ConditionImported); said != nil {
			got = string(said.Status) + " " + said.Reason + ": " + said.Message
		}
		if c.want != "" {
			want = "False NamespaceMissing: not imported where there is no namespace shop: in " + c.want + cure
		}
		if got != want || len(events) > 0 != c.event {
			t.Errorf("%s: %q, want %q; an Event: %v, want %v", c.name, got, want, events, c.event)
		}
	}
}

func pointers(members []clustersetv1alpha1.MemberCluster) (all []*clustersetv1alpha1.MemberCluster) {
	for i := range members {
		all = append(all, &members[i])
	}
	return all
}
