package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
)

// hubPatience is how long a start waits for the hub's records before the importer works without it. A hub that answers has been read
// by then.
const hubPatience = 5 * time.Second

// hubPoll is how often a start looks whether they have been read.
const hubPoll = 50 * time.Millisecond

// awaitHub waits until the hub's records have been read, without a limit. Meanwhile it works offline.
func (i *importer) awaitHub(ctx context.Context, r *reconciler, places <-chan event.GenericEvent) error {
	alone, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		select {
		case <-alone.Done():
			ended <- nil
		case <-time.After(hubPatience):
			ended <- i.offline(alone, r, places)
		}
	}()
	_ = wait.PollUntilContextCancel(ctx, hubPoll, true, func(context.Context) (bool, error) { return i.hub.Store.HasSynced(), nil })
	stop()
	return <-ended // before the importer begins: offline, less is known
}

// offline reconciles the services that were imported before, until ctx ends.
func (i *importer) offline(ctx context.Context, r *reconciler, places <-chan event.GenericEvent) error {
	logf.FromContext(ctx).Info("The hub's records aren't read yet. Until they are, imported services follow this cluster's own Services and what it can reach, and what others export stays as it is")
	with := *r
	with.members = copies{r.local.cache}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if key, ok := backedBy(o); ok {
			return []reconcile.Request{{NamespacedName: key}}
		}
		key, ok := desired.ServiceOf(o)
		if _, service := o.(*corev1.Service); service && !ok {
			key, ok = client.ObjectKeyFromObject(o), true
		}
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
	here := i.mgr.GetCache()
	sources := []source.Source{
		source.Kind(here, client.Object(r.local.imports.NewImport()), enqueue),
		source.Kind[client.Object](here, &discoveryv1.EndpointSlice{}, enqueue),
		source.Kind[client.Object](here, &corev1.Service{}, enqueue),
		source.Channel(places, allImported(r.local)),
	}
	if i.options.Moved != nil {
		sources = append(sources, source.Channel(i.options.Moved, allImported(r.local)))
	}
	c, err := i.controller("importer-alone", &offline{with}, i.options.Concurrency, sources)
	if err != nil {
		return err
	}
	return run(ctx, c)
}

// allImported enqueues all services that are imported here.
func allImported(l *local) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var derived corev1.ServiceList
		if err := l.cache.List(ctx, &derived, client.MatchingLabels(desired.Labels()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // we are stopping
		}
		var requests []reconcile.Request
		for i := range derived.Items {
			if key, ok := desired.ServiceOf(&derived.Items[i]); ok {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
		}
		return requests
	})
}

// offline reconciles, until the hub's records have been read, what was imported before the agent started with this cluster's
// own Services, and with what it can reach: a rollout here must not wait for a hub that is down, nor a failover. For other clusters it uses what is stored here. It writes only EndpointSlices and the GlobalService. The service itself stays as the hub last defined it.
type offline struct{ reconciler }

// Reconcile implements reconcile.Reconciler for the (namespace, name) of a service.
func (s *offline) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	in := s.input(req.NamespacedName)
	cur, own, err := s.gatherLocal(ctx, in.Key)
	if err != nil || cur.ServiceImport == nil || !desired.Owned(cur.ServiceImport) || !s.options.imports(in.Key.Namespace) {
		return reconcile.Result{}, err
	}
	if cur.Derived != nil && desired.Owned(cur.Derived) {
		in.Derived = cur.Derived
	}
	if in.Own, err = s.gatherOwn(ctx, in.Key, own); err != nil {
		return reconcile.Result{}, err
	}
	if in.Extended, err = s.gatherExtended(ctx, in.Key); err != nil {
		return reconcile.Result{}, err
	}
	last := effective.Imported(in.Key, in.Cluster, cur.Slices)
	in.Exports, in.Endpoints = last.Exports, last.Endpoints
	out, _ := s.compute(ctx, &in)
	unknown := func(c mcsv1beta1.ClusterStatus) bool { return !slices.Contains(out.Resolved.Clusters, c.Cluster) }
	if out.ServiceImport == nil || slices.ContainsFunc(cur.ServiceImport.Status.Clusters, unknown) {
		logf.FromContext(ctx).V(1).Info("Left a service unchanged, because its objects alone don't determine it")
		return reconcile.Result{}, nil
	}
	err = s.applySlices(ctx, out, cur, s.ownerOf(cur.ServiceImport))
	err = errors.Join(err, s.applyExtending(ctx, in, out, cur), s.applyGlobal(ctx, out, cur))
	if isStale(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("without the hub: %w", err)
	}
	return reconcile.Result{}, nil
}
