package importer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// What is known of clusters that left is forgotten with their MemberClusters.
func TestClustersThatLeftAreForgotten(t *testing.T) {
	member := func(name, uid string, left bool) clustersetv1alpha1.MemberCluster {
		m := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
		if left {
			m.SetLeft(time.Unix(1e9, 0))
		}
		return m
	}
	f := following{gone: map[string]types.UID{"a": "1", "b": "2", "c": "3", "d": "4"}}
	f.forget([]clustersetv1alpha1.MemberCluster{member("a", "1", true), member("b", "9", true), member("c", "3", false)})
	if len(f.gone) != 1 || f.gone["a"] != "1" {
		t.Errorf("knows %v", f.gone)
	}
}

// A MemberCluster that someone else made under a drained cluster's name is why the drain isn't followed (C76 of docs/spec/control-plane.md).
func TestForeignMemberClusterKeepsADrainFromBeingFollowed(t *testing.T) {
	drained := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing", UID: "hub"}}
	drained.Spec.Drain = true
	here := func(labels map[string]string) *clustersetv1alpha1.MemberCluster {
		return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing", UID: "here", Labels: labels}}
	}
	var f following
	if f.follows(t.Context(), drained, here(desired.Labels())) || f.cant() != "" {
		t.Errorf("our copy, which is behind, is called foreign: %q", f.cant())
	}
	if f.follows(t.Context(), drained, here(nil)) || f.cant() != "beijing" {
		t.Errorf("says %q of a MemberCluster that isn't a copy", f.cant())
	}
}
