package importer

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// exportOf is a record of a service that only one cluster exports.
func exportOf(cluster string, n int) *clustersetv1alpha1.ExportedService {
	name := fmt.Sprintf("%s-%d", cluster, n)
	return &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.ExportedServiceName("shop", name)},
		Spec:       clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: "shop", ServiceName: name},
	}
}

// line is a queue with the handlers of the importer's sources.
type line struct {
	testing.TB
	queue priorityqueue.PriorityQueue[reconcile.Request]
	turns *turns
}

func newLine(t *testing.T) *line {
	q := priorityqueue.New[reconcile.Request](t.Name())
	t.Cleanup(q.ShutDown)
	return &line{t, q, newTurns()}
}

func (l *line) changed(o client.Object) {
	inTurn{enqueueService(), l.turns}.Update(l.Context(), event.UpdateEvent{ObjectOld: o, ObjectNew: o.DeepCopyObject().(client.Object)}, l.queue)
}

// before returns how many services are reconciled before one.
func (l *line) before(name string) int {
	for n := range l.queue.Len() + 1 {
		r, _ := l.queue.Get()
		l.turns.began(r.NamespacedName)
		l.queue.Done(r)
		if r.Name == name {
			return n
		}
	}
	l.Fatalf("%s isn't enqueued", name)
	return 0
}

// Rule C78 of docs/spec/control-plane.md: another cluster's change waits for a few of the thousands that one cluster has changed, not for all, whatever that cluster does to them.
func TestAnotherClustersChangeIsSoonInTurn(t *testing.T) {
	of := map[string]func(l *line, record *clustersetv1alpha1.ExportedService){
		"changed": func(l *line, record *clustersetv1alpha1.ExportedService) {
			is := record.DeepCopy()
			is.ResourceVersion = "2"
			inTurn{enqueueService(), l.turns}.Update(l.Context(), event.UpdateEvent{ObjectOld: record, ObjectNew: is}, l.queue)
		},
		"created": func(l *line, record *clustersetv1alpha1.ExportedService) {
			inTurn{enqueueService(), l.turns}.Create(l.Context(), event.CreateEvent{Object: record}, l.queue)
		},
		"deleted": func(l *line, record *clustersetv1alpha1.ExportedService) {
			inTurn{enqueueService(), l.turns}.Delete(l.Context(), event.DeleteEvent{Object: record}, l.queue)
		},
	}
	for what, happens := range of {
		t.Run(what, func(t *testing.T) {
			l := newLine(t)
			for n := range 2000 {
				happens(l, exportOf("thief", n))
			}
			happens(l, exportOf("honest", 0))
			if n := l.before("honest-0"); n > perTurn {
				t.Errorf("%d services of the other cluster go before, want at most %d", n, perTurn)
			}
		})
	}
}

// A cluster with a hundred changes isn't behind one with thousands either.
func TestTurnsAreSharedOut(t *testing.T) {
	l := newLine(t)
	for n := range 2000 {
		l.changed(exportOf("thief", n))
	}
	for n := range 100 {
		l.changed(exportOf("honest", n))
	}
	if n := l.before("honest-99"); n > 2*100+perTurn {
		t.Errorf("%d services go before the last of a hundred", n)
	}
}

// A drain of a cluster enqueues all that it exports, in its turns. What was reconciled no longer counts.
func TestTurnsAreForgotten(t *testing.T) {
	l := newLine(t)
	member := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "thief"}}
	q := inTurn{turns: l.turns}.queue(member, l.queue)
	for n := range 100 {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web", n)}})
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web", n)}})
	}
	if got := l.turns.waiting["thief"]; got != 100 {
		t.Errorf("%d services of thief wait, want 100", got)
	}
	l.before("web99")
	if len(l.turns.waiting) > 0 || len(l.turns.by) > 0 {
		t.Errorf("%v and %v are remembered", l.turns.waiting, l.turns.by)
	}
	if got := l.turns.enqueued("thief", types.NamespacedName{Name: "next"}); got != 0 {
		t.Errorf("the next change has priority %d, want 0", got)
	}
}
