package importer

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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
	return &line{t, q, newTurns(DefaultConcurrency)}
}

func (l *line) handler() handler.EventHandler {
	return noting{enqueueService(), l.turns.byCluster, nil}
}

func (l *line) changed(record *clustersetv1alpha1.ExportedService) {
	is := record.DeepCopy()
	is.ResourceVersion = "2"
	l.handler().Update(l.Context(), event.UpdateEvent{ObjectOld: record, ObjectNew: is}, l.queue)
}

func (l *line) created(record *clustersetv1alpha1.ExportedService) {
	l.handler().Create(l.Context(), event.CreateEvent{Object: record}, l.queue)
}

func (l *line) deleted(record *clustersetv1alpha1.ExportedService) {
	l.handler().Delete(l.Context(), event.DeleteEvent{Object: record}, l.queue)
}

// before returns how many services are reconciled before one.
func (l *line) before(name string) int {
	for n := range l.queue.Len() + 1 {
		r, _ := l.queue.Get()
		l.turns.begin(r.NamespacedName, "")()
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
	q := l.turns.byCluster(member, l.queue)
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

// Rule C78 of docs/spec/control-plane.md: a cluster whose services take long leaves workers to the others. It gets the next worker when one of
// its own is free, however often its services are enqueued meanwhile, and also if something here made them due.
func TestAClusterLeavesWorkersToOthers(t *testing.T) {
	l := newLine(t)
	for n := range DefaultConcurrency {
		l.changed(exportOf("thief", n))
	}
	taken := func() types.NamespacedName {
		r, _ := l.queue.Get()
		l.queue.Done(r)
		return r.NamespacedName
	}
	var ends []func()
	var waits []types.NamespacedName
	for range DefaultConcurrency {
		service := taken()
		if end := l.turns.begin(service, ""); end != nil {
			ends = append(ends, end)
		} else {
			waits = append(waits, service)
		}
	}
	if len(ends) != 6 || len(waits) != 2 {
		t.Fatalf("thief has %d workers of %d, want 6", len(ends), DefaultConcurrency)
	}
	if l.turns.begin(waits[0], "") != nil || l.turns.begin(types.NamespacedName{Namespace: "shop", Name: "local"}, "thief") != nil {
		t.Error("thief gets another worker")
	}
	for _, cluster := range []string{"honest", ""} { // nobody's account: several clusters export it
		if end := l.turns.begin(types.NamespacedName{Namespace: "shop", Name: "other"}, cluster); end == nil {
			t.Errorf("a service on the account of %q waits for thief's", cluster)
		} else {
			end()
		}
	}
	l.changed(exportOf("honest", 0))
	if got := taken(); got.Name != "honest-0" {
		t.Errorf("the queue has %s", got)
	}
	l.turns.begin(types.NamespacedName{Namespace: "shop", Name: "honest-0"}, "")()
	for i, want := range []string{waits[0].Name, waits[1].Name, "local"} {
		ends[i]()
		if got := taken(); got.Name != want {
			t.Errorf("a worker is free, and the queue has %s, want %s", got, want)
		}
		end := l.turns.begin(types.NamespacedName{Namespace: "shop", Name: want}, "thief")
		if end == nil {
			t.Fatalf("%s gets no worker", want)
		}
		ends = append(ends, end)
	}
	for _, end := range ends[3:] {
		end()
	}
	if n := l.queue.Len(); n > 0 || len(l.turns.running)+len(l.turns.line)+len(l.turns.inLine)+len(l.turns.by) > 0 {
		t.Errorf("%d services are enqueued, and %+v is remembered", n, l.turns)
	}
}

// What changed here is soon reconciled, also if a cluster that has all its workers and thousands of services in line changed the service too.
// A path that broke is the other cluster's change. Rule C78 of docs/spec/control-plane.md.
func TestOwnChangesDoNotWaitForAThief(t *testing.T) {
	l := newLine(t)
	for n := range 2000 {
		l.changed(exportOf("thief", n))
	}
	for range l.turns.most {
		r, _ := l.queue.Get()
		l.turns.begin(r.NamespacedName, "")
	}
	named := func(name string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}}}
		})
	}
	for _, tc := range []struct {
		name  string
		event func(name string)
	}{
		{"thief-1990", func(name string) {
			noting{named(name), l.turns.byUs, nil}.Create(t.Context(), event.CreateEvent{Object: &discoveryv1.EndpointSlice{}}, l.queue)
		}},
		{"thief-1991", func(name string) {
			broken := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "honest"}}
			noting{named(name), l.turns.byCluster, nil}.Generic(t.Context(), event.GenericEvent{Object: broken}, l.queue)
		}},
	} {
		tc.event(tc.name)
		for n := 0; ; n++ {
			r, _ := l.queue.Get()
			end := l.turns.begin(r.NamespacedName, "")
			l.queue.Done(r)
			if r.Name == tc.name && (end == nil || n > perTurn) {
				t.Errorf("%s has no worker, or %d services go before", tc.name, n)
			}
			if r.Name == tc.name {
				break
			}
		}
	}
}

