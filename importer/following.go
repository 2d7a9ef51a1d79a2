package importer

import (
	"context"
	"maps"
	"slices"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// following knows which of the hub's drains and leaves this cluster acts on (rule C76 of docs/spec/control-plane.md): its MemberClusters say
// so, which DNS servers follow, and so do the EndpointSlices behind ClusterSetIPs.
type following struct {
	mu      sync.Mutex
	hub     hub                                         // nil before the importer has begun
	here    client.Reader                               // a cache
	keysOf  func(cluster string) []types.NamespacedName // the services of which something of it is imported, or should be
	of      map[types.NamespacedName][]string           // the drained clusters of a service as of its last reconcile; none: no entry
	gone    map[string]types.UID                        // clusters on the hub that left, and of which nothing is imported any more
	last    string
	foreign string // a cluster whose drain can't be followed, because a MemberCluster of its name here isn't our copy
}

// begin sets where it looks.
func (f *following) begin(hub hub, here client.Reader, keysOf func(cluster string) []types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub, f.here, f.keysOf = hub, here, keysOf
	f.of, f.gone = map[types.NamespacedName][]string{}, map[string]types.UID{}
}

// drained returns the drained clusters of a service.
func (f *following) drained(service types.NamespacedName) (clusters []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hub == nil {
		return nil
	}
	for _, m := range f.hub.Members() {
		if m.Spec.Drain {
			clusters = append(clusters, m.Name)
		}
	}
	return clusters
}

// acted records that a service has been reconciled while these clusters were drained.
func (f *following) acted(service types.NamespacedName, drained []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		return
	}
	if len(drained) == 0 {
		delete(f.of, service)
		return
	}
	f.of[service] = drained
}

// digest returns the digest of what is acted on, as of when the hub was last followed completely; empty if it never was.
func (f *following) digest(ctx context.Context) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hub == nil {
		return f.last
	}
	there := values(f.hub.Members())
	var here clustersetv1alpha1.MemberClusterList
	if f.here.List(ctx, &here, client.UnsafeDisableDeepCopy) != nil {
		return f.last
	}
	copies := make(map[string]*clustersetv1alpha1.MemberCluster, len(here.Items))
	for i := range here.Items {
		copies[here.Items[i].Name] = &here.Items[i]
	}
	f.forget(there)
	f.foreign = ""
	for i := range there {
		if m := &there[i]; !f.follows(ctx, m, copies[m.Name]) {
			return f.last
		}
	}
	f.last = clustersetv1alpha1.DrainsAndLeaves(there)
	return f.last
}

// follows reports whether this cluster acts on a MemberCluster of the hub. here is its copy, or itself if this cluster is the hub, or nil.
func (f *following) follows(ctx context.Context, m, here *clustersetv1alpha1.MemberCluster) bool {
	foreign := here != nil && here.UID != m.UID && !desired.Owned(here)
	if m.Left() {
		return (here == nil || here.Left() || foreign) && f.isGone(ctx, m)
	}
	if (here != nil && here.Spec.Drain) == m.Spec.Drain {
		return !slices.ContainsFunc(f.keysOf(m.Name), func(key types.NamespacedName) bool { return slices.Contains(f.of[key], m.Name) != m.Spec.Drain })
	}
	if foreign {
		f.foreign = m.Name
	}
	return false
}

// forget forgets what is known of clusters that the hub no longer has, so that joining and leaving under ever new names takes no memory.
func (f *following) forget(there []clustersetv1alpha1.MemberCluster) {
	left := make(map[string]types.UID, len(there))
	for i := range there {
		if there[i].Left() {
			left[there[i].Name] = there[i].UID
		}
	}
	maps.DeleteFunc(f.gone, func(name string, uid types.UID) bool { return left[name] != uid })
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
