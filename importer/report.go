package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/text"
)

// state is the result of importing an exported service.
type state string

const (
	stateImported    state = "imported"
	stateForeign     state = "foreign"
	stateNoNamespace state = "no_namespace"
	stateExcluded    state = "excluded"
	stateHeld        state = "held"
	stateCapped      state = "capped"
	stateFailed      state = "failed"
)

// Of a Service of this cluster that asks to be extended.
const (
	stateExtended state = "extended"
	stateRefused  state = "refused"
)

// Reasons of our Events.
const (
	// reasonForeign: an object with the name of one of ours isn't ours.
	reasonForeign = "ForeignObject"
	// reasonNotRejoined: a cluster is missing on a hub that has lost it, and is waited for.
	reasonNotRejoined = clustersetv1alpha1.ReasonNotRejoined
	// reasonRefused: the API server rejects one of our objects.
	reasonRefused = "ImportRefused"
	// reasonCapped: a cluster exports more services than are imported from one cluster.
	reasonCapped = "TooManyServices"
	// reasonTooManyNamespaces: as many namespaces have been created for a cluster's services as may be.
	reasonTooManyNamespaces = "TooManyNamespaces"
	// reasonTooMuchMemory: a cluster's records take more memory than those of one cluster may.
	reasonTooMuchMemory = "TooMuchMemory"
	// reasonNotExtended: a Service of this cluster asks for endpoints of others, and gets none, or not as its policy wants.
	reasonNotExtended = "NotExtended"
	// reasonLate: a cluster's changes wait, because its account is overdrawn.
	reasonLate = "WriteBudgetUsedUp"
)

// foreignError is returned for an object with the name of one of ours that isn't ours. It isn't retried: the object's next
// event enqueues the service again.
type foreignError struct {
	kind   string
	object client.Object
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %s exists and isn't the importer's; delete or rename it", e.kind, client.ObjectKeyFromObject(e.object))
}

// foreignErrors returns the foreignErrors among joined errors, and whether there are no others.
func foreignErrors(err error) (foreign []*foreignError, only bool) {
	only = true
	var visit func(error)
	visit = func(err error) {
		var f *foreignError
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				visit(e)
			}
		} else if errors.As(err, &f) {
			foreign = append(foreign, f)
		} else {
			only = false
		}
	}
	if err != nil {
		visit(err)
	}
	return foreign, only
}

// reporter reports what happens: always as metrics, and once, when it begins, as a log line and an Event. Reconciling repeats;
// logs shouldn't.
type reporter struct {
	events events.EventRecorder
	clock  clock.PassiveClock

	mu         sync.Mutex
	services   map[types.NamespacedName]*reported
	namespaces map[string]bool                 // missing ones that were mentioned
	extended   map[types.NamespacedName]string // why Services that ask for it aren't extended; empty: they are
	paces      map[string]*rate.Limiter        // by cluster, of what it may cause to be told as often as it likes
	over       map[string]bool                 // clusters that export more services than are imported
}

// reported is what was last reported for one service.
type reported struct {
	state     state
	foreign   map[string]types.UID // by kind
	drops     map[string]uint64    // hashes, by cluster
	truncated int
	refused   string
}

func newReporter(recorder events.EventRecorder, c clock.PassiveClock) *reporter {
	return &reporter{
		events: recorder, clock: c, services: map[types.NamespacedName]*reported{}, namespaces: map[string]bool{},
		extended: map[types.NamespacedName]string{}, paces: map[string]*rate.Limiter{}, over: map[string]bool{},
	}
}

func (r *reporter) get(key types.NamespacedName) *reported {
	if r.services[key] == nil {
		r.services[key] = &reported{}
	}
	return r.services[key]
}

