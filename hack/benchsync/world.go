package main

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// world is what all clusters except near export. A cluster shares half of its services with some others; the rest are its own. Every second
// service is headless, and its endpoints have names, as in a StatefulSet.
type world struct {
	sizes
	hub      client.Client
	slices   []*exportedSlice
	headless []*exportedSlice
	services map[string]bool
	last     atomic.Int64 // number of the last address handed out
}

// exportedSlice is the only ExportedEndpoints of a cluster's service.
type exportedSlice struct {
	cluster, service string
	headless         bool
	addresses        []string
	version          string // its resource version
	changes          int
}

func newWorld(s sizes, hub client.Client) *world {
	w := &world{sizes: s, hub: hub, services: map[string]bool{}}
	for service := range s.services {
		for cluster := range s.clusters - 1 {
			e := &exportedSlice{cluster: other(cluster), service: fmt.Sprintf("own-%d-%d", cluster, service), headless: service%2 == 1}
			if service < s.services/2 {
				e.service = fmt.Sprintf("shared-%d-%d", cluster/s.sharing, service)
			}
			for range s.endpoints {
				e.addresses = append(e.addresses, w.address())
			}
			w.services[e.service] = true
			w.slices = append(w.slices, e)
			if e.headless {
				w.headless = append(w.headless, e)
			}
		}
	}
	return w
}

// address returns an address that no endpoint has had.
func (w *world) address() string {
	n := 100<<16 + w.last.Add(1)
	return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// addresses returns the current addresses of all endpoints.
func (w *world) addresses() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range w.slices {
			for _, a := range e.addresses {
				if !yield(a) {
					return
				}
			}
		}
	}
}

func pod(n int) string { return fmt.Sprintf("pod-%d", n) }

// name returns the DNS name of the n'th endpoint of a headless service (KEP-1645, "DNS").
func (e *exportedSlice) name(n int) string {
	return fmt.Sprintf("%s.%s.%s.%s.svc.clusterset.local.", pod(n), e.cluster, e.service, namespace)
}

func (e *exportedSlice) record() *clustersetv1alpha1.ExportedEndpoints {
	var endpoints []discoveryv1.Endpoint
	for n, a := range e.addresses {
		endpoint := discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
		if e.headless {
			endpoint.Hostname = new(pod(n))
		}
		endpoints = append(endpoints, endpoint)
	}
	o := endpointsRecord(e.cluster, e.service, e.service+"-abcde", endpoints)
	o.ResourceVersion = e.version
	return o
}

// fill joins the clusters and writes their records with the calls that an exporter makes.
func (w *world) fill(ctx context.Context, b *bench) error {
	var clusters []string
	for i := range w.clusters - 1 {
		clusters = append(clusters, other(i))
	}
	if err := b.join(ctx, clusters...); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, e := range w.slices {
		group.Go(func() error {
			var ips []string
			if !e.headless {
				ips = []string{fmt.Sprintf("10.99.%d.%d", i/250%250, 1+i%250)}
			}
			if err := w.create(ctx, serviceRecord(e.cluster, e.service, time.Now(), ips...)); err != nil {
				return err
			}
			o := e.record()
			err := w.create(ctx, o)
			e.version = o.ResourceVersion
			return err
		})
	}
	return group.Wait()
}

// create creates a record and, like an exporter, retries if the hub is too busy: the hub's API server gives up evaluating a quota after ten
// seconds.
func (w *world) create(ctx context.Context, o client.Object) error {
	busy := func(err error) bool {
		return apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
	}
	return retry.OnError(wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Jitter: 0.5}, busy, func() error {
		return w.hub.Create(ctx, o, client.FieldOwner(api.FieldManagerExporter))
	})
}

// replace gives endpoints of a slice new addresses in one write, and returns which endpoints those are.
func (w *world) replace(ctx context.Context, e *exportedSlice, all bool) (changed []int, err error) {
	changed = []int{e.changes % len(e.addresses)}
	if all {
		changed = nil
		for n := range e.addresses {
			changed = append(changed, n)
		}
	}
	for _, n := range changed {
		e.addresses[n] = w.address()
	}
	o := e.record()
	err = w.hub.Update(ctx, o, client.FieldOwner(api.FieldManagerExporter))
	e.version, e.changes = o.ResourceVersion, e.changes+1
	return changed, err
}

// beatEvery is how often an agent renews its Lease by default.
const beatEvery = 10 * time.Second

// beating calls do while it sends every simulated cluster's heartbeats.
func (w *world) beating(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.beat(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-ended }()
	err := do(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// beat sends the heartbeats of every simulated cluster until ctx ends, spread over time as those of many clusters are.
func (w *world) beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery / time.Duration(w.clusters-1))
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % (w.clusters - 1) {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		lease := coordinationv1ac.Lease(api.HeartbeatLease, api.MemberNamespace(other(i))).
			WithLabels(map[string]string{api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: other(i)}).
			WithSpec(coordinationv1ac.LeaseSpec().WithHolderIdentity(other(i)).WithLeaseDurationSeconds(int32(4 * beatEvery / time.Second)).
				WithRenewTime(metav1.NowMicro()))
		if err := w.hub.Apply(ctx, lease, client.FieldOwner(api.FieldManagerExporter), client.ForceOwnership); err != nil && ctx.Err() == nil {
			return fmt.Errorf("heartbeat of %s: %w", other(i), err)
		}
	}
}

// ready reports whether the hub has heard every cluster except the one named, which isn't simulated.
func (w *world) ready(ctx context.Context, but string) (bool, error) {
	var members clustersetv1alpha1.MemberClusterList
	if err := w.hub.List(ctx, &members); err != nil {
		return false, err
	}
	n := 0
	for i := range members.Items {
		if m := &members.Items[i]; m.Name != but && m.Status.Phase == clustersetv1alpha1.MemberReady {
			n++
		}
	}
	return n == w.clusters-1, nil
}
