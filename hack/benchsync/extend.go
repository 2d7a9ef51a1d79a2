package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/test/ownnet"
)

// extends measures how soon near's own Services, which it extends to two other clusters alike, follow a drain of one of these and the verdict
// that it can't be reached, and what that costs. The others, first and second, are records on the hub, and beacons in this process. A third
// exports one of the services.
func (b *bench) extends(ctx context.Context) error {
	b.say("filling the hub with %d services of both first and second, which near extends", b.drained)
	if err := b.join(ctx, "first", "second", "third"); err != nil {
		return err
	}
	if err := b.near.Plane.ApplyContext(ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", labels: {"+api.KeyExtend+": "+api.ExtendAllowed+"}}}")); err != nil {
		return err
	}
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range b.drained {
		service := fmt.Sprintf("extended-%d", i)
		exporters := []string{"first", "second", "third"}
		if i > 0 {
			exporters = exporters[:2]
		}
		group.Go(func() error {
			for n, cluster := range exporters {
				for _, o := range recordsOf(cluster, service, fmt.Sprintf("10.%d.%d.%d", 100+n, i/250, 1+i%250), fmt.Sprintf("10.%d.%d.%d", 110+n, i/250, 1+i%250)) {
					if err := b.hub.Client.Create(inGroup, o); err != nil {
						return err
					}
				}
			}
			return b.near.Client.Create(inGroup, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service, Annotations: map[string]string{api.KeyExtend: api.ExtendTrue}},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": service}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := b.await(ctx, b.near.Agent, "they are extended", func() (bool, error) {
		m, err := b.near.Metrics.Samples(ctx)
		return m.Sum("clusterset_importer_extended_services", "state", "extended") >= float64(b.drained) && idle(m), err
	}); err != nil {
		return err
	}
	drains := func(cluster string, drain bool) func() error {
		return func() error { return b.patchMember(ctx, cluster, fmt.Sprintf(`{"spec":{"drain":%t}}`, drain)) }
	}
	var all []time.Duration
	for i := range b.changes / 10 * 2 {
		took, _, err := b.extendedFollow(ctx, "third", i%2 == 0, 1, drains("third", i%2 == 0))
		if err != nil {
			return err
		}
		all = append(all, took...)
	}
	if len(all) > 0 {
		b.percentiles("drain or undrain → behind the own name of one Service", all)
	}
	for _, drain := range []bool{true, false} {
		word := map[bool]string{true: "drain", false: "undrain"}[drain]
		if err := b.extendedRows(ctx, word, drain, drains("first", drain)); err != nil {
			return err
		}
	}
	return b.extendsAway(ctx)
}

// extendedRows adds rows for the time in which all follow first, and for the cost.
func (b *bench) extendedRows(ctx context.Context, what string, away bool, do func() error) error {
	took, cost, err := b.extendedFollow(ctx, "first", away, b.drained, do)
	if err != nil {
		return err
	}
	b.percentiles(fmt.Sprintf("%s → behind the own names of %d Services", what, len(took)), took)
	b.row("cost of that, with their ClusterSetIPs", "", "", "", cost)
	return nil
}

// extendedFollow does something after which near's extended Services lead to a cluster no more, or again. It returns how long each took, and
// what that cost.
func (b *bench) extendedFollow(ctx context.Context, cluster string, away bool, services int, do func() error) (all []time.Duration, cost string, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	if err := b.settled(ctx); err != nil {
		return nil, "", err
	}
	await, err := b.near.steered(ctx, cluster, away, services, api.LabelExtends)
	if err != nil {
		return nil, "", err
	}
	from, cpu, began := b.near.audit.size(), cpuOf(b.near.Agent.PID()), time.Now()
	if err := do(); err != nil {
		return nil, "", err
	}
	took, err := await(began)
	if err != nil {
		return nil, "", err
	}
	if err := b.settled(ctx); err != nil {
		return nil, "", err
	}
	n, _, wrote, err := b.near.audit.writes(from, agentHere)
	if err != nil {
		return nil, "", err
	}
	cost = fmt.Sprintf("%d writes (%s); the agent's processor time %s; load average %s", n, strings.TrimSpace(wrote), round(cpuOf(b.near.Agent.PID())-cpu), loadAverage())
	return slices.Collect(maps.Values(took)), cost, nil
}

// extendsAway lets near measure first and second, and then only second.
func (b *bench) extendsAway(ctx context.Context) error {
	beacons := map[string]net.Listener{}
	for _, cluster := range []string{"first", "second"} {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(ownnet.Address, 0).String())
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }() //nolint:gocritic // of two
		beacons[cluster] = l
		go func() { _ = beacon.Serve(ctx, l, cluster, "bench") }()
		report := &clustersetv1alpha1.MemberReport{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName},
			Spec:       clustersetv1alpha1.MemberReportSpec{Beacons: []string{l.Addr().String()}},
		}
		if err := b.hub.Client.Create(ctx, report); err != nil {
			return err
		}
	}
	if err := b.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := b.await(ctx, b.near.Agent, "it reaches both", func() (bool, error) {
		m, err := b.near.Metrics.Samples(ctx)
		return m.Sum("clusterset_prober_member_reachable", "reachable", "True") >= 2 && idle(m), err
	}); err != nil {
		return err
	}
	return b.extendedRows(ctx, "first can't be reached any more (the verdict alone takes 4 s or more)", true, beacons["first"].Close)
}
