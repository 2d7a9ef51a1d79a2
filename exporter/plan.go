package exporter

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/record"
)

// verb is what to do with an object.
type verb string

const (
	kindService   = "ExportedService"
	kindEndpoints = "ExportedEndpoints"

	verbCreate verb = "create"
	verbUpdate verb = "update"
	verbDelete verb = "delete"
)

// step is one write to the hub.
type step struct {
	verb   verb
	kind   string
	object client.Object
}

// plan returns the steps that turn the records on the hub into the wanted ones. It is empty if they say the same: every write
// there wakes every member. What is on the hub and isn't wanted is withdrawn.
//
// New and changed endpoints are written before their service, which lists them, and those that go are deleted after it: importers never see a
// service without its endpoints, as when an endpoint moves from one slice to another.
//
// The time of the change that led to a record's endpoints is written with them, and alone is no reason to write.
func plan(have Records, want Desired, number numbering) (steps []step) {
	var after []step
	current := make(map[string]*clustersetv1alpha1.ExportedEndpoints, len(have.Endpoints))
	for i := range have.Endpoints {
		current[have.Endpoints[i].Name] = &have.Endpoints[i]
	}
	for i := range want.Endpoints {
		w := &want.Endpoints[i]
		h := current[w.Name]
		delete(current, w.Name)
		switch {
		case h == nil:
			steps = append(steps, step{verbCreate, kindEndpoints, w.DeepCopy()})
		case h.DeletionTimestamp != nil || !sameEndpoints(h, w):
			u := w.DeepCopy()
			if equality.Semantic.DeepEqual(h.Spec, w.Spec) {
				u.Annotations = nil // what happened then isn't why it is written
			}
			steps = append(steps, update(kindEndpoints, h, u))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		after = append(after, step{verbDelete, kindEndpoints, current[name].DeepCopy()})
	}

	h, w := have.Service, want.Service.DeepCopy()
	if w == nil && h != nil {
		w = withdrawn(h)
	}
	if w != nil {
		w.Spec.Revision = number.next(h)
	}
	switch {
	case w == nil:
	case h == nil:
		steps = append(steps, step{verbCreate, kindService, w})
	case h.DeletionTimestamp != nil || !sameService(h, w) || !number.counts(h):
		steps = append(steps, update(kindService, h, w))
	}
	return append(steps, after...)
}

// withdrawn returns the record that says that a service isn't exported any more.
func withdrawn(h *clustersetv1alpha1.ExportedService) *clustersetv1alpha1.ExportedService {
	cluster, _ := h.SourceCluster()
	w := &clustersetv1alpha1.ExportedService{ObjectMeta: record.Meta(cluster, keyOf(h), h.Name), Spec: clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: h.Spec.ServiceNamespace, ServiceName: h.Spec.ServiceName, Type: h.Spec.Type, ExportedAt: h.Spec.ExportedAt, Withdrawn: true,
	}}
	w.Labels[api.LabelWithdrawn] = "true"
	return w
}

// withdrawnFor is how long a record says that its service isn't exported any more: longer than an importer that misses it stays away, after
// which the absence of the record counts (rule C41 of docs/spec/control-plane.md).
const withdrawnFor = 24 * time.Hour

// sameService reports whether a record on the hub says what it should. When it was written doesn't count.
func sameService(h, w *clustersetv1alpha1.ExportedService) bool {
	a, b := h.Spec, w.Spec
	a.Revision, b.Revision = 0, 0
	return equality.Semantic.DeepEqual(a, b) && labelled(h, w)
}

func sameEndpoints(h, w *clustersetv1alpha1.ExportedEndpoints) bool {
	return equality.Semantic.DeepEqual(h.Spec, w.Spec) && labelled(h, w)
}

// update returns the step that replaces a record, and with it what others noted in its metadata: somebody, such as a thief of the token before it
// was revoked, may have left so much that the hub's policy admits no more (S59 of docs/security.md). If someone else has deleted the record so that
// it waits for a finalizer, that ends it, and it is created again.
func update(kind string, h, w client.Object) step {
	w.SetResourceVersion(h.GetResourceVersion())
	w.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // the API server forgets them
	return step{verbUpdate, kind, w}
}

// numbering gives a service's record its revision (rule C6 of docs/spec/control-plane.md).
type numbering struct {
	now  time.Time
	last int64 // that this process wrote; 0: none
}

// next returns the revision of the next state of a record, which is on the hub or nil. It is larger than those that others may have seen, unless
// they are so far ahead that no reader counts them.
func (n numbering) next(onHub *clustersetv1alpha1.ExportedService) int64 {
	next := max(n.now.UnixMilli(), n.last+1)
	if onHub != nil {
		next = max(next, onHub.Spec.RevisionAt(n.now)+1)
	}
	return next
}

// counts reports whether readers know the order of a record's state among others. One that somebody else gave no revision, or one far ahead, is
// written again. If our own is ahead, because the clock was set back, it stays.
func (n numbering) counts(onHub *clustersetv1alpha1.ExportedService) bool {
	return onHub.Spec.RevisionAt(n.now) > 0 || onHub.Spec.Revision == n.last && n.last > 0
}

// labelled reports whether have carries all labels of want. People who look at the hub may have added others.
func labelled(have, want client.Object) bool {
	for k, v := range want.GetLabels() {
		if have.GetLabels()[k] != v {
			return false
		}
	}
	return have.GetLabels()[api.LabelWithdrawn] == want.GetLabels()[api.LabelWithdrawn]
}
