package exporter

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/labels"
)

// Records are a service's records on the hub.
type Records struct {
	Service   *clustersetv1alpha1.ExportedService
	Endpoints []clustersetv1alpha1.ExportedEndpoints
}

// verb is what to do with an object.
type verb string

const (
	verbCreate   verb = "create"
	verbUpdate   verb = "update"
	verbWithdraw verb = "withdraw" // say that a record is about to be deleted; see api.AnnotationWithdrawn
	verbDelete   verb = "delete"
)

// step is one write to the hub.
type step struct {
	verb   verb
	kind   string
	object client.Object
}

// plan returns the steps that turn the records on the hub into the wanted ones. It is empty if they say the same: every write
// there wakes every member.
//
// The order ensures that importers never see a service without endpoints: endpoints are written before their new service and stay
// until it is gone, and new ones are written before old ones are deleted, as when an endpoint moves from one slice to another.
// A changed service is written before its endpoints: importers know from it how its ports were called before, and from endpoints
// alone they don't know which port a new name means.
// Records are withdrawn before they are deleted; otherwise importers would wait a moment.
// A record whose deletion someone else left pending is replaced: its finalizer would stay with an update, which the hub's policy then refuses,
// and importers use the record until it is gone.
//
// The time of the change that led to a record's endpoints is written with them, and alone is no reason to write.
func plan(have Records, want Desired) []step {
	var before, after []step
	current := make(map[string]*clustersetv1alpha1.ExportedEndpoints, len(have.Endpoints))
	for i := range have.Endpoints {
		current[have.Endpoints[i].Name] = &have.Endpoints[i]
	}
	for i := range want.Endpoints {
		w := &want.Endpoints[i]
		h := current[w.Name]
		delete(current, w.Name)
		if h != nil && h.DeletionTimestamp != nil {
			before = append(before, step{verbDelete, kindEndpoints, h.DeepCopy()})
			h = nil
		}
		if h == nil {
			before = append(before, step{verbCreate, kindEndpoints, w.DeepCopy()})
			continue
		}
		same := equality.Semantic.DeepEqual(h.Spec, w.Spec)
		if same && labelled(h, w) && !withdrawn(h) {
			continue
		}
		u := h.DeepCopy()
		u.Labels, u.Spec = labels.Merge(h.Labels, w.Labels, nil), *w.Spec.DeepCopy()
		delete(u.Annotations, api.AnnotationWithdrawn)
		if !same {
			delete(u.Annotations, corev1.EndpointsLastChangeTriggerTime)
			u.Annotations = labels.Merge(u.Annotations, w.Annotations, nil)
		}
		before = append(before, step{verbUpdate, kindEndpoints, u})
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		h := current[name]
		if want.Service != nil { // otherwise the withdrawn service covers its endpoints
			after = append(after, step{verbWithdraw, kindEndpoints, h.DeepCopy()})
		}
		after = append(after, step{verbDelete, kindEndpoints, h.DeepCopy()})
	}

	h, w := have.Service, want.Service
	if h != nil && w != nil && h.DeletionTimestamp != nil {
		before = append(before, step{verbDelete, kindService, h.DeepCopy()})
		h = nil
	}
	switch {
	case h == nil && w == nil:
	case h == nil:
		before = append(before, step{verbCreate, kindService, w.DeepCopy()})
	case w == nil:
		before = append(before, step{verbWithdraw, kindService, h.DeepCopy()}, step{verbDelete, kindService, h.DeepCopy()})
	case !equality.Semantic.DeepEqual(h.Spec, w.Spec) || !labelled(h, w) || withdrawn(h):
		u := h.DeepCopy()
		u.Labels, u.Spec = labels.Merge(h.Labels, w.Labels, nil), *w.Spec.DeepCopy()
		delete(u.Annotations, api.AnnotationWithdrawn)
		if update := (step{verbUpdate, kindService, u}); withdrawn(h) {
			before = append(before, update)
		} else {
			before = slices.Insert(before, 0, update)
		}
	}
	return append(before, after...)
}

// stripRecords makes steps leave nothing of a record's metadata that isn't ours. Otherwise what others noted stays, but somebody, such as a thief of
// the token before it was revoked, may have left so much that the hub's policy admits no more. S59 of docs/security.md.
func stripRecords(steps []step, ours map[string]string) {
	for _, s := range steps {
		if s.verb != verbCreate && s.verb != verbUpdate {
			continue
		}
		notes := s.object.GetAnnotations()
		maps.DeleteFunc(notes, func(key, _ string) bool { return key != corev1.EndpointsLastChangeTriggerTime })
		s.object.SetLabels(ours)
		s.object.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // the API server forgets them
	}
}

// labelled reports whether have carries all labels of want. People who look at the hub may have added others.
func labelled(have, want client.Object) bool {
	for k, v := range want.GetLabels() {
		if have.GetLabels()[k] != v {
			return false
		}
	}
	return true
}

// withdrawn reports whether the record was about to be deleted when it was wanted again.
func withdrawn(o client.Object) bool {
	_, yes := o.GetAnnotations()[api.AnnotationWithdrawn]
	return yes
}

const (
	kindService   = "ExportedService"
	kindEndpoints = "ExportedEndpoints"
)
