package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/ownnet"
)

// drains measures how soon a drain of a cluster reaches the ClusterSetIPs of near. West and east export the same services and are equally far
// from near; south and east export one more.
func (b *bench) drains(ctx context.Context) error {
	w := b.newWorld("west", "east", "south")
	for i := range b.sizes.services {
		for _, cluster := range []string{"west", "east"} {
			w.add(cluster, fmt.Sprintf("steered-%d", i), false, 1, 1)
		}
	}
	for _, cluster := range []string{"south", "east"} {
		w.add(cluster, "steered-one", false, 1, 1)
	}
	if err := w.fill(ctx, b); err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "near-1", Labels: map[string]string{corev1.LabelTopologyZone: b.near.Zone}}}
	if err := b.near.Client.Create(ctx, node); err != nil {
		return err
	}
	if err := b.checkAddresses(ctx, w); err != nil {
		return err
	}
	b.say("draining and undraining")
	var one []time.Duration
	for i := range b.sizes.changes {
		took, err := b.drain(ctx, "south", i%2 == 0, 1, discoveryv1.LabelServiceName)
		if err != nil {
			return err
		}
		one = append(one, took...)
	}
	b.percentiles("drain or undrain → behind the ClusterSetIP of one service", one)
	return b.drainAll(ctx, "west", "ClusterSetIPs", discoveryv1.LabelServiceName)
}

// extends measures how soon near's own Services, which it extends to two other clusters alike, follow a drain of the one and the verdict
// that it can't be reached. The others, first and second, are records on the hub, and beacons in this process.
func (b *bench) extends(ctx context.Context) error {
	w := b.newWorld("first", "second")
	if err := b.near.Plane.ApplyContext(ctx, namespaceOf(api.KeyExtend+": "+api.ExtendAllowed)); err != nil {
		return err
	}
	for i := range b.sizes.services {
		service := fmt.Sprintf("extended-%d", i)
		for _, cluster := range w.clusters {
			w.add(cluster, service, false, 1, 1)
		}
		own := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service, Annotations: map[string]string{api.KeyExtend: api.ExtendTrue}},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": service}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}
		if err := b.near.Client.Create(ctx, own); err != nil {
			return err
		}
	}
	if err := w.fill(ctx, b); err != nil {
		return err
	}
	if err := b.awaitMetrics(ctx, b.near, "they are extended", func(s fleet.Samples) bool {
		return s.Sum("clusterset_importer_extended_services", "state", "extended") >= float64(b.sizes.services)
	}); err != nil {
		return err
	}
	if err := b.drainAll(ctx, "first", "own names", api.LabelExtends); err != nil {
		return err
	}
	first, err := b.beacons(ctx)
	if err != nil {
		return err
	}
	if err := b.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := b.awaitMetrics(ctx, b.near, "it reaches both", func(s fleet.Samples) bool {
		return s.Sum("clusterset_prober_member_reachable", "reachable", "True") >= 2
	}); err != nil {
		return err
	}
	took, err := b.follow(ctx, "first", true, b.sizes.services, api.LabelExtends, first.Close)
	if err != nil {
		return err
	}
	b.percentiles(fmt.Sprintf("first can't be reached any more (the verdict alone takes 4 s or more) → behind the own names of %d services", len(took)), took)
	return nil
}

// beacons gives first and second beacons, and returns the first's.
func (b *bench) beacons(ctx context.Context) (first net.Listener, err error) {
	for _, cluster := range []string{"second", "first"} {
		first, err = (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(ownnet.Address, 0).String())
		if err != nil {
			return nil, err
		}
		go func(l net.Listener) { _ = beacon.Serve(ctx, l, cluster, "bench") }(first) // until we end
		report := &clustersetv1alpha1.MemberReport{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName},
			Spec:       clustersetv1alpha1.MemberReportSpec{Beacons: []string{first.Addr().String()}},
		}
		if err := b.hub.Client.Create(ctx, report); err != nil {
			return nil, err
		}
	}
	return first, nil
}