// outcome records the state of a service. The empty state means that no cluster exports it.
func (r *reporter) outcome(key types.NamespacedName, s state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.get(key)
	if rep.state != s {
		if rep.state != "" {
			servicesGauge.WithLabelValues(string(rep.state)).Dec()
		}
		if s != "" {
			servicesGauge.WithLabelValues(string(s)).Inc()
		}
		rep.state = s
	}
	if s == "" {
		r.setForeign(rep, nil)
		r.setTruncated(rep, 0)
		delete(r.services, key)
	}
}

// foreign reports the foreign objects that block a service, each once when it appears.
func (r *reporter) foreign(ctx context.Context, key types.NamespacedName, found []*foreignError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.get(key)
	now := map[string]types.UID{}
	for _, f := range found {
		now[f.kind] = f.object.GetUID()
		if uid, known := rep.foreign[f.kind]; known && uid == f.object.GetUID() {
			continue
		}
		logf.FromContext(ctx).Info("An object that the importer didn't write has the name of what it imports, and stays as it is",
			"name", key, "kind", f.kind, "object", client.ObjectKeyFromObject(f.object))
		not, cure := fmt.Sprintf("service %s isn't imported through this object", key), "Delete or rename it to import the service"
		if key == memberKey(key.Name) {
			not, cure = fmt.Sprintf("DNS servers don't follow what the hub says of cluster %s, but this object", key.Name), "Delete it, and the agent copies the hub's"
		}
		r.event(ctx, f.object, reasonForeign, "Import", "%s, which clusterset didn't write and leaves alone. %s", not, cure)
	}
	r.setForeign(rep, now)
}

func (r *reporter) setForeign(rep *reported, now map[string]types.UID) {
	for kind := range rep.foreign {
		foreignGauge.WithLabelValues(kind).Dec()
	}
	for kind := range now {
		foreignGauge.WithLabelValues(kind).Inc()
	}
	rep.foreign = maps.Clone(now)
}

// refused reports why the API server rejects a service's objects, once until that changes. An empty why means that it accepts
// them. The Event is on the ServiceImport even if that is the rejected object.
func (r *reporter) refused(ctx context.Context, key types.NamespacedName, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.get(key)
	if why != "" && why != rep.refused {
		imp := &mcsv1beta1.ServiceImport{
			TypeMeta:   metav1.TypeMeta{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName},
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		}
		r.event(ctx, imp, reasonRefused, "Import", "the API server refuses what is imported: %s", why)
	}
	rep.refused = why
}

// notExtended reports why a Service of this cluster that asks for it isn't extended, or not as its policy wants, once until that changes. An
// empty why means that all is well.
func (r *reporter) notExtended(ctx context.Context, key types.NamespacedName, e *desired.Extended, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, asked := r.extended[key]
	if e == nil && !asked || e != nil && asked && was == why {
		return
	}
	outcome := func(why string) prometheus.Gauge {
		if why == "" {
			return extendedGauge.WithLabelValues(string(stateExtended))
		}
		return extendedGauge.WithLabelValues(string(stateRefused))
	}
	if asked {
		outcome(was).Dec()
		delete(r.extended, key)
	}
	if e != nil {
		outcome(why).Inc()
		r.extended[key] = why
	}
	if e != nil && why != "" {
		logf.FromContext(ctx).Info("Didn't extend a Service as it asks for", "reason", why)
		r.event(ctx, e.Service, reasonNotExtended, "Extend", "not extended to other clusters: %s", text.Truncate(why, maxNote))
	}
}

// unwritten records that no object of a service is written at this moment. So none is in the way of one, and none is too large.
func (r *reporter) unwritten(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rep := r.services[key]; rep != nil {
		r.setForeign(rep, nil)
		r.setTruncated(rep, 0)
	}
}

// truncated records how many endpoints didn't fit into a service's GlobalService.
func (r *reporter) truncated(key types.NamespacedName, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setTruncated(r.get(key), n)
}

func (r *reporter) setTruncated(rep *reported, n int) {
	truncatedGauge.Add(float64(n - rep.truncated))
	rep.truncated = n
}

