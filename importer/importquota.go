package importer

import (
	"cmp"
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// importQuota limits how many services are imported from one cluster. Without a limit, a stolen token could fill every member's
// Service range and etcd. Records count in the order in which the hub received them, then by name, so a service that is
// imported stays imported if its cluster exports more.
type importQuota struct {
	limit int
	// passed is called when a cluster exceeds the limit, and when it no longer does.
	passed func(ctx context.Context, cluster string, exports, limit int)

	mu sync.Mutex
	of map[string][]capped // by cluster, the first one first
}

// capped is a record with the fields that records are ordered by.
type capped struct {
	created metav1.Time
	name    string
	service types.NamespacedName
}

func (a capped) compare(b capped) int {
	return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.name, b.name))
}

func newImportQuota(limit int, passed func(ctx context.Context, cluster string, exports, limit int)) *importQuota {
	return &importQuota{limit: limit, passed: passed, of: map[string][]capped{}}
}

// over reports whether a record is beyond its cluster's limit.
func (c *importQuota) over(record client.Object) bool {
	cluster, entry, ok := cappedOf(record)
	if !ok || !exports(record) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.of[cluster]
	return len(all) > c.limit && entry.compare(all[c.limit-1]) > 0
}

// count returns how many services a cluster exports.
func (c *importQuota) count(cluster string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of[cluster])
}

// add adds a record and returns the service that is now beyond the limit, if any.
func (c *importQuota) add(ctx context.Context, record client.Object) (out types.NamespacedName) {
	cluster, entry, ok := cappedOf(record)
	if !ok {
		return out
	}
	c.mu.Lock()
	all := c.of[cluster]
	at, known := slices.BinarySearchFunc(all, entry, capped.compare)
	if !known {
		all = slices.Insert(all, at, entry)
		c.of[cluster] = all
	}
	if !known && at < c.limit && len(all) > c.limit {
		out = all[c.limit].service
	}
	passed := !known && len(all) == c.limit+1
	c.mu.Unlock()
	if passed {
		c.passed(ctx, cluster, len(all), c.limit)
	}
	return out
}

// remove removes a record and returns the service that is now within the limit, if any.
func (c *importQuota) remove(ctx context.Context, record client.Object) (in types.NamespacedName) {
	cluster, entry, ok := cappedOf(record)
	if !ok {
		return in
	}
	c.mu.Lock()
	all := c.of[cluster]
	at, known := slices.BinarySearchFunc(all, entry, capped.compare)
	if known {
		all = slices.Delete(all, at, at+1)
		c.of[cluster] = all
		if len(all) == 0 {
			delete(c.of, cluster)
		}
	}
	if known && at < c.limit && len(all) >= c.limit {
		in = all[c.limit-1].service
	}
	passed := known && len(all) == c.limit
	c.mu.Unlock()
	if passed {
		c.passed(ctx, cluster, len(all), c.limit)
	}
	return in
}

func cappedOf(record client.Object) (cluster string, entry capped, ok bool) {
	cluster, ok = api.ClusterOfNamespace(record.GetNamespace())
	service, known := desired.ServiceOf(record)
	return cluster, capped{record.GetCreationTimestamp(), record.GetName(), service}, ok && known
}

// note counts an ExportedService. It enqueues the services that are beyond the limit or within it because of that.
func (c *importQuota) note(ctx context.Context, e change, q queue) {
	was, is := e.was != nil && exports(e.was), e.is != nil && exports(e.is)
	if was && is && e.was.GetUID() == e.is.GetUID() {
		return // else it was recreated while the watch was broken
	}
	if was {
		enqueueNamed(q, c.remove(ctx, e.was))
	}
	if is {
		enqueueNamed(q, c.add(ctx, e.is))
	}
}

// exports reports whether a record counts: withdrawn ones don't (C35).
func exports(record client.Object) bool {
	service, ok := record.(*clustersetv1alpha1.ExportedService)
	return !ok || service.Exports()
}

func enqueueNamed(q queue, service types.NamespacedName) {
	if service.Name != "" {
		q.Add(reconcile.Request{NamespacedName: service})
	}
}
