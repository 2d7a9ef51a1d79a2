package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/text"
)

// Reasons of our Events.
const (
	// reasonForeign: an object with the name of one of ours isn't ours.
	reasonForeign = "ForeignObject"
	// reasonRefused: the API server rejects one of our objects.
	reasonRefused = "ImportRefused"
	// reasonTooManyNamespaces: as many namespaces have been created for a cluster's services as may be.
	reasonTooManyNamespaces = "TooManyNamespaces"
	// reasonTooMuchMemory: a cluster's records take more memory than those of one cluster may.
	reasonTooMuchMemory = "TooMuchMemory"
	// reasonSteered: ClusterSetIPs are steered in another way than by the agent before.
	reasonSteered = "Steered"
	// reasonNotExtended: a Service of this cluster asks for endpoints of others, and gets none, or not as its policy wants.
	reasonNotExtended = "NotExtended"
)

// reporter reports what happens: as metrics for as long as it is so, and in an Event when it begins. Reconciling repeats; Events shouldn't.
type reporter struct {
	events   events.EventRecorder
	memories *memories
}

// outcome records the state of a service. The empty state means that no cluster exports it.
func (r *reporter) outcome(key types.NamespacedName, s state) (changed bool) {
	was, _ := r.memories.say(key, func(is *said) { is.state = s })
	return was.state != s
}

// foreign reports the objects of others that are in the way of a service or a MemberCluster.
func (r *reporter) foreign(ctx context.Context, key types.NamespacedName, found []*foreignError) {
	var kinds []string
	for _, f := range found {
		kinds = append(kinds, f.kind)
	}
	slices.Sort(kinds)
	was, is := r.memories.say(key, func(s *said) { s.foreign = strings.Join(slices.Compact(kinds), " ") })
	if is.foreign == was.foreign {
		return
	}
	not, cure := fmt.Sprintf("service %s isn't imported through this object", key), "Delete or rename it to import the service"
	if key == memberKey(key.Name) {
		not, cure = fmt.Sprintf("DNS servers don't follow what the hub says of cluster %s, but this object", key.Name), "Delete it, and the agent copies the hub's"
	}
	for _, f := range found {
		r.event(ctx, f.object, reasonForeign, "Import", "%s, which clusterset didn't write and leaves alone. %s", not, cure)
	}
}

// refused reports why the API server rejects a service's objects. An empty why means that it accepts them. The Event is on the ServiceImport even
// if that is the rejected object.
func (r *reporter) refused(ctx context.Context, key types.NamespacedName, why string) {
	was, _ := r.memories.say(key, func(s *said) { s.refused = why })
	if why == "" || why == was.refused {
		return
	}
	r.event(ctx, importNamed(key), reasonRefused, "Import", "the API server refuses what is imported: %s", why)
}

// unusable reports that nothing in the records of a service can be imported.
func (r *reporter) unusable(ctx context.Context, key types.NamespacedName, drops []merge.Drop) {
	why := "no cluster exports it"
	if len(drops) > 0 {
		why = text.Truncate(drops[0].String(), maxNote)
	}
	r.event(ctx, importNamed(key), reasonRefused, "Import", "nothing in the records of this service can be imported: %s", why)
}

func importNamed(key types.NamespacedName) *mcsv1beta1.ServiceImport {
	return &mcsv1beta1.ServiceImport{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
	}
}

// notExtended reports why a Service of this cluster that asks for it isn't extended, or not as its policy wants. An empty why means that all is well.
func (r *reporter) notExtended(ctx context.Context, key types.NamespacedName, e *desired.Extended, why string) {
	was, is := r.memories.say(key, func(s *said) {
		switch s.unwilling = why; {
		case e == nil:
			s.extended, s.unwilling = "", ""
		case why == "":
			s.extended = stateExtended
		default:
			s.extended = stateRefused
		}
	})
	if is.unwilling != "" && is.unwilling != was.unwilling {
		r.event(ctx, e.Service, reasonNotExtended, "Extend", "not extended to other clusters: %s", text.Truncate(why, maxNote))
	}
}

// truncated records how many endpoints didn't fit into a service's GlobalService.
func (r *reporter) truncated(key types.NamespacedName, n int) {
	r.memories.say(key, func(s *said) { s.truncated = n })
}

// lost records whether the hub has lost a cluster.
func (r *reporter) lost(cluster string, is bool) {
	r.memories.say(memberKey(cluster), func(s *said) { s.lost = is })
}

// namespacesFull reports that no more namespaces are created for a cluster's services.
func (r *reporter) namespacesFull(ctx context.Context, cluster, missing string, limit int) {
	r.event(ctx, memberNamed(cluster), reasonTooManyNamespaces, "Import",
		"%d namespaces have been created here for services of cluster %s; those of further namespaces, such as %s, are imported once somebody creates these. "+
			"Check whether its token was stolen, delete namespaces that aren't needed, or raise --max-namespaces",
		limit, cluster, missing)
}

// event sends a warning, which counts as written for whoever caused the reconcile.
func (r *reporter) event(ctx context.Context, about client.Object, reason, action, note string, args ...any) {
	meterOf(ctx).bytes.Add(sizeOfEvent)
	r.events.Eventf(about, nil, corev1.EventTypeWarning, reason, action, note, args...)
}