// capped reports, once, that a cluster exceeds the limit of imported services, or no longer does.
func (r *reporter) capped(ctx context.Context, cluster string, exports, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch over := exports > limit; {
	case over == r.over[cluster]:
	case over:
		r.over[cluster] = true
		logf.FromContext(ctx).Info("A cluster exports more services than are imported from one cluster; later ones are left out", "exporter", cluster, "limit", limit)
		r.event(ctx, memberNamed(cluster), reasonCapped, "Import",
			"cluster %s exports more than %d services; the first %d are imported, in the order in which they reached the hub. Check whether its token was stolen, or raise --max-services in all members",
			cluster, limit, limit)
	default:
		delete(r.over, cluster)
		logf.FromContext(ctx).Info("A cluster no longer exports more services than are imported from one cluster", "exporter", cluster, "exports", exports)
	}
}

// late reports that a cluster's account is overdrawn (C39).
func (r *reporter) late(ctx context.Context, cluster string) {
	logf.FromContext(ctx).Info("A cluster changes its exports faster than they are imported; its changes wait", "exporter", cluster)
	r.event(ctx, memberNamed(cluster), reasonLate, "Import",
		"cluster %s changes its exports faster than this cluster writes them; its changes are merged and applied late, those of other clusters aren't. Check what changes there, and whether its token was stolen",
		cluster)
}

// event sends a warning, which counts as written for whoever caused the reconcile.
func (r *reporter) event(ctx context.Context, about client.Object, reason, action, note string, args ...any) {
	meterOf(ctx).bytes.Add(sizeOfEvent)
	r.events.Eventf(about, nil, corev1.EventTypeWarning, reason, action, note, args...)
}

// namespacesFull reports that no more namespaces are created for a cluster's services.
func (r *reporter) namespacesFull(ctx context.Context, cluster, missing string, limit int) {
	logf.FromContext(ctx).Info("Skipped the services of a namespace that doesn't exist here, because as many were created for their cluster as may be",
		"exporter", cluster, "missing", missing, "limit", limit)
	r.event(ctx, memberNamed(cluster), reasonTooManyNamespaces, "Import",
		"%d namespaces have been created here for services of cluster %s; those of further namespaces, such as %s, are imported once somebody creates these. "+
			"Check whether its token was stolen, delete namespaces that aren't needed, or raise --max-namespaces",
		limit, cluster, missing)
}

func memberNamed(cluster string) *clustersetv1alpha1.MemberCluster {
	return &clustersetv1alpha1.MemberCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clustersetv1alpha1.GroupVersion.String(), Kind: "MemberCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: cluster},
	}
}

// lost reports a cluster that the hub has lost.
func (r *reporter) lost(ctx context.Context, mirrored client.Object, message string) {
	logf.FromContext(ctx).Info("The hub has lost a cluster; what it exported stays", "cluster", mirrored.GetName())
	r.event(ctx, mirrored, reasonNotRejoined, "Import",
		"%s. Run clusterset join %s --rejoin; or, if it won't come back, delete its MemberCluster here, in each member", message, mirrored.GetName())
}

// namespaceMissing reports a namespace that clusters export services from and that doesn't exist here.
func (r *reporter) namespaceMissing(ctx context.Context, namespace string, exporters []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.namespaces[namespace] && slices.ContainsFunc(exporters, r.mayTell) {
		if len(r.namespaces) >= maxNamespaces {
			clear(r.namespaces) // exporters name them
		}
		r.namespaces[namespace] = true
		logf.FromContext(ctx).Info("Skipped the services of a namespace that doesn't exist here; they are imported when it appears",
			"missing", namespace)
	}
}

func (r *reporter) namespaceFound(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.namespaces, namespace)
}

// maxNamespaces is how many missing namespaces are remembered, so that each is mentioned once.
const maxNamespaces = 1000

// maxNote is how many bytes of foreign text an Event's note may contain. A note can be 1 KiB.
const maxNote = 200