// drainAll drains and undrains a cluster on which all services of the part depend.
func (b *bench) drainAll(ctx context.Context, cluster, behind, label string) error {
	for _, word := range []string{"drain", "undrain"} {
		took, err := b.drain(ctx, cluster, word == "drain", b.sizes.services, label)
		if err != nil {
			return err
		}
		b.percentiles(fmt.Sprintf("%s → behind the %s of %d services", word, behind, b.sizes.services), took)
	}
	return nil
}

// drain drains or undrains a cluster, and returns how long each service took to follow.
func (b *bench) drain(ctx context.Context, cluster string, drain bool, services int, label string) ([]time.Duration, error) {
	return b.follow(ctx, cluster, drain, services, label, func() error {
		mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
		return b.hub.Client.Patch(ctx, mc, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"drain":%t}}`, drain)))
	})
}

// follow does something after which services of near use a cluster no more, or again. It watches those of near's EndpointSlices that have the
// label, and returns for each service how long it took until the kube-proxies in near's zone would follow, by kube-proxy's rules
// (docs/kube-proxy.md).
func (b *bench) follow(ctx context.Context, cluster string, away bool, services int, label string, do func() error) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	if err := b.settled(ctx); err != nil {
		return nil, err
	}
	watching, err := client.NewWithWatch(b.near.Plane.Config(), client.Options{Scheme: b.near.Client.Scheme()})
	if err != nil {
		return nil, err
	}
	var list discoveryv1.EndpointSliceList
	ours := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{api.LabelManagedBy: api.ManagedByImporter}, client.HasLabels{label}}
	if err := watching.List(ctx, &list, ours...); err != nil {
		return nil, err
	}
	known := byService{}
	for i := range list.Items {
		known.add(&list.Items[i])
	}
	events, err := watching.Watch(ctx, &list, append(ours, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})...)
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	began := time.Now()
	if err := do(); err != nil {
		return nil, err
	}
	done := map[string]bool{}
	var all []time.Duration
	for len(done) < services {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d services follow: %w", len(done), services, ctx.Err())
		case e, ok := <-events.ResultChan():
			s, isSlice := e.Object.(*discoveryv1.EndpointSlice)
			if !ok || !isSlice {
				return nil, fmt.Errorf("the watch of EndpointSlices ended with %q", e.Type)
			}
			service := known.add(s)
			if e.Type == watch.Deleted {
				delete(known[service], s.Name)
			}
			if service != "" && !done[service] && slices.Contains(used(known[service], b.near.Zone), cluster) != away {
				done[service] = true
				all = append(all, time.Since(began))
			}
		}
	}
	return all, nil
}

// byService has EndpointSlices by service and name.
type byService map[string]map[string]discoveryv1.EndpointSlice

func (b byService) add(s *discoveryv1.EndpointSlice) (service string) {
	if len(s.OwnerReferences) > 0 {
		service = s.OwnerReferences[0].Name
	}
	if b[service] == nil {
		b[service] = map[string]discoveryv1.EndpointSlice{}
	}
	b[service][s.Name] = *s
	return service
}

// used returns the clusters whose endpoints a kube-proxy in the zone chooses from. It assumes that all endpoints are ready and have the
// same port and IP family.
func used(of map[string]discoveryv1.EndpointSlice, zone string) (clusters []string) {
	var all, hinted []string
	every := true
	for _, s := range of {
		if s.Labels[discoveryv1.LabelServiceName] == "" {
			continue
		}
		for _, e := range s.Endpoints {
			cluster := s.Labels[api.LabelSourceCluster]
			all = append(all, cluster)
			if e.Hints == nil {
				every = false
			} else if slices.Contains(e.Hints.ForZones, discoveryv1.ForZone{Name: zone}) {
				hinted = append(hinted, cluster)
			}
		}
	}
	if every && len(hinted) > 0 {
		return hinted
	}
	return all
}

// settled waits until near's agent has nothing left to do.
func (b *bench) settled(ctx context.Context) error {
	return b.awaitMetrics(ctx, b.near, "it has nothing left to do", func(fleet.Samples) bool { return true })
}
