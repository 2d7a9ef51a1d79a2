package importer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// A service is reconciled again after an event of its objects, unless the event shows what was written last, and no other reconcile has begun
// since: that one may have read what the cache had before, and have found it right.
func TestOwnWritesBringNoServiceBack(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	global := func(uid, version string) client.Object {
		return &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: types.UID(uid), ResourceVersion: version}}
	}
	q, e := priorityqueue.New[reconcile.Request](t.Name()), newEchoes()
	t.Cleanup(q.ShutDown)
	handler := unheard{enqueueService(), e}
	updated := func(o client.Object) {
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: o, ObjectNew: o}, q)
	}
	for _, step := range []struct {
		what string
		do   func()
		back bool
	}{
		{"somebody changes it", func() { updated(global("u", "1")) }, true},
		{"we create it", func() {
			e.begin(web)
			e.expect(global("u", "2"))
			handler.Create(t.Context(), event.CreateEvent{Object: global("u", "2")}, q)
		}, false},
		{"we write it twice", func() {
			e.begin(web)
			e.expect(global("u", "3"))
			e.expect(global("u", "4"))
			updated(global("u", "3"))
			updated(global("u", "4"))
		}, false},
		{"the same again, for example in a list", func() { updated(global("u", "4")) }, true},
		{"we write it, and somebody else does", func() {
			e.begin(web)
			e.expect(global("u", "5"))
			updated(global("u", "6"))
		}, true},
		{"we write it, and it is reconciled before we hear of that", func() {
			e.begin(web)
			e.expect(global("u", "7"))
			e.begin(web)
			updated(global("u", "7"))
		}, true},
		{"another object has that version", func() {
			e.begin(web)
			e.expect(global("u", "8"))
			updated(global("v", "8"))
		}, true},
		{"we write it, and it is deleted", func() {
			e.begin(web)
			e.expect(global("u", "9"))
			handler.Delete(t.Context(), event.DeleteEvent{Object: global("u", "9")}, q)
		}, true},
		{"we write what belongs to no service", func() {
			e.begin(web)
			e.expect(&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}})
		}, false},
	} {
		step.do()
		back := q.Len() > 0
		for q.Len() > 0 {
			r, _ := q.Get()
			q.Done(r)
		}
		if back != step.back {
			t.Errorf("%s: reconciled again: %v", step.what, back)
		}
	}
	e.begin(web)
	if len(e.of) > 0 {
		t.Errorf("it still remembers %v", e.of)
	}
}
