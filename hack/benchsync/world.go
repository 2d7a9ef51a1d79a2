package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/record"
)

// world is what clusters without an API server export: records on the hub, written with the calls that an exporter makes.
type world struct {
	hub      client.Client
	clusters []string
	services map[string]bool // by name
	slices   []*exportedSlice
	headless []*exportedSlice
	last     atomic.Int64 // for addresses
}

// exportedSlice is one of the ExportedEndpoints of a cluster's service.
type exportedSlice struct {
	cluster, service string
	number           int // 0 is the first of the service
	headless         bool
	addresses        []string
	version          string // its resource version
	changes          int
}

// filledHub returns a world of the part's sizes that is on the hub. A cluster shares half of its services with some others; the rest are its own.
// Every second service is headless, and its endpoints have names, as in a StatefulSet.
func (b *bench) filledHub(ctx context.Context) (*world, error) {
	w, s := &world{hub: b.hub.Client, services: map[string]bool{}}, b.sizes
	for i := range s.clusters - 1 {
		w.clusters = append(w.clusters, other(i))
	}
	for n := range s.services {
		for i, cluster := range w.clusters {
			service := fmt.Sprintf("own-%d-%d", i, n)
			if n < s.services/2 {
				service = fmt.Sprintf("shared-%d-%d", i/s.sharing, n)
			}
			w.services[service] = true
			for number := range s.slices {
				e := &exportedSlice{cluster: cluster, service: service, number: number, headless: n%2 == 1}
				for range s.endpoints {
					e.addresses = append(e.addresses, w.address())
				}
				w.slices = append(w.slices, e)
				if e.headless {
					w.headless = append(w.headless, e)
				}
			}
		}
	}
	b.say("filling the hub: %s", w)
	err := w.fill(ctx, b)
	return w, err
}

func other(i int) string { return fmt.Sprintf("other-%d", i) }

// address returns one that no endpoint has had.
func (w *world) address() string {
	n := 100<<16 + w.last.Add(1)
	return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// String describes the world.
func (w *world) String() string {
	return fmt.Sprintf("%d services of %d clusters, %d slices of %d endpoints", len(w.services), len(w.clusters), len(w.slices), len(w.slices[0].addresses))
}

// name returns the DNS name of the n'th endpoint of a headless service (KEP-1645, "DNS").
func (e *exportedSlice) name(n int) string {
	return fmt.Sprintf("%s.%s.%s.%s.svc.clusterset.local.", e.pod(n), e.cluster, e.service, namespace)
}

func (e *exportedSlice) pod(n int) string { return fmt.Sprintf("pod-%d", e.number*len(e.addresses)+n) }

// serviceRecord returns the record of a cluster's service, which is headless if it has no IP.
func (e *exportedSlice) serviceRecord(ips ...string) *clustersetv1alpha1.ExportedService {
	s := &clustersetv1alpha1.ExportedService{
		ObjectMeta: record.Meta(e.cluster, e.key(), api.ExportedServiceName(namespace, e.service)),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: namespace, ServiceName: e.service, ExportedAt: metav1.Now(),
			Type: mcsv1beta1.ClusterSetIP, ClusterIPs: ips, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	if e.headless {
		s.Spec.Type = mcsv1beta1.Headless
	}
	return s
}

func (e *exportedSlice) key() types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: e.service}
}

// record returns the record that a cluster's exporter makes of the slice.
func (e *exportedSlice) record() *clustersetv1alpha1.ExportedEndpoints {
	s := discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("%s-abcd%d", e.service, e.number)},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for n, a := range e.addresses {
		endpoint := discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
		if e.headless {
			endpoint.Hostname = new(e.pod(n))
		}
		s.Endpoints = append(s.Endpoints, endpoint)
	}
	o := &record.Endpoints(e.cluster, e.key(), s)[0]
	o.ResourceVersion = e.version
	return o
}

// fill joins the clusters, each with its own zone, and writes their records.
func (w *world) fill(ctx context.Context, b *bench) error {
	err := inParallel(ctx, w.clusters, func(ctx context.Context, _ int, cluster string) error {
		_, err := join.Join(ctx, join.At(b.hub.Plane.Config()), join.Options{Cluster: cluster, Spec: clustersetv1alpha1.MemberClusterSpec{Zone: cluster}})
		return err
	})
	if err != nil {
		return err
	}
	return inParallel(ctx, w.slices, func(ctx context.Context, i int, e *exportedSlice) error {
		var ips []string
		if !e.headless {
			ips = []string{fmt.Sprintf("10.99.%d.%d", i/250%250, 1+i%250)}
		}
		if e.number == 0 {
			if err := w.create(ctx, e.serviceRecord(ips...)); err != nil {
				return err
			}
		}
		o := e.record()
		err := w.create(ctx, o)
		e.version = o.ResourceVersion
		return err
	})
}

// inParallel calls do for each of all, sixteen at a time.
func inParallel[T any](ctx context.Context, all []T, do func(context.Context, int, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, of := range all {
		group.Go(func() error { return do(ctx, i, of) })
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

// beating calls do while it sends every cluster's heartbeats.
func (w *world) beating(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.beat(ctx) })
	group.Go(func() error { defer stop(); return do(ctx) })
	return group.Wait()
}

// beat sends the heartbeats of every cluster until ctx ends, spread over time as those of many clusters are. Each is an agent's: an update of
// the Lease as it was written last.
func (w *world) beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery / time.Duration(len(w.clusters)))
	defer tick.Stop()
	versions := make([]string, len(w.clusters))
	for i := 0; ; i = (i + 1) % len(w.clusters) {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		cluster, now := w.clusters[i], metav1.NowMicro()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease, ResourceVersion: versions[i],
			Labels: map[string]string{api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: cluster},
		}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &cluster, LeaseDurationSeconds: new(int32(4 * beatEvery / time.Second)), RenewTime: &now,
		}}
		if err := w.hub.Update(ctx, lease, client.FieldOwner(api.FieldManagerExporter)); err != nil && ctx.Err() == nil {
			return fmt.Errorf("heartbeat of %s: %w", cluster, err)
		}
		versions[i] = lease.ResourceVersion
	}
}

// heard waits until the hub has heard every cluster of the world.
func (b *bench) heard(ctx context.Context, w *world) error {
	return b.await(ctx, b.hub.Process, "the hub has heard all clusters", func() (bool, error) {
		var members clustersetv1alpha1.MemberClusterList
		err := w.hub.List(ctx, &members)
		n := 0
		for i := range members.Items {
			if m := &members.Items[i]; m.Name != b.near.Name && m.Status.Phase == clustersetv1alpha1.MemberReady {
				n++
			}
		}
		return n == len(w.clusters), err
	})
}
