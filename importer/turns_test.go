package importer

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
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

func (l *line) changed(record *clustersetv1alpha1.ExportedService) {
	is := record.DeepCopy()
	is.ResourceVersion = "2"
	inTurn{enqueueService(), l.turns}.Update(l.Context(), event.UpdateEvent{ObjectOld: record, ObjectNew: is}, l.queue)
}

func (l *line) created(record *clustersetv1alpha1.ExportedService) {
	inTurn{enqueueService(), l.turns}.Create(l.Context(), event.CreateEvent{Object: record}, l.queue)
}

func (l *line) deleted(record *clustersetv1alpha1.ExportedService) {
	inTurn{enqueueService(), l.turns}.Delete(l.Context(), event.DeleteEvent{Object: record}, l.queue)
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

// Rule C78 of docs/spec/control-plane.md: another cluster's change waits for a few of the thousands of one cluster, whatever that does to them.
func TestAnotherClustersChangeIsSoonInTurn(t *testing.T) {
	of := map[string]func(*line, *clustersetv1alpha1.ExportedService){"changed": (*line).changed, "created": (*line).created, "deleted": (*line).deleted}
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

// A drain of a cluster enqueues all that it exports, in its turns, each once. What was taken from the queue no longer counts.
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

// A service that is reconciled no longer waits.
func TestAReconcileEndsTheWait(t *testing.T) {
	g := newRig(Options{})
	g.turns.enqueued("thief", types.NamespacedName{Namespace: "shop", Name: "web"})
	g.reconcile(t)
	if len(g.turns.waiting) > 0 {
		t.Errorf("%v wait", g.turns.waiting)
	}
}

// The importer's own queue has turns: what a second cluster exports after two hundred services of the first is imported soon.
func TestImportsAreTakenByTurns(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	w.onHub(records.Exported("baoding", "shop", "first", "10.1.0.1", "10.11.0.5"))
	w.start(Options{Concurrency: 1})
	w.imported("shop", "first", 1)

	if err := w.member.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	const many = 200
	var all []string
	for i := range many {
		all = append(all, records.Exported("baoding", "shop", fmt.Sprint("many", i), "10.1.0.1", "10.11.0.5"))
	}
	w.onHub(all...)
	w.onHub(records.Exported("shanghai", "shop", "last", "10.2.0.1", "10.12.0.5"))
	kube.Eventually(t, func() error {
		if n := metric(t, "workqueue_depth", "name", "importer"); n < many {
			return fmt.Errorf("%v services wait, want %d", n, many)
		}
		return nil
	})
	if err := w.member.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}

	last, err := strconv.Atoi(w.imported("shop", "last", 1).serviceImport.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	var imports mcsv1beta1.ServiceImportList
	if err := w.client.List(t.Context(), &imports); err != nil {
		t.Fatal(err)
	}
	before := 0
	for i := range imports.Items {
		if at, err := strconv.Atoi(imports.Items[i].ResourceVersion); err == nil && at < last {
			before++
		}
	}
	if most := perTurn + 3; before > most { // and the first one, and those under way
		t.Errorf("%d services were imported before that of the other cluster, want at most %d", before, most)
	}
}
