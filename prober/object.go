package prober

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/verdict"
)

const (
	// maxAge is how long a Reachability counts, and stampEvery how often it is written if nothing changes (D51).
	maxAge     = 10 * time.Minute
	stampEvery = 3 * time.Minute
	// writeRetry is when a write that failed is repeated.
	writeRetry = 2 * time.Second
	// maxClusters is how many the object has room for.
	maxClusters = 1024
	// maxIgnored is up to where beacons that aren't dialled are counted.
	maxIgnored = 1000
)

var key = client.ObjectKey{Name: clustersetv1alpha1.ReachabilityName}

// read returns the stored object. It is empty if there is none, or if it can't be stored here.
func (p *Prober) read(ctx context.Context) (*clustersetv1alpha1.Reachability, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o := &clustersetv1alpha1.Reachability{}
	err := p.options.Live.Get(ctx, key, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
		return &clustersetv1alpha1.Reachability{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Reachability %s: %w", key.Name, err)
	}
	if o.Cluster != p.options.Cluster { // the cluster has another name now
		return &clustersetv1alpha1.Reachability{}, nil
	}
	return o, nil
}

// write stores the verdicts whenever it is told to, and every few minutes.
func (p *Prober) write(ctx context.Context, changed <-chan struct{}) {
	said := ""
	stamp := time.NewTimer(stampEvery)
	defer stamp.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-stamp.C:
		}
		stamp.Reset(stampEvery)
		err := p.store(ctx)
		if err == nil {
			said = ""
			continue
		}
		stamp.Reset(writeRetry)
		if reason := err.Error(); reason != said && ctx.Err() == nil {
			said = reason
			logf.FromContext(ctx).Info("Can't write which clusters can be reached; names don't follow it", "reason", reason)
		}
	}
}

func (p *Prober) store(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o := &clustersetv1alpha1.Reachability{}
	err := p.options.Live.Get(ctx, key, o)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Reachability %s: %w", key.Name, err)
	}
	missing := err != nil
	o.Name, o.Cluster, o.Stamp = key.Name, p.options.Cluster, metav1.NowMicro()
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[api.LabelManagedBy] = api.ManagedByImporter
	o.Clusters = p.clusters()
	if missing {
		err = p.options.Writer.Create(ctx, o)
	} else {
		err = p.options.Writer.Update(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("write Reachability %s: %w", key.Name, err)
	}
	return nil
}

// clusters returns the verdicts as they are stored.
func (p *Prober) clusters() []clustersetv1alpha1.ClusterReachability {
	verdicts := *p.verdicts.Load()
	all := make([]clustersetv1alpha1.ClusterReachability, 0, len(verdicts))
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[name]
		beacons, ignored := p.book.stated(name)
		all = append(all, clustersetv1alpha1.ClusterReachability{
			Name: name, Reachable: metav1.ConditionStatus(v.Reachable.String()), Reason: string(v.Reason), Since: metav1.NewTime(v.Since),
			Reached: v.Reached, RoundTripMicroseconds: v.RoundTrip.Microseconds(), Beacons: beacons,
			IgnoredBeacons: int32(min(ignored, maxIgnored)), //nolint:gosec // it is bounded
		})
	}
	return all[:min(len(all), maxClusters)]
}

func reachableOf(s metav1.ConditionStatus) verdict.Reachable {
	switch s {
	case metav1.ConditionTrue:
		return verdict.True
	case metav1.ConditionFalse:
		return verdict.False
	}
	return verdict.Unknown
}