func memberNamed(cluster string) *clustersetv1alpha1.MemberCluster {
	return &clustersetv1alpha1.MemberCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clustersetv1alpha1.GroupVersion.String(), Kind: "MemberCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: cluster},
	}
}

// memberKey is the key of a MemberCluster. No service can have it.
func memberKey(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// refusal returns the API server's message if it rejects an object for good: it is invalid, or a quota, a policy or a role
// forbids it. For any other error it returns "".
func refusal(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	switch status.Status().Reason {
	case metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge:
		return text.Truncate(status.Status().Message, maxNote)
	}
	return ""
}

// maxNote is how many bytes of foreign text an Event's note may contain. A note can be 1 KiB.
const maxNote = 200

// writesAtOnce and writesEvery are how often a service's objects are written: so many times at once, and then once in that time (rule C79 of
// docs/spec/control-plane.md). Whoever keeps changing them, such as another controller or an admission webhook, may do so at each of our writes, as
// fast as the API server allows.
const writesAtOnce, writesEvery = 20, time.Second / 5

// memories has what is remembered of each imported service. Several services are reconciled in parallel, each by one worker at a time.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
}

// memory is what is remembered of a service, or of a MemberCluster, whose key has no namespace.
type memory struct {
	writes *rate.Limiter
	global knownGlobal
	said   said
	last   *meter // of the reconcile under way, or else the last one
}

// knownGlobal is what is remembered of a GlobalService of ours as it was written or read last. It is that until it has another version, but for the one
// that we replaced, which the cache may have for a moment.
type knownGlobal struct {
	version, replaced string

	hash   uint64 // see hashOfGlobal
	status fabedgev1alpha1.GlobalServiceStatus
}

// said is what was last reported.
type said struct {
	state     state
	foreign   string // the kinds of objects of others that are in the way, with spaces between them
	truncated int
	refused   string // why the API server refuses its objects
	extended  state  // of the Service of this cluster
	unwilling string // why that isn't extended
	lost      bool   // by the hub: a MemberCluster
}

func newMemories() *memories { return &memories{of: map[types.NamespacedName]*memory{}} }

func (m *memories) get(service types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[service] == nil {
		m.of[service] = &memory{writes: rate.NewLimiter(rate.Every(writesEvery), writesAtOnce)}
	}
	return m.of[service]
}

// begin begins a reconcile of a service.
func (m *memories) begin(service types.NamespacedName) *meter {
	of, last := m.get(service), &meter{}
	m.mu.Lock()
	defer m.mu.Unlock()
	of.last = last
	return last
}

// end ends it, and reports whether the service has to be reconciled again: somebody else changed it meanwhile. A service of which nothing is reported
// is forgotten.
func (m *memories) end(service types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of[service]
	if of.said == (said{}) && of.global.version == "" {
		delete(m.of, service)
	}
	return of.last.end()
}

// wrote reports whether the last reconcile of a service wrote an object in that version: then its event says nothing new. While one is under way,
// this is decided at its end. What one before it wrote isn't its own: it may have read the cache before that write was in it.
func (m *memories) wrote(service types.NamespacedName, version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of[service]
	return of != nil && of.last != nil && of.last.has(version)
}

// forget forgets a service of which nothing is written at this moment. So nothing is in the way of it, or too large.
func (m *memories) forget(service types.NamespacedName) {
	m.get(service).global = knownGlobal{}
	m.say(service, func(s *said) { s.foreign, s.truncated, s.refused = "", 0, "" })
}

// say changes what was last reported of a service, and counts it. A MemberCluster of which nothing is reported is forgotten.
func (m *memories) say(service types.NamespacedName, change func(*said)) (was, is said) {
	of := m.get(service)
	m.mu.Lock()
	defer m.mu.Unlock()
	was = of.said
	change(&of.said)
	if is = of.said; is != was {
		was.count(-1)
		is.count(1)
	}
	if is == (said{}) && of.last == nil {
		delete(m.of, service)
	}
	return was, is
}

// count adds what is reported to the gauges, or takes it away.
func (s said) count(by float64) {
	if s.state != "" {
		servicesGauge.WithLabelValues(string(s.state)).Add(by)
	}
	for kind := range strings.FieldsSeq(s.foreign) {
		foreignGauge.WithLabelValues(kind).Add(by)
	}
	truncatedGauge.Add(by * float64(s.truncated))
	if s.extended != "" {
		extendedGauge.WithLabelValues(string(s.extended)).Add(by)
	}
	if s.lost {
		awaitedGauge.Add(by)
	}
}

// steered reports that ClusterSetIPs are now steered in another way than by the agent before, by our copy of this cluster's MemberCluster.
func (r *reporter) steered(ctx context.Context, own *clustersetv1alpha1.MemberCluster, now metav1.Condition) {
	if own == nil {
		return
	}
	if was := meta.FindStatusCondition(own.Status.Conditions, now.Type); was != nil && was.Reason != now.Reason {
		logf.FromContext(ctx).Info("ClusterSetIPs are steered in another way than before", "now", now.Message, "before", was.Message)
		r.event(ctx, own, reasonSteered, "Import", "%s", text.Truncate(fmt.Sprintf("ClusterSetIPs are steered %s; before, %s", now.Message, was.Message), maxNote))
	}
}
