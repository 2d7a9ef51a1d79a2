package importer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
	"github.com/clusterset/clusterset/internal/door"
)

const (
	// DefaultWriteRate is the default of Options.WriteRate. etcd keeps each version of an object until it is compacted, after ten
	// minutes at most: one cluster's changes leave 430 MiB in it, of the 2 GiB that are its default quota.
	DefaultWriteRate = 256 << 10
	// DefaultWriteBurst is the default of Options.WriteBurst: twenty changes of each of a thousand services of ten endpoints at once.
	DefaultWriteBurst = 64 << 20

	// turn is about how many bytes the change of a service takes. Services that wait get their turns that far apart.
	turn = 8 << 10
	// soonestTurn is the least wait: a reconcile costs processor time even if it is held back.
	soonestTurn = 100 * time.Millisecond
	// removal is about how many bytes a deletion takes.
	removal = 256
)

// stateLate: changes of a cluster that has used up its write budget wait.
const stateLate state = "late"

// reasonLate: a cluster's changes have used up its write budget.
const reasonLate = "WriteBudgetUsedUp"

// budget limits how many bytes the changes of each source cluster make this importer write, so that a cluster that keeps changing its
// records can't fill this cluster's etcd. Beyond it, a cluster's changes wait; meanwhile further ones replace them. The bytes count for
// the cluster whose record changed, not for the one whose endpoints are in the written object. Rule C39 of docs/spec/control-plane.md.
//
// It is a token bucket that is paid afterwards: what a change costs is known when it is written. A change is admitted while the account
// isn't overdrawn.
type budget struct {
	clock       clock.PassiveClock
	rate, burst float64 // bytes per second, bytes
	usedUp      func(ctx context.Context, cluster string)

	mu      sync.Mutex
	of      map[string]*account
	waiting int // services that wait, of all clusters
}

type account struct {
	level float64 // how many bytes may be written, negative if it is overdrawn
	at    time.Time
	late  map[types.NamespacedName]time.Time // when services that wait may try again
	said  bool                               // that it is used up, until half of it is back
}

func newBudget(c clock.PassiveClock, o Options, usedUp func(context.Context, string)) *budget {
	lateGauge.WithLabelValues(o.Cluster) // so that the metric exists from the start; a cluster's own changes never wait
	return &budget{clock: c, rate: float64(o.WriteRate), burst: float64(o.WriteBurst), usedUp: usedUp, of: map[string]*account{}}
}

// account returns a cluster's account at this moment. The caller holds the lock.
func (b *budget) account(cluster string) *account {
	now := b.clock.Now()
	a := b.of[cluster]
	if a == nil {
		a = &account{level: b.burst, at: now, late: map[types.NamespacedName]time.Time{}}
		b.of[cluster] = a
	}
	a.level = min(b.burst, a.level+b.rate*now.Sub(a.at).Seconds())
	a.at = now
	a.said = a.said && (len(a.late) > 0 || a.level < b.burst/2)
	return a
}

// admit returns 0 if a cluster's change of a service may be written, and else after how long to try again. It takes an estimate of the
// bytes, which settle corrects: other workers must not spend the same bytes. Services that wait go before others.
func (b *budget) admit(ctx context.Context, cluster string, service types.NamespacedName, estimate int) time.Duration {
	b.mu.Lock()
	a := b.account(cluster)
	due, waits := a.late[service]
	if waits && due.After(a.at) {
		b.mu.Unlock()
		return due.Sub(a.at)
	}
	if a.level > 0 && (waits || len(a.late) == 0) {
		a.level -= float64(estimate)
		b.setLate(cluster, a, service, time.Time{})
		b.mu.Unlock()
		return 0
	}
	wait := max(soonestTurn, time.Duration((max(0, -a.level)+float64(len(a.late)*turn))/b.rate*float64(time.Second)))
	b.setLate(cluster, a, service, a.at.Add(wait))
	first := !a.said
	a.said = true
	b.mu.Unlock()
	if first {
		b.usedUp(ctx, cluster)
	}
	return wait
}

