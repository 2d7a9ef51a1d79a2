package exporter

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

const (
	// withdrawnFor is how long a record says that its service isn't exported any more: longer than an importer that misses it stays away, after
	// which the absence of the record counts (rule C41 of docs/spec/control-plane.md).
	withdrawnFor = 24 * time.Hour
	// mostWithdrawn is how many such records may stay. The hub's quota has room for them (hub.MaxWithdrawn).
	mostWithdrawn = 1000
	// expireEvery is how often they are looked for.
	expireEvery = time.Minute
)

// expire deletes records that have been withdrawn for long, again and again until ctx ends.
func (r *reconciler) expire(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.pass.isDone() && r.synced() {
			r.expireOnce(ctx)
		}
	}, expireEvery)
	return nil
}

func (r *reconciler) expireOnce(ctx context.Context) {
	services, _ := r.onHub.OwnRecords()
	var err error
	for _, s := range expired(services, r.now()) {
		r.dropped.Store(keyOf(s), nil)                                               // else it would be written again
		as := client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion} // it may be exported again
		if err = client.IgnoreNotFound(r.hub.Delete(ctx, s.DeepCopy(), as)); err != nil {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).V(1).Info("Can't delete a record that was withdrawn long ago, trying again in a minute", "reason", err.Error())
	}
}

// expired returns the withdrawn records that are older than a day, and the oldest beyond those that may stay.
func expired(all []*clustersetv1alpha1.ExportedService, now time.Time) []*clustersetv1alpha1.ExportedService {
	withdrawn := slices.DeleteFunc(slices.Clone(all), (*clustersetv1alpha1.ExportedService).Exports)
	slices.SortFunc(withdrawn, func(a, b *clustersetv1alpha1.ExportedService) int {
		return cmp.Compare(a.Spec.Revision, b.Spec.Revision)
	})
	day := now.Add(-withdrawnFor).UnixMilli()
	old, _ := slices.BinarySearchFunc(withdrawn, day, func(s *clustersetv1alpha1.ExportedService, day int64) int { return cmp.Compare(s.Spec.Revision, day) })
	return withdrawn[:max(old, len(withdrawn)-mostWithdrawn)]
}
