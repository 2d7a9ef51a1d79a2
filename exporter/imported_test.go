package exporter

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

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
	left.DeletionTimestamp = &metav1.Time{}
	all, toC := &clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedService{}
	toC.Spec.ExportTo = []string{"c"}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	v := visibility{own: "a"}
	if news, changed := v.putImported(export, all); news != nil || changed {
		t.Error("said before the hub said who is in the set")
	}
	const cure = "; create it there (kubectl create namespace shop), or start the agents there with --create-namespaces"
	for _, c := range []struct {
		name    string
		members []clustersetv1alpha1.MemberCluster
		service *clustersetv1alpha1.ExportedService
		want    string // the clusters
		event   bool
	}{
		{"all have it", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "pay")}, all, "", false},
		{"one", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "pay", "shop")}, all, "b", true},
		{"the same", []clustersetv1alpha1.MemberCluster{member("a"), member("b", "shop")}, all, "b", false},
		{"another", []clustersetv1alpha1.MemberCluster{member("a", "shop"), member("c", "shop"), member("b", "shop"), apart, left}, all, "b, c", true},
		{"export-to", []clustersetv1alpha1.MemberCluster{member("a"), member("c", "shop"), member("b", "shop")}, toC, "c", true},
		{"not exported", []clustersetv1alpha1.MemberCluster{member("a"), member("c", "shop")}, nil, "", false},
	} {
		v.peers.Store(peersOf(c.members, "a"))
		news, _ := v.putImported(export, c.service)
		got, want := "", ""
		for _, said := range export.Status.Conditions {
			got += string(said.Status) + " " + said.Reason + ": " + said.Message
		}
		if c.want != "" {
			want = "False NamespaceMissing: not imported where there is no namespace shop: in " + c.want + cure
		}
		if got != want || (news != nil) != c.event {
			t.Errorf("%s: %q, want %q; an Event: %v, want %v", c.name, got, want, news != nil, c.event)
		}
	}
}