// settle takes bytes from a cluster's account. A negative number gives back what admit took.
func (b *budget) settle(cluster string, bytes float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(cluster)
	a.level = min(b.burst, a.level-bytes)
}

// done forgets that changes of a service wait, except those of some clusters.
func (b *budget) done(service types.NamespacedName, except map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == 0 {
		return
	}
	for cluster, a := range b.of {
		if !except[cluster] {
			b.setLate(cluster, a, service, time.Time{})
		}
	}
}

// setLate records when a service may try again; zero: it doesn't wait. The caller holds the lock.
func (b *budget) setLate(cluster string, a *account, service types.NamespacedName, due time.Time) {
	before := len(a.late)
	if due.IsZero() {
		delete(a.late, service)
	} else {
		a.late[service] = due
	}
	if after := len(a.late); after != before {
		b.waiting += after - before
		lateGauge.WithLabelValues(cluster).Add(float64(after - before))
	}
}

// admission is what admit decided about a service's records.
type admission struct {
	memory    *memory
	estimates map[string]int // of the clusters whose changes are applied, in bytes
	missing   bool           // records are gone, of whatever cluster
	gone      []string       // the other clusters of records that are gone
	late      map[string]bool
	wait      time.Duration // until changes of the late clusters may be applied; 0: none is late
}

// admit leaves the changes of clusters that have used up their write budgets out of the input, which gets the records that the service was last
// imported from instead. Only records that changed or are new wait: neither those that are gone, nor this cluster's own, nor anything else in
// the input.
func (r *reconciler) admit(ctx context.Context, in *desired.Input, last func() effective.Records) admission {
	slices.SortFunc(in.Exports, byID[*door.Export])
	slices.SortFunc(in.Endpoints, byID[*door.Endpoints])
	m := r.memories.get(in.Key)
	a := admission{estimates: map[string]int{}}
	differences(m.exports, in.Exports, in, &a)
	differences(m.endpoints, in.Endpoints, in, &a)
	for _, cluster := range slices.Sorted(maps.Keys(a.estimates)) {
		if wait := r.budget.admit(ctx, cluster, in.Key, a.estimates[cluster]); wait > 0 {
			if a.late == nil {
				a.late = map[string]bool{}
			}
			a.late[cluster], a.wait = true, sooner(a.wait, wait)
			delete(a.estimates, cluster)
		}
	}
	r.budget.done(in.Key, a.late)
	a.memory = m
	if len(a.late) > 0 {
		a.holdBack(in, last())
	}
	m.exports, m.endpoints = in.Exports, in.Endpoints
	return a
}

// changed returns the clusters whose records changed, without those that are late.
func (a *admission) changed() []string { return union(slices.Collect(maps.Keys(a.estimates)), a.gone) }

// holdBack replaces the changed records of late clusters.
func (a *admission) holdBack(in *desired.Input, last effective.Records) {
	in.Exports = earlier(a.memory.exports, in.Exports, a.late, func(now *door.Export) *door.Export {
		was := last.Export(now.Cluster)
		if was == nil || was.Spec == nil || now.Spec == nil {
			return was
		}
		held, spec := *was, *was.Spec
		spec.Endpoints = now.Spec.Endpoints // what goes doesn't wait
		held.Spec = &spec
		return &held
	})
	in.Endpoints = earlier(a.memory.endpoints, in.Endpoints, a.late, func(e *door.Endpoints) *door.Endpoints { return last.EndpointsOf(e.Cluster, e.Name) })
}

// settle makes the clusters whose records changed pay for what was written. If that wasn't everything, they pay for the next reconcile too.
func (r *reconciler) settle(a admission, written int64, finished bool) {
	m := a.memory
	payers := union(m.owing, a.changed())
	for _, cluster := range payers {
		r.budget.settle(cluster, float64(written)/float64(len(payers))-float64(a.estimates[cluster]))
	}
	m.owing = nil
	if !finished {
		m.owing = payers
	}
}

// value is a record of the hub.
type value[T any] interface {
	comparable
	*door.Export | *door.Endpoints
	ID() door.ID
	Equal(T) bool
}

func byID[T value[T]](a, b T) int { return a.ID().Compare(b.ID()) }

