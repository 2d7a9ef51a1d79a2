package importer

import (
	"context"
	"maps"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// following knows which of the hub's drains and leaves this cluster acts on (rule C76 of docs/spec/control-plane.md): its MemberClusters say
// so, which DNS servers follow, and so do the EndpointSlices behind ClusterSetIPs.
type following struct {
	mu        sync.Mutex
	hub, here client.Reader                               // caches; nil before the importer has begun
	kept      func(cluster string) []types.NamespacedName // services of which it is imported what the hub has lost
	drained   map[string]bool                             // by cluster, for which the services have been enqueued
	// pending are the services of clusters whose drain changed, until they are reconciled after it; with the count of changes at that time.
	pending map[types.NamespacedName]int
	changes int
	gone    map[string]types.UID // clusters on the hub that left, and of which nothing is imported any more
	last    string
	foreign string // a cluster whose drain can't be followed, because a MemberCluster of its name here isn't our copy
}

// begin sets where it looks.
func (f *following) begin(hub, here client.Reader, kept func(cluster string) []types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub, f.here, f.kept = hub, here, kept
	f.drained, f.pending, f.gone = map[string]bool{}, map[types.NamespacedName]int{}, map[string]types.UID{}
}

// note records a MemberCluster of the hub, before the services that it affects are enqueued.
func (f *following) note(ctx context.Context, c change, q queue) {
	m, there := c.is.(*clustersetv1alpha1.MemberCluster)
	if !there {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was, known := f.drained[m.Name]
	if f.hub == nil || known && was == m.Spec.Drain {
		return
	}
	if known || m.Spec.Drain {
		var services clustersetv1alpha1.ExportedServiceList
		if f.hub.List(ctx, &services, client.InNamespace(api.MemberNamespace(m.Name)), client.UnsafeDisableDeepCopy) != nil {
			return // the process is stopping
		}
		f.changes++
		for i := range services.Items {
			if key, ok := desired.ServiceOf(&services.Items[i]); ok {
				f.pending[key] = f.changes
			}
		}
		for _, key := range f.kept(m.Name) {
			f.pending[key] = f.changes
			q.Add(reconcile.Request{NamespacedName: key}) // by the time that affectedBy asks, it may not be kept any more
		}
	}
	f.drained[m.Name] = m.Spec.Drain
}

// began returns what done needs to know about when a service's reconcile began.
func (f *following) began() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// done records that a service has been reconciled, with what was known when that began.
func (f *following) done(service types.NamespacedName, began int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, is := f.pending[service]; is && at <= began {
		delete(f.pending, service)
	}
}

// digest returns the digest of what is acted on, as of when the hub was last followed completely; empty if it never was.
func (f *following) digest(ctx context.Context) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hub == nil || len(f.pending) > 0 {
		return f.last
	}
	var there, here clustersetv1alpha1.MemberClusterList
	if f.hub.List(ctx, &there, client.UnsafeDisableDeepCopy) != nil || f.here.List(ctx, &here, client.UnsafeDisableDeepCopy) != nil {
		return f.last
	}
	copies := make(map[string]*clustersetv1alpha1.MemberCluster, len(here.Items))
	for i := range here.Items {
		copies[here.Items[i].Name] = &here.Items[i]
	}
	f.forget(there.Items)
	f.foreign = ""
	for i := range there.Items {
		if m := &there.Items[i]; !f.follows(ctx, m, copies[m.Name]) {
			return f.last
		}
	}
	f.last = clustersetv1alpha1.DrainsAndLeaves(there.Items)
	return f.last
}

// follows reports whether this cluster acts on a MemberCluster of the hub. here is its copy, or itself if this cluster is the hub, or nil.
func (f *following) follows(ctx context.Context, m, here *clustersetv1alpha1.MemberCluster) bool {
	foreign := here != nil && here.UID != m.UID && !desired.Owned(here)
	if m.Left() {
		return (here == nil || here.Left() || foreign) && f.isGone(ctx, m)
	}
	drained, known := f.drained[m.Name]
	if (here != nil && here.Spec.Drain) == m.Spec.Drain {
		return known && drained == m.Spec.Drain
	}
	if foreign {
		f.foreign = m.Name
	}
	return false
}

// forget forgets what is known of clusters that the hub no longer has, so that joining and leaving under ever new names takes no memory.
func (f *following) forget(there []clustersetv1alpha1.MemberCluster) {
	left, known := make(map[string]types.UID, len(there)), make(map[string]bool, len(there))
	for i := range there {
		known[there[i].Name] = true
		if there[i].Left() {
			left[there[i].Name] = there[i].UID
		}
	}
	maps.DeleteFunc(f.gone, func(name string, uid types.UID) bool { return left[name] != uid })
	maps.DeleteFunc(f.drained, func(name string, _ bool) bool { return !known[name] })
}

// cant returns the cluster whose drain can't be followed, as of the last digest, or nothing.
func (f *following) cant() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.foreign
}

// isGone reports whether nothing of a cluster that has left is imported any more.
func (f *following) isGone(ctx context.Context, m *clustersetv1alpha1.MemberCluster) bool {
	if f.gone[m.Name] == m.UID {
		return true
	}
	var imported discoveryv1.EndpointSliceList
	of := client.MatchingLabels{api.LabelManagedBy: api.ManagedByImporter, api.LabelSourceCluster: m.Name}
	if f.here.List(ctx, &imported, of, client.Limit(1), client.UnsafeDisableDeepCopy) != nil || len(imported.Items) > 0 {
		return false
	}
	f.gone[m.Name] = m.UID
	return true
}
