package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/mcs"
)

// gather is how long to collect changes of namespaces before the watches on the hub follow.
const gather = 500 * time.Millisecond

// StoreOptions returns the options of the store that Setup and Narrow use.
func StoreOptions(mgr manager.Manager, o Options) store.Options {
	o, _ = o.withDefaults()                 // Setup returns what is wrong with them
	leftOutGauge.WithLabelValues(o.Cluster) // so that the metric exists from the start; a cluster's own records are never left out
	return store.Options{
		Cluster: o.Cluster, MaxMemory: o.RecordMemory, MaxServices: o.MaxServices,
		Over: overQuota(mgr.GetLogger(), mgr.GetEventRecorder("clusterset-importer"), o.RecordMemory),
	}
}

// Narrow makes the manager keep the store of the hub to what this cluster needs: the records of services in namespaces that it
// imports into, and in namespaces that it exports from, because it must know their conflicts. Of these it needs only the records of
// clusters that it shares a community with.
func Narrow(mgr manager.Manager, hub *connect.Hub, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	for _, run := range []manager.RunnableFunc{
		func(ctx context.Context) error { followPeers(ctx, hub.Store, options.Cluster); return nil },
		func(ctx context.Context) error {
			n := &narrowing{mgr: mgr, live: hub, options: options, hub: hub.Store, exported: map[string]bool{}, changed: make(chan struct{}, 1)}
			return n.run(logf.IntoContext(ctx, mgr.GetLogger().WithName("narrow")))
		},
	} {
		if err := mgr.Add(run); err != nil {
			return fmt.Errorf("add to manager: %w", err)
		}
	}
	return nil
}

// followPeers makes the store read the clusters with which this one shares a community, by the hub's MemberClusters; all clusters, if none is in a
// community. It returns when ctx ends.
func followPeers(ctx context.Context, hub *store.Store, own string) {
	_ = wait.PollUntilContextCancel(ctx, hubPoll, true, func(context.Context) (bool, error) { return hub.MembersRead(), nil })
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	hub.OnMember(func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			hub.SetPeers(communities.Read(values(hub.Members()), own))
		}
	}
}

// overQuota returns a function that reports that records of a cluster are left out, or no longer are.
func overQuota(log logr.Logger, recorder events.EventRecorder, limit int) func(cluster string, over bool) {
	return func(cluster string, over bool) {
		if !over {
			leftOutGauge.WithLabelValues(cluster).Set(0)
			log.Info("Reading again the records of a cluster that were left out, because it has fewer now", "exporter", cluster)
			return
		}
		leftOutGauge.WithLabelValues(cluster).Set(1)
		log.Info("Left out records of a cluster, because they take more memory here than those of one cluster may", "exporter", cluster, "bytes", limit)
		recorder.Eventf(memberNamed(cluster), nil, corev1.EventTypeWarning, reasonTooMuchMemory, "Import",
			"the records of cluster %s take more than %d MiB here; further ones are left out, and changes that need more. Check whether its token was stolen, or raise --max-record-memory in all members",
			cluster, limit>>20)
	}
}

type narrowing struct {
	mgr     manager.Manager
	live    client.Reader
	options Options
	hub     *store.Store
	// exported are the namespaces that this cluster has exported from. They are never removed: to delete a record, it must be
	// seen.
	exported map[string]bool
	exports  *metav1.PartialObjectMetadata // ServiceExports, or nil if the kind isn't served
	changed  chan struct{}
}

func (n *narrowing) run(ctx context.Context) error {
	if n.options.everywhere() {
		n.hub.SetNamespaces(nil)
		<-ctx.Done()
		return nil
	}
	retry(ctx, "Waiting for the local API server", func() error { return n.watch(ctx) })
	for ctx.Err() == nil {
		retry(ctx, "Waiting for the hub to say what this cluster exports", func() error { return n.ownRecords(ctx) })
		n.follow(ctx)
	}
	return nil
}

// follow makes the store follow the namespaces that this cluster imports into and exports from. It returns when the hub may have records of this
// cluster in others: it has been restored, with what this cluster exported at the time of the backup, or somebody else wrote under its name.
func (n *narrowing) follow(ctx context.Context) {
	for {
		if err := n.set(ctx); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Info("Can't list the namespaces", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-n.options.Unseen:
			return
		case <-n.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gather):
		}
	}
}

// everywhere reports whether services are imported into namespaces that don't exist yet and aren't named in the options.
func (o *Options) everywhere() bool {
	return o.CreateNamespaces && (len(o.IncludeNamespaces) == 0 || strings.ContainsAny(strings.Join(o.IncludeNamespaces, ""), "*?["))
}

// watch starts the informers of namespaces and ServiceExports.
func (n *narrowing) watch(ctx context.Context) error {
	kinds := []client.Object{&corev1.Namespace{}}
	switch version, err := mcs.Served(n.mgr.GetRESTMapper(), mcsv1beta1.ServiceExportKindName); {
	case meta.IsNoMatchError(err):
	case err != nil:
		return err
	default:
		n.exports = &metav1.PartialObjectMetadata{}
		n.exports.SetGroupVersionKind(version.Kind(mcsv1beta1.ServiceExportKindName))
		kinds = append(kinds, n.exports)
	}
	signal := func() {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
	for _, kind := range kinds {
		informer, err := n.mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(true))
		if err != nil {
			return fmt.Errorf("watch %s: %w", kindOf(kind), err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { signal() }, DeleteFunc: func(any) { signal() },
		}); err != nil {
			return fmt.Errorf("watch %s: %w", kindOf(kind), err)
		}
	}
	return nil
}

// ownRecords adds the namespaces of this cluster's records on the hub.
func (n *narrowing) ownRecords(ctx context.Context) error {
	for _, kind := range []string{"ExportedServiceList", "ExportedEndpointsList"} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind))
		err := n.live.List(ctx, &list, client.InNamespace(api.MemberNamespace(n.options.Cluster)))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("list this cluster's records: %w", err)
		}
		for i := range list.Items {
			if namespace, ok := list.Items[i].Labels[api.LabelExportedNamespace]; ok {
				n.exported[namespace] = true
			}
			if namespace, _, ok := api.ParseExportedServiceName(list.Items[i].Name); ok && kind == "ExportedServiceList" {
				n.exported[namespace] = true // whatever its label says: the exporter restores it
			}
		}
	}
	return nil
}

func (n *narrowing) set(ctx context.Context) error {
	if n.exports != nil {
		var exports metav1.PartialObjectMetadataList
		kind := n.exports.GroupVersionKind()
		kind.Kind += "List"
		exports.SetGroupVersionKind(kind)
		if err := n.mgr.GetCache().List(ctx, &exports, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list ServiceExports: %w", err)
		}
		for i := range exports.Items {
			n.exported[exports.Items[i].Namespace] = true
		}
	}
	var namespaces corev1.NamespaceList
	if err := n.mgr.GetCache().List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Namespaces: %w", err)
	}
	wanted := maps.Clone(n.exported)
	for i := range namespaces.Items {
		if name := namespaces.Items[i].Name; n.options.imports(name) {
			wanted[name] = true
		}
	}
	if n.options.CreateNamespaces { // otherwise see everywhere
		for _, name := range n.options.IncludeNamespaces {
			wanted[name] = true
		}
	}
	n.hub.SetNamespaces(slices.Collect(maps.Keys(wanted)))
	return nil
}