// differences adds the differences between two sorted lists of records.
func differences[T value[T]](was, is []T, in *desired.Input, a *admission) {
	for len(was)+len(is) > 0 {
		order := -1 // the first of was is gone
		switch {
		case len(was) == 0:
			order = 1
		case len(is) > 0:
			order = byID(was[0], is[0])
		}
		switch {
		case order < 0:
			cluster := was[0].ID().Cluster
			a.missing = a.missing || cluster != ""
			if cluster != "" && cluster != in.Cluster {
				a.gone = union(a.gone, []string{cluster})
			}
			was = was[1:]
			continue
		case order == 0 && was[0].Equal(is[0]):
		default:
			if cluster := is[0].ID().Cluster; cluster != "" && cluster != in.Cluster && !in.Capped[cluster] {
				a.estimates[cluster] += sizeOfRecord(is[0])
			}
		}
		if order == 0 {
			was = was[1:]
		}
		is = is[1:]
	}
}

// earlier returns the records with those of late clusters that changed replaced by those that were last imported. It leaves out those that
// never were admitted. One that was, and whose slice this cluster's cache doesn't show yet, is used as it is: it must not go.
func earlier[T value[T]](was, is []T, late map[string]bool, imported func(T) T) []T {
	var none T
	all := make([]T, 0, len(is))
	for _, now := range is {
		if late[now.ID().Cluster] {
			i, known := slices.BinarySearchFunc(was, now, byID)
			if !known || !was[i].Equal(now) {
				if last := imported(now); last != none {
					now = last
				} else if !known {
					continue
				}
			}
		}
		all = append(all, now)
	}
	return all
}

// union returns a with the elements of b that it lacks.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// sizeOfRecord returns about how many bytes a record takes here.
func sizeOfRecord(record any) int {
	e, ok := record.(*door.Endpoints)
	if !ok {
		return 4 << 10 // a ServiceImport, its status, and a derived Service
	}
	return 1<<10 + 80*len(e.Endpoints)
}

// meter counts the bytes that a reconcile writes.
type meter struct{ bytes atomic.Int64 }

type meterKey struct{}

// metered returns a context in which writes are counted.
func metered(ctx context.Context) (context.Context, *meter) {
	m := &meter{}
	return context.WithValue(ctx, meterKey{}, m), m
}

func meterOf(ctx context.Context) *meter {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		return m
	}
	return &meter{}
}

// wrote counts an object that was written.
func (m *meter) wrote(verb string, o client.Object) {
	if verb == "delete" {
		m.bytes.Add(removal)
	} else {
		m.bytes.Add(int64(sizeOf(o)))
	}
}

// sizeOf returns about how many bytes an object takes in etcd. Kubernetes' own kinds are stored in the form that Size is of.
func sizeOf(o client.Object) int {
	if sized, ok := o.(interface{ Size() int }); ok {
		return sized.Size()
	}
	meta := metav1.ObjectMeta{Labels: o.GetLabels(), Annotations: o.GetAnnotations(), ManagedFields: o.GetManagedFields(), OwnerReferences: o.GetOwnerReferences()}
	size := 512 + meta.Size()
	switch o := o.(type) {
	case *fabedgev1alpha1.GlobalService:
		size += 128*len(o.Spec.Ports) + desired.SizeOfEndpoints(o)
	case *mcsv1beta1.ServiceImport:
		size += 128*len(o.Spec.Ports) + 64*(len(o.Spec.IPs)+len(o.Status.Clusters))
		for i := range o.Status.Conditions {
			size += 128 + len(o.Status.Conditions[i].Message)
		}
	}
	return size
}

// late reports that a cluster has used up its write budget.
func (r *reporter) late(ctx context.Context, cluster string) {
	logf.FromContext(ctx).Info("A cluster changes its exports faster than they are imported; its changes wait", "exporter", cluster)
	r.events.Eventf(memberNamed(cluster), nil, corev1.EventTypeWarning, reasonLate, "Import",
		"cluster %s changes its exports faster than this cluster writes them; its changes are merged and applied late, those of other clusters aren't. Check what changes there, and whether its token was stolen",
		cluster)
}
