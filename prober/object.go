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
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/verdict"
)

const (
	// maxAge is how long a Reachability counts. It is written every stampEvery if nothing changes, and explainEvery if only reasons do (D51):
	// where addresses fail in different ways, these change with every dial.
	maxAge       = 10 * time.Minute
	stampEvery   = 3 * time.Minute
	explainEvery = time.Minute
	// writeRetry is when a write that failed is repeated.
	writeRetry = 2 * time.Second
	// maxClusters is how many the object has room for.
	maxClusters = 1024
)

var key = client.ObjectKey{Name: clustersetv1alpha1.ReachabilityName}

// record is what is known of the stored object.
type record struct {
	has     map[string]verdict.Verdict // what was last to be written
	behind  bool                       // whether verdicts have changed since
	at      time.Time                  // when that was
	writing bool
	failure string // why it wasn't written; empty if it was
}

// due reports whether verdicts should be written.
func (r *record) due(all map[string]verdict.Verdict, now time.Time) bool {
	age := now.Sub(r.at)
	decided := func(v, o verdict.Verdict) bool { v.Reason = o.Reason; return v == o }
	switch {
	case r.writing:
		return false
	case r.failure != "":
		return age >= writeRetry
	case r.behind && !maps.EqualFunc(r.has, all, decided):
		return true
	case r.behind && !maps.Equal(r.has, all):
		return age >= explainEvery
	}
	return age >= stampEvery
}

// write writes verdicts if that is due.
func (p *Prober) write(ctx context.Context, all map[string]verdict.Verdict, now time.Time) {
	r := &p.record
	if !r.due(all, now) {
		return
	}
	r.writing, r.has, r.behind, r.at = true, all, false, now
	clusters := p.clusters(all)
	p.start(ctx, func() func() {
		err := p.store(ctx, clusters)
		return func() {
			failure := ""
			if err != nil {
				failure = err.Error()
			}
			if failure != "" && failure != r.failure {
				logf.FromContext(ctx).Info("Can't write which clusters can be reached; names don't follow it", "reason", failure)
			}
			r.writing, r.failure = false, failure
		}
	})
}

func (p *Prober) store(ctx context.Context, clusters []clustersetv1alpha1.ClusterReachability) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o := &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, p.options.Live, o, func() error {
		metav1.SetMetaDataLabel(&o.ObjectMeta, api.LabelManagedBy, api.ManagedByImporter)
		o.Cluster, o.Stamp, o.Clusters = p.options.Cluster, metav1.NowMicro(), clusters
		return nil
	})
	if err != nil {
		return fmt.Errorf("write Reachability %s: %w", key.Name, err)
	}
	return nil
}

// clusters returns verdicts as they are stored.
func (p *Prober) clusters(verdicts map[string]verdict.Verdict) []clustersetv1alpha1.ClusterReachability {
	all := make([]clustersetv1alpha1.ClusterReachability, 0, len(verdicts))
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[name]
		c := clustersetv1alpha1.ClusterReachability{
			Name: name, Reachable: metav1.ConditionStatus(v.Reachable.String()), Reason: string(v.Reason), Since: metav1.NewTime(v.Since),
			Reached: v.Reached, RoundTripMicroseconds: p.machine.RoundTrip(name).Microseconds(),
		}
		if e := p.peers[name]; e != nil {
			beacons, ignored := e.dialled()
			c.Beacons, c.IgnoredBeacons = beacons, int32(ignored) //nolint:gosec // the report has room for eight
		}
		all = append(all, c)
	}
	return all[:min(len(all), maxClusters)]
}

// load begins with the verdicts of the agent that ran before, and reports whether that is done. Those that are too old only say which
// clusters were reached (D51). Their beacons were dialled, so they may be again until it is known which those are.
func (p *Prober) load(ctx context.Context) bool {
	var stored *clustersetv1alpha1.Reachability
	err := wait.PollUntilContextCancel(ctx, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		if stored, err = p.get(ctx); err != nil {
			logf.FromContext(ctx).Info("Waiting for this cluster's API server to say what could be reached before", "reason", err.Error())
		}
		return err == nil, nil
	})
	if err != nil {
		return false
	}
	now := time.Now()
	fresh := now.Sub(stored.Stamp.Time).Abs() < maxAge
	reachable := map[metav1.ConditionStatus]verdict.Reachable{metav1.ConditionTrue: verdict.True, metav1.ConditionFalse: verdict.False}
	for _, c := range stored.Clusters {
		v := verdict.Verdict{Reachable: reachable[c.Reachable], Reason: verdict.Reason(c.Reason), Since: c.Since.Time, Reached: c.Reached}
		if !fresh {
			v = verdict.Verdict{Reason: verdict.NeverReached, Since: now, Reached: c.Reached}
		}
		p.machine.Know(c.Name, v, now)
		e := &peer{}
		e.stated, _ = beacon.Parse(c.Beacons)
		p.peers[c.Name] = e
	}
	all, _ := p.machine.Decide(now)
	p.publish(ctx, all)
	close(p.loaded)
	return true
}

// get returns the stored object. It is empty if there is none, or if it can't be stored here.
func (p *Prober) get(ctx context.Context) (*clustersetv1alpha1.Reachability, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o := &clustersetv1alpha1.Reachability{}
	err := p.options.Live.Get(ctx, key, o)
	none := apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsForbidden(err)
	if none || err == nil && o.Cluster != p.options.Cluster { // the cluster had another name then
		return &clustersetv1alpha1.Reachability{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Reachability %s: %w", key.Name, err)
	}
	return o, nil
}
