package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// drains measures how soon a change that an operator makes to a MemberCluster reaches the ClusterSetIPs of near and of every member, and
// counts the writes that other events cause in near.
//
// West and east export the same services and are equally far from near and far. South and east export one more service. West, east and
// south are only records on the hub. The members that import are near and, at the end, far too.
func (b *bench) drains(ctx context.Context) error {
	if err := b.fillForDrains(ctx); err != nil {
		return err
	}
	b.say("draining and undraining west, with %d services", b.drained)
	for _, drain := range []bool{true, false} {
		if err := b.drainOf(ctx, "west", drain, fmt.Sprintf("%d services", b.drained), b.drained); err != nil {
			return err
		}
	}
	b.say("draining and undraining south %d times, with one service", b.changes/10)
	if err := b.drainsOfOne(ctx, "drain or undrain → behind the ClusterSetIP of one service", b.near); err != nil {
		return err
	}
	for _, event := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"a hundred heartbeats of a node", b.nodeHeartbeats},
		{"a cluster's weight changes, which kube-proxy can't know", func(ctx context.Context) error {
			return b.patchMember(ctx, "west", `{"spec":{"weight":7}}`)
		}},
		{"the hub notes a heartbeat of another cluster", func(ctx context.Context) error {
			return b.hub.Client.Status().Patch(ctx, memberCluster("west"), merge(`{"status":{"phase":"Ready","lastHeartbeatTime":"2026-01-01T00:00:00Z"}}`))
		}},
	} {
		if err := b.settled(ctx); err != nil {
			return err
		}
		from := b.near.audit.size()
		if err := event.do(ctx); err != nil {
			return err
		}
		if err := b.settled(ctx); err != nil {
			return err
		}
		n, _, what, err := b.near.audit.writes(from, agentHere)
		if err != nil {
			return err
		}
		b.row("writes in the member: "+event.what, "", "", "", strings.TrimRight(fmt.Sprintf("%d %s", n, what), " "))
	}
	return b.drainsEverywhere(ctx)
}

// drainsOfOne repeatedly drains and undrains south, the cluster that exports one service.
func (b *bench) drainsOfOne(ctx context.Context, what string, members ...*member) error {
	var one []time.Duration
	for i := range b.changes / 10 * 2 {
		took, err := b.drainSteers(ctx, "south", i%2 == 0, 1, members...)
		if err != nil {
			return err
		}
		one = append(one, took...)
	}
	if len(one) > 0 {
		b.percentiles(what, one)
	}
	return nil
}

// drainsEverywhere makes far import too, and repeats the measurements until the last member follows.
func (b *bench) drainsEverywhere(ctx context.Context) error {
	b.say("the same until every member follows: far imports too")
	b.far.AgentFlags = nil
	if err := b.addNode(ctx, b.far); err != nil {
		return err
	}
	if err := b.far.restartAgent(ctx); err != nil {
		return err
	}
	if err := b.importedForDrains(ctx, b.far); err != nil {
		return err
	}
	if err := b.drainsOfOne(ctx, "drain or undrain → behind the ClusterSetIPs of one service, in every member", b.near, b.far); err != nil {
		return err
	}
	for _, drain := range []bool{true, false} {
		took, err := b.drainSteers(ctx, "west", drain, b.drained, b.near, b.far)
		if err != nil {
			return err
		}
		word := map[bool]string{true: "drain", false: "undrain"}[drain]
		b.percentiles(fmt.Sprintf("%s → behind the ClusterSetIPs of %d services, in every member", word, b.drained), took)
	}
	return nil
}

