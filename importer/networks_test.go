package importer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Which external addresses may be used is looked at again when a cluster with networks comes or goes. Rule D82 of docs/spec/data-path.md.
func TestNetworksThatComeOrGo(t *testing.T) {
	member := func(left bool, cidrs ...string) *clustersetv1alpha1.MemberCluster {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: cidrs}}
		if left {
			m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			m.Finalizers = []string{api.MemberFinalizer}
		}
		return m
	}
	with, without, p := member(false, "10.5.0.0/16"), member(false), networksChanged()
	for what, is := range map[string][2]bool{
		"it joins":                    {p.Create(event.CreateEvent{Object: with}), true},
		"it was there at the start":   {p.Create(event.CreateEvent{Object: with, IsInInitialList: true}), false},
		"one without networks joins":  {p.Create(event.CreateEvent{Object: without}), false},
		"it is gone":                  {p.Delete(event.DeleteEvent{Object: with}), true},
		"one without networks goes":   {p.Delete(event.DeleteEvent{Object: without}), false},
		"it leaves":                   {p.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: member(true, "10.5.0.0/16")}), true},
		"one without networks leaves": {p.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: member(true)}), false},
		"it gets some":                {p.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: with}), true},
		"something else":              {p.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: with.DeepCopy()}), false},
	} {
		if is[0] != is[1] {
			t.Errorf("%s: passed is %t", what, is[0])
		}
	}
}
