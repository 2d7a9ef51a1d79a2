package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/mcs"
)

// stormLimit is how soon all members are Ready after the hub is back (rule C70 of docs/spec/control-plane.md).
const stormLimit = 30 * time.Second

// before and after are the addresses of services: those that change do so while the hub is away.
const before, after = "10.1.0.1", "10.2.0.1"

// storm measures how soon all is well after the hub was away. The clusters' exporters run in this process, each with credentials, a connection
// and caches of its own, as in an agent. In place of their own API servers they share one, far's, in which each sees a namespace.
func (b *bench) storm(ctx context.Context) error {
	for _, m := range b.members {
		m.Agent.Kill()
	}
	var clusters []string
	for i := range b.sizes.clusters {
		clusters = append(clusters, other(i))
	}
	running, stop := context.WithCancel(ctx)
	exporters := &errgroup.Group{}
	defer func() { stop(); _ = exporters.Wait() }()
	b.say("starting %d clusters of %d services", len(clusters), b.sizes.services)
	began := time.Now()
	if err := inParallel(ctx, clusters, func(ctx context.Context, _ int, cluster string) error {
		mgr, err := b.exporting(ctx, cluster)
		if err == nil {
			exporters.Go(func() error { return mgr.Start(running) })
		}
		return err
	}); err != nil {
		return err
	}
	if err := b.well(ctx, began, 0); err != nil {
		return err
	}

	b.say("the hub is away for %s", b.sizes.time)
	b.hub.Plane.StopAPIServer()
	b.hub.Plane.StopEtcd()
	back := time.After(b.sizes.time)
	if err := inParallel(ctx, clusters, b.readdress); err != nil {
		return err
	}
	<-back
	began = time.Now()
	if err := b.hub.Plane.StartEtcd(ctx); err != nil {
		return err
	}
	if err := b.hub.Plane.StartAPIServer(ctx); err != nil {
		return err
	}
	if err := b.well(ctx, began, b.sizes.rolled); err != nil {
		return err
	}
	took := time.Since(began)
	b.result(fmt.Sprintf("the hub is back after %s, with %d changes in each of %d clusters", b.sizes.time, b.sizes.rolled, len(clusters)),
		"all Ready, and their changes on the hub, after %s; load average %s", round(took), loadAverage())
	if took > stormLimit {
		return fmt.Errorf("all is well %s after the hub is back, want %s", round(took), stormLimit)
	}
	return nil
}

func stormService(n int) string { return fmt.Sprintf("svc-%d", n) }

// exporting joins a cluster, makes what it exports, and returns its exporter, set up as the command line does. Each cluster is in a community of
// its own: 250 caches of everything wouldn't fit into one process. The number of requests is the same.
func (b *bench) exporting(ctx context.Context, cluster string) (manager.Manager, error) {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}}
	for n := range b.sizes.services {
		objects = append(objects, serviceIn(cluster, stormService(n), corev1.ClusterIPNone, before)...)
		objects = append(objects, exportOf(cluster, stormService(n)))
	}
	for _, o := range objects {
		if err := b.far.Client.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	kubeconfig, err := join.Join(ctx, join.At(b.hub.Plane.Config()), join.Options{
		Cluster: cluster, Spec: clustersetv1alpha1.MemberClusterSpec{Zone: cluster, Communities: []string{cluster}},
	})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.Dial = (&net.Dialer{}).DialContext // so that each cluster has its own connections
	hub, err := connect.NewHub(config, store.Options{Cluster: cluster})
	if err != nil {
		return nil, err
	}
	scheme := connect.NewScheme()
	if err := mcs.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mgr, err := manager.New(b.far.Plane.Config(), manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{cluster: {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Namespace{}: {Field: fields.OneTermEqualSelector("metadata.name", cluster)}},
		},
	})
	if err != nil {
		return nil, err
	}
	_, err = exporter.Setup(mgr, hub, exporter.Options{Cluster: cluster, Version: "bench", HeartbeatInterval: beatEvery})
	return mgr, errors.Join(err, mgr.Add(manager.RunnableFunc(hub.Store.Start)))
}

// readdress gives services of a cluster another address.
func (b *bench) readdress(ctx context.Context, _ int, cluster string) error {
	for n := range b.sizes.rolled {
		from, to := sliceOf(cluster, stormService(n), before), sliceOf(cluster, stormService(n), after)
		if err := b.far.Client.Patch(ctx, to, client.MergeFrom(from)); err != nil {
			return err
		}
	}
	return nil
}

// well waits until every cluster has renewed its Lease since a time and is Ready, and the hub has all records, of which some are changed in each.
func (b *bench) well(ctx context.Context, since time.Time, changed int) error {
	return b.await(ctx, b.hub.Process, "all is well", func() (bool, error) {
		var leases coordinationv1.LeaseList
		var members clustersetv1alpha1.MemberClusterList
		var records clustersetv1alpha1.ExportedEndpointsList
		if err := errors.Join(b.hub.Client.List(ctx, &leases, client.HasLabels{api.LabelCluster}), b.hub.Client.List(ctx, &members),
			b.hub.Client.List(ctx, &records)); err != nil {
			return false, err
		}
		heard, ready, have := map[string]bool{}, 0, map[string]int{}
		for i := range leases.Items {
			if at := leases.Items[i].Spec.RenewTime; at != nil && at.After(since) {
				heard[leases.Items[i].Labels[api.LabelCluster]] = true
			}
		}
		for i := range members.Items {
			if m := &members.Items[i]; heard[m.Name] && m.Status.Phase == clustersetv1alpha1.MemberReady {
				ready++
			}
		}
		for i := range records.Items {
			have[records.Items[i].Spec.Endpoints[0].Addresses[0]]++
		}
		n := b.sizes.clusters
		return ready == n && have[before] == n*(b.sizes.services-changed) && have[after] == n*changed,
			fmt.Errorf("%d clusters are heard, %d of them Ready, records %v", len(heard), ready, have)
	})
}