// drainOf drains or undrains a cluster, and adds a row for the time and one for the cost.
func (b *bench) drainOf(ctx context.Context, cluster string, drain bool, what string, services int) error {
	word := "drain"
	if !drain {
		word = "undrain"
	}
	from, cpu, all := b.near.audit.size(), cpuOf(b.near.Agent.PID()), cpuOfAll()
	took, err := b.drainSteers(ctx, cluster, drain, services, b.near)
	if err != nil {
		return err
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	cpu, all = cpuOf(b.near.Agent.PID())-cpu, cpuOfAll()-all
	n, _, wrote, err := b.near.audit.writes(from, agentHere)
	if err != nil {
		return err
	}
	if n > services+10 { // one for each slice of the cluster, and a few for the copy of its MemberCluster
		return fmt.Errorf("a %s of %d slices took %d writes: %s", word, services, n, wrote)
	}
	b.percentiles(fmt.Sprintf("%s → behind the ClusterSetIPs of %s", word, what), took)
	b.row(fmt.Sprintf("cost of that %s", word), "", "", "", fmt.Sprintf("%d writes (%s); processor time %s, the agent's %s; load average %s",
		n, wrote, round(all), round(cpu), loadAverage()))
	return nil
}

// fillForDrains joins west, east and south, writes the records that their exporters would write, and gives near a node in its zone.
func (b *bench) fillForDrains(ctx context.Context) error {
	b.say("filling the hub with %d services of both west and east, and one of south", b.drained)
	if err := b.join(ctx, "west", "east", "south"); err != nil {
		return err
	}
	if err := b.addNode(ctx, b.near); err != nil {
		return err
	}
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(16)
	export := func(cluster, service string, second, n int) {
		group.Go(func() error {
			ip, pod := fmt.Sprintf("10.%d.%d.%d", 100+second, n/250, 1+n%250), fmt.Sprintf("10.%d.%d.%d", 110+second, n/250, 1+n%250)
			for _, o := range recordsOf(cluster, service, ip, pod) {
				if err := b.hub.Client.Create(inGroup, o); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range b.drained {
		export("west", fmt.Sprintf("steered-%d", i), 1, i)
		export("east", fmt.Sprintf("steered-%d", i), 2, i)
	}
	export("south", "steered-one", 3, 0)
	export("east", "steered-one", 4, 0)
	if err := group.Wait(); err != nil {
		return err
	}
	return b.importedForDrains(ctx, b.near)
}

// importedForDrains waits until a member has imported the services.
func (b *bench) importedForDrains(ctx context.Context, of *member) error {
	return b.await(ctx, of.Agent, "they are imported", func() (bool, error) {
		m, err := of.Metrics.Samples(ctx)
		return m.Sum("clusterset_importer_services", "state", "imported") >= float64(b.drained+1) && idle(m), err
	})
}

// addNode gives a member a node in its zone.
func (b *bench) addNode(ctx context.Context, to *member) error {
	return to.Client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: to.Name + "-1", Labels: map[string]string{corev1.LabelTopologyZone: to.Zone}}})
}

// drainSteers drains or undrains a cluster. For each service it returns how long it took until the kube-proxies in the zones of all these
// members would stop using the cluster's endpoints, or use them again, by kube-proxy's rules (docs/kube-proxy.md).
func (b *bench) drainSteers(ctx context.Context, cluster string, drain bool, services int, members ...*member) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	group, inGroup := errgroup.WithContext(ctx)
	began, done := make([]func(time.Time), len(members)), make([]map[string]time.Duration, len(members))
	for i, m := range members {
		await, err := m.steered(inGroup, cluster, drain, services, discoveryv1.LabelServiceName)
		if err != nil {
			return nil, err
		}
		start := make(chan time.Time, 1)
		began[i] = func(t time.Time) { start <- t }
		group.Go(func() (err error) {
			done[i], err = await(<-start)
			return err
		})
	}
	now := time.Now()
	for _, begin := range began {
		begin(now)
	}
	if err := b.patchMember(ctx, cluster, fmt.Sprintf(`{"spec":{"drain":%t}}`, drain)); err != nil {
		cancel()
		_ = group.Wait()
		return nil, err
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var all []time.Duration
	for service, last := range done[0] {
		for _, of := range done[1:] {
			last = max(last, of[service])
		}
		all = append(all, last)
	}
	return all, nil
}

// steered watches those of a member's EndpointSlices that have the label. The function that it returns waits until each service has followed, and returns for each how
// long after began that was.
func (m *member) steered(ctx context.Context, cluster string, drain bool, services int, label string) (func(began time.Time) (map[string]time.Duration, error), error) {
	watching, err := client.NewWithWatch(m.Plane.Config(), client.Options{Scheme: m.Client.Scheme()})
	if err != nil {
		return nil, err
	}
	known := map[string]map[string]discoveryv1.EndpointSlice{} // by service and name
	add := func(s *discoveryv1.EndpointSlice) string {
		if len(s.OwnerReferences) == 0 {
			return ""
		}
		service := s.OwnerReferences[0].Name
		if known[service] == nil {
			known[service] = map[string]discoveryv1.EndpointSlice{}
		}
		known[service][s.Name] = *s
		return service
	}
	var list discoveryv1.EndpointSliceList
	ours := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{api.LabelManagedBy: api.ManagedByImporter}, client.HasLabels{label}}
	if err := watching.List(ctx, &list, ours...); err != nil {
		return nil, err
	}
	for i := range list.Items {
		add(&list.Items[i])
	}
	events, err := watching.Watch(ctx, &list, append(ours, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})...)
	if err != nil {
		return nil, err
	}
	return func(began time.Time) (map[string]time.Duration, error) {
		defer events.Stop()
		done := map[string]time.Duration{}
		for len(done) < services {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%s: %d of %d services follow: %w", m.Name, len(done), services, ctx.Err())
			case e, ok := <-events.ResultChan():
				if !ok {
					return nil, fmt.Errorf("the watch of %s's EndpointSlices ended", m.Name)
				}
				s, ok := e.Object.(*discoveryv1.EndpointSlice)
				if !ok {
					continue
				}
				service := add(s)
				if e.Type == watch.Deleted && service != "" {
					delete(known[service], s.Name)
				}
				if done[service] == 0 && slices.Contains(used(known[service], m.Zone), cluster) != drain {
					done[service] = time.Since(began)
				}
			}
		}
		return done, nil
	}, nil
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

func (b *bench) patchMember(ctx context.Context, cluster, patch string) error {
	return b.hub.Client.Patch(ctx, memberCluster(cluster), merge(patch))
}

func memberCluster(name string) *clustersetv1alpha1.MemberCluster {
	return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// nodeHeartbeats updates the status of a node a hundred times, as its kubelet would.
func (b *bench) nodeHeartbeats(ctx context.Context) error {
	for i := range 100 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "near-1"}}
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"%d"}]}}`, i)
		if err := b.near.Client.Status().Patch(ctx, node, merge(patch)); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until near's agent is idle and its copies of the MemberClusters have the hub's specs and phases.
func (b *bench) settled(ctx context.Context) error {
	return b.await(ctx, b.near.Agent, "it has nothing left to do", func() (bool, error) {
		var there, here clustersetv1alpha1.MemberClusterList
		if err := b.hub.Client.List(ctx, &there); err != nil {
			return false, err
		}
		if err := b.near.Client.List(ctx, &here); err != nil {
			return false, err
		}
		was := map[string]*clustersetv1alpha1.MemberCluster{}
		for i := range here.Items {
			was[here.Items[i].Name] = &here.Items[i]
		}
		for i := range there.Items {
			is := &there.Items[i]
			if copied := was[is.Name]; copied == nil || !equality.Semantic.DeepEqual(copied.Spec, is.Spec) || copied.Status.Phase != is.Status.Phase {
				return false, nil
			}
		}
		m, err := b.near.Metrics.Samples(ctx)
		return idle(m), err
	})
}
