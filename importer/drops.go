package importer

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/text"
)

const (
	// clusterAtOnce is how many lines a cluster may cause at any speed, one for each service of its first import for example, and clusterEvery how
	// often one is after that.
	clusterAtOnce, clusterEvery = 1000, time.Minute
	// dropsAtOnce and dropsEvery are the same for what is left out of one service's records.
	dropsAtOnce, dropsEvery = 3, 16 * time.Minute
)

// mayTell reports whether one more line may be logged of what a cluster can change as often as it likes. The caller holds the lock. Rule C81 of
// docs/spec/control-plane.md.
func (r *reporter) mayTell(cluster string) bool {
	if r.paces[cluster] == nil {
		r.paces[cluster] = rate.NewLimiter(rate.Every(clusterEvery), clusterAtOnce)
	}
	return r.paces[cluster].AllowN(r.clock.Now(), 1)
}

// dropped is what was left out of one cluster's records of a service.
type dropped struct {
	counted, told uint64 // hashes
	pace          *rate.Limiter
}

// drops counts what was left out of a service's records, and reports it, once until that changes, at the pace of the clusters that it is of. It
// returns when to look again at what it leaves. regarding is the ServiceImport and may be nil.
func (r *reporter) drops(ctx context.Context, key types.NamespacedName, regarding client.Object, drops []merge.Drop) (again time.Duration) {
	of := map[string][]merge.Drop{}
	for _, d := range drops {
		of[d.Cluster] = append(of[d.Cluster], d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.get(key)
	for cluster, was := range rep.drops {
		if of[cluster] == nil {
			was.counted, was.told = 0, 0
		}
	}
	var tell []merge.Drop
	for _, cluster := range slices.Sorted(maps.Keys(of)) {
		was, h := rep.dropped(cluster), fnv.New64a()
		_, _ = fmt.Fprintln(h, of[cluster]) // a hash never fails
		if now := h.Sum64(); was.counted != now {
			was.counted = now
			droppedCounter.WithLabelValues(cluster).Add(float64(countOf(of[cluster])))
		}
		switch {
		case was.told == was.counted:
		case was.pace.AllowN(r.clock.Now(), 1) && r.mayTell(cluster):
			was.told = was.counted
			tell = append(tell, of[cluster]...)
		default:
			again = dropsEvery
		}
	}
	if len(tell) == 0 {
		return again
	}
	count, first := countOf(tell), tell[0].String()
	logf.FromContext(ctx).Info("Left out parts of exported records that can't be imported", "count", count, "first", first)
	if regarding != nil {
		r.events.Eventf(regarding, nil, corev1.EventTypeWarning, reasonInvalidExport, "Import",
			"%s of the exported records can't be imported and were left out; the first: %s", desired.Counted(count, "part"), text.Truncate(first, maxNote))
	}
	return again
}

func (rep *reported) dropped(cluster string) *dropped {
	if rep.drops == nil {
		rep.drops = map[string]*dropped{}
	}
	if rep.drops[cluster] == nil {
		rep.drops[cluster] = &dropped{pace: rate.NewLimiter(rate.Every(dropsEvery), dropsAtOnce)}
	}
	return rep.drops[cluster]
}

func countOf(drops []merge.Drop) (count int) {
	for _, d := range drops {
		count += d.Values.Count
	}
	return count
}