// A service that another cluster changed too begins on that one's account, while a cluster has all its workers and others of its services wait.
// These begin when it is below its share again, and not before.
func TestAServiceOfTwoClustersIsBeyondTheShare(t *testing.T) {
	l := newLine(t)
	service := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	l.changed(exportOf("thief", 0)) // so that there is a queue
	var ends []func()
	for n := range l.turns.most {
		ends = append(ends, l.turns.begin(service(fmt.Sprint("thief-", n)), "thief"))
	}
	if l.turns.begin(service("waits"), "thief") != nil {
		t.Fatal("thief has a worker too many")
	}
	for _, cluster := range []string{"thief", "honest"} {
		l.turns.enqueued(cluster, service("shared"))
	}
	shared := l.turns.begin(service("shared"), "")
	if shared == nil {
		t.Fatal("a service that honest exports waits for thief")
	}
	before := l.queue.Len()
	l.turns.begin(service("honest-0"), "honest")()
	ends[0]()
	if n := l.queue.Len() - before; n != 0 {
		t.Errorf("%d services begin, although thief has all its workers", n)
	}
	shared()
	if n := l.queue.Len() - before; n != 1 {
		t.Errorf("%d services begin when a worker is free, want 1", n)
	}
	for _, end := range ends[1:] {
		end()
	}
	if len(l.turns.running)+len(l.turns.line)+len(l.turns.inLine) > 0 {
		t.Errorf("%+v is remembered", l.turns)
	}
}

// A line doesn't end with a service whose records have gone, so that it is on nobody's account.
func TestALineGoesOn(t *testing.T) {
	l := newLine(t)
	service := func(n int) types.NamespacedName {
		return types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("thief-", n)}
	}
	var ends []func()
	l.changed(exportOf("thief", 0)) // so that there is a queue
	for n := range 60 {
		if end := l.turns.begin(service(n), "thief"); end != nil {
			ends = append(ends, end)
		}
	}
	if len(ends) != 6 || len(l.turns.inLine) != 54 {
		t.Fatalf("%d services are reconciled, and %d wait", len(ends), len(l.turns.inLine))
	}
	for _, end := range ends {
		end()
	}
	for range 100 {
		if l.queue.Len() == 0 {
			break
		}
		r, _ := l.queue.Get()
		l.turns.begin(r.NamespacedName, "")()
		l.queue.Done(r)
	}
	if len(l.turns.inLine)+len(l.turns.line) > 0 || l.queue.Len() > 0 {
		t.Errorf("%v wait for ever, %d services are enqueued", l.turns.line, l.queue.Len())
	}
}

// A change by several clusters waits for none of them as long as one has a worker.
func TestAChangeWaitsForOneOfItsClusters(t *testing.T) {
	l := newLine(t)
	for n := range 6 {
		l.changed(exportOf("thief", n))
		l.turns.begin(types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("thief-", n)}, "")
	}
	shared := types.NamespacedName{Namespace: "shop", Name: "shared"}
	l.turns.enqueued("thief", shared)
	if l.turns.begin(shared, "") != nil {
		t.Error("thief's change of a shared service gets a seventh worker")
	}
	l.turns.enqueued("honest", shared)
	if l.turns.begin(shared, "") == nil {
		t.Error("an honest change of a shared service waits for thief")
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
