package importer

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/internal/merge"
)

// clusterEvery is how often a cluster may cause a line in the log.
const clusterEvery = time.Minute

// mayTell reports whether one more line may be logged of what a cluster can change as often as it likes. The caller holds the lock.
func (r *reporter) mayTell(cluster string) bool {
	if r.paces[cluster] == nil {
		r.paces[cluster] = rate.NewLimiter(rate.Every(clusterEvery), 1)
	}
	return r.paces[cluster].AllowN(r.clock.Now(), 1)
}

// drops counts what was left out of each cluster's records of a service, and logs it, once until that changes, at the pace of the cluster. The
// ServiceImport's condition Complete says it for as long as it is so.
func (r *reporter) drops(ctx context.Context, key types.NamespacedName, drops []merge.Drop) {
	of := map[string][]merge.Drop{}
	for _, d := range drops {
		of[d.Cluster] = append(of[d.Cluster], d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rep, now := r.get(key), make(map[string]uint64, len(of))
	for _, cluster := range slices.Sorted(maps.Keys(of)) {
		hash := fnv.New64a()
		_, _ = fmt.Fprintln(hash, of[cluster]) // a hash never fails
		if now[cluster] = hash.Sum64(); rep.drops[cluster] == now[cluster] {
			continue
		}
		count := 0
		for _, d := range of[cluster] {
			count += d.Values.Count
		}
		droppedCounter.WithLabelValues(cluster).Add(float64(count))
		if r.mayTell(cluster) {
			logf.FromContext(ctx).Info("Left out parts of exported records that can't be imported", "exporter", cluster, "count", count, "first", of[cluster][0].String())
		}
	}
	rep.drops = now
}
