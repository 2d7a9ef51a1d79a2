package exporter

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

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
	left.DeletionTimestamp = &metav1.Time{}
	var many []clustersetv1alpha1.MemberCluster
	for i := range 30 {
		many = append(many, member(fmt.Sprintf("c%02d", i), "x"))
	}
	all, some := &clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedService{}
	some.Spec.ExportTo = []string{"b", "y"}
	export := &mcsv1beta1.ServiceExport{}
	v := visibility{own: "a"}
	if v.put(export, all) {
		t.Error("said before the hub said who is in the set")
	}
	for _, c := range []struct {
		name    string
		members []clustersetv1alpha1.MemberCluster
		service *clustersetv1alpha1.ExportedService
		want    string
	}{
		{"no communities", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "default")}, all, ""},
		{"some", []clustersetv1alpha1.MemberCluster{member("a", "x", "y"), member("b", "x"), member("c", "y"), member("d", "z"), left}, all, "True Peers …: b, c"},
		{"none", []clustersetv1alpha1.MemberCluster{member("a", "x"), member("b", "y")}, all, "False NoPeers …"},
		{"forgotten", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "y"), member("c")}, all, "True Peers …: c"},
		{"not exported", []clustersetv1alpha1.MemberCluster{member("a", "x"), member("b", "x")}, nil, ""},
		{"export-to", []clustersetv1alpha1.MemberCluster{member("a"), member("b"), member("c"), member("d", "default", "y"), member("e", "y")}, some, "True Peers …: b, d"},
		{"export-to in a set without communities", []clustersetv1alpha1.MemberCluster{member("a"), member("b"), member("c")}, some, "True Peers …: b"},
		{"export-to nobody", []clustersetv1alpha1.MemberCluster{member("a"), member("c")}, some, "False NoPeers …"},
		{"many", append(many, member("a", "x")), all, "True Peers …: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 20 more"},
		{"back", []clustersetv1alpha1.MemberCluster{member("a"), member("b")}, all, ""},
	} {
		v.peers.Store(peersOf(c.members, "a"))
		v.put(export, c.service)
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
		if v.put(export, c.service) {
			t.Errorf("%s: written again", c.name)
		}
	}
}
