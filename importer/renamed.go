package importer

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/importer/desired"
)

// formerNamesFor is how long slices have a port under its former name as well. By then every kube-proxy has seen the new name, and the
// exporter whose owner renamed the port has sent the endpoints with it.
const formerNamesFor = 10 * time.Second

// settleFor is how long slices have the ports that the derived Service is about to get before it gets them. By then every kube-proxy
// has seen them.
const settleFor = time.Second

// prepareSlices writes the slices with the ports that the derived Service is about to get, while they keep the ports that it still has.
// So none of its ports is ever without endpoints. wait is how long the Service, and what depends on it, must stay as it is; 0 is not
// at all.
func (r *reconciler) prepareSlices(ctx context.Context, key types.NamespacedName, out desired.Output, cur desired.Current) (wait time.Duration, _ error) {
	m := r.memories.get(key)
	if cur.ServiceImport == nil || cur.Derived == nil || out.Derived == nil || !desired.Owned(cur.Derived) || !desired.GainsName(cur.Derived, out.Derived) {
		m.prepared = time.Time{}
		return 0, nil
	}
	now := r.clock.Now()
	if m.prepared.IsZero() {
		m.prepared = now
	}
	if wait = m.prepared.Add(settleFor).Sub(now); wait <= 0 {
		return 0, nil
	}
	stale := cur.StaleSlices(out)
	out.Slices = slices.DeleteFunc(desired.Expanded(out, cur), func(s *discoveryv1.EndpointSlice) bool {
		is := cur.Slice(s.Name)
		return is != nil && desired.Routed(is) && !desired.Routed(s) // the current ports may still need it
	})
	if err := r.writeSlices(ctx, key, out, cur, r.ownerOf(cur.ServiceImport)); err != nil {
		return wait, err
	}
	return wait, r.removeSlices(ctx, stale)
}

// noteRenamed notes names that ports of the derived Service had and have no more.
func (r *reconciler) noteRenamed(key types.NamespacedName, was, is *corev1.Service) {
	if was == nil || is == nil || was == is || !desired.GainsName(was, is) {
		return
	}
	m, former := r.memories.get(key), r.former(key)
	m.prepared = time.Time{}
	if m.former = desired.FormerNames(was, is, former); len(m.former) > 0 {
		m.formerUntil = r.clock.Now().Add(formerNamesFor)
	}
}

// former returns the names that ports of a service's derived Service had until recently.
func (r *reconciler) former(key types.NamespacedName) []desired.PortName {
	m := r.memories.get(key)
	if !r.clock.Now().Before(m.formerUntil) {
		m.former = nil
	}
	return m.former
}

// formerFor returns how long former names still count, 0 if there are none.
func (r *reconciler) formerFor(key types.NamespacedName) time.Duration {
	if len(r.former(key)) == 0 {
		return 0
	}
	return r.memories.get(key).formerUntil.Sub(r.clock.Now())
}
