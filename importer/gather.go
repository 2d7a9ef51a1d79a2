package importer

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/record"
)

// gatherHub gathers what the hub has of a service, without what is of clusters that have left: it may take a while until they are deleted, and a
// finalizer may keep one. Before it has been read it has nothing.
func (o *round) gatherHub() {
	in := &o.in
	in.Capped, o.withdrawn = map[string]bool{}, map[string]int64{}
	if o.alone {
		return
	}
	for _, part := range o.hub.Service(in.Key) {
		if m := o.members.Member(part.Cluster); m != nil && m.Left() && effective.Gone(m, o.here(part.Cluster)) {
			continue
		}
		in.Endpoints = append(in.Endpoints, part.Endpoints...)
		switch e := part.Export; {
		case e == nil:
		case e.Withdrawn:
			o.withdrawn[e.Cluster] = e.Revision
		default:
			in.Exports = append(in.Exports, e)
			if part.Capped {
				in.Capped[e.Cluster] = true
			}
		}
	}
}

// gatherMembers reads this cluster's MemberCluster and those of the clusters that the records come from.
func (o *round) gatherMembers(ctx context.Context) {
	in := &o.in
	in.Members, in.Returning = make(map[string]*clustersetv1alpha1.MemberCluster, len(in.Exports)+1), map[string]bool{}
	read := func(cluster string) {
		there := o.members.Member(cluster)
		member := there
		// If the hub was emptied, or restored to an earlier time at which the cluster had left, the last known location counts: without one its
		// endpoints would lose their rank.
		if there == nil || there.Left() {
			if here := o.here(cluster); there == nil || !effective.Gone(there, here) {
				member = here
			}
		}
		if member != nil && (o.alone || member != there) { // else the door did that
			member, _ = member.Sanitized()
		}
		if member != nil {
			in.Members[cluster] = member
		}
		if left := o.clusters.returning(cluster, there); left > 0 && cluster != in.Cluster {
			in.Returning[cluster] = true
			o.returns = sooner(o.returns, left)
		}
	}
	read(in.Cluster)
	for _, e := range in.Exports {
		if e.Cluster != "" && e.Cluster != in.Cluster {
			read(e.Cluster)
		}
	}
	in.Forbidden = o.forbidden(ctx)
}

// gatherLocal reads this cluster's objects of a service: what is imported, and the EndpointSlices of the cluster's own Service. All
// belong to the cache.
func (r *reconciler) gatherLocal(ctx context.Context, key types.NamespacedName) (cur desired.Current, own []discoveryv1.EndpointSlice, err error) {
	if cur.ServiceImport, err = r.local.getImport(ctx, key.Namespace, key.Name); err != nil {
		return cur, nil, err
	}
	derived := &corev1.Service{}
	if found, err := get(ctx, r.local, key.Namespace, api.DerivedServiceName(key.Namespace, key.Name), derived, client.UnsafeDisableDeepCopy); err != nil {
		return cur, nil, err
	} else if found {
		cur.Derived = derived
	}
	if !r.noGlobals {
		if cur.Global, err = r.globalHere(ctx, key); err != nil {
			return cur, nil, err
		}
	}
	all := r.local.slices.of(key.String())
	cur.Slices = make([]*discoveryv1.EndpointSlice, 0, len(all))
	for _, s := range all {
		switch {
		case !desired.Owned(s):
			own = append(own, *s)
		case !s.DeletionTimestamp.IsZero(): // somebody's finalizers keep it
		case desired.Extends(s):
			cur.Extending = append(cur.Extending, s)
		default:
			cur.Slices = append(cur.Slices, s)
		}
	}
	byName := func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(cur.Slices, byName)
	slices.SortFunc(cur.Extending, byName)
	return cur, own, nil
}

// gatherService reads the Service of the service's own name. If it isn't the importer's, it is this cluster's own. So is one that was taken:
// the importer takes off what it wrote (D71). A derived Service that no service uses is the importer's too, and goes (see desired.ServiceOf).
func (o *round) gatherService(ctx context.Context) error {
	svc := &corev1.Service{}
	if found, err := get(ctx, o.local, o.in.Key.Namespace, o.in.Key.Name, svc, client.UnsafeDisableDeepCopy); err != nil || !found {
		return err
	}
	switch of, ours := desired.ServiceOf(svc); {
	case !ours || of != o.in.Key:
		o.own = svc
	case desired.Taken(svc):
		o.own = desired.Left(svc)
		return o.local.update(ctx, o.own)
	default:
		o.cur.Named, o.in.Named = svc, svc
	}
	return nil
}

// gatherOwn reads this cluster's own endpoints of a service; all are the EndpointSlices of its Service. If the Service is gone
// or being deleted, there are none: the hub has its addresses until the exporter withdraws them, but they lead nowhere.
func (o *round) gatherOwn(all []discoveryv1.EndpointSlice) *desired.Own {
	own := &desired.Own{Nodes: map[netip.Addr]string{}}
	if o.own == nil || !o.own.DeletionTimestamp.IsZero() {
		return own
	}
	all = record.Exportable(all)
	slices.SortFunc(all, func(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	own.ClusterIPs = desired.ClusterIPs(o.own)
	for _, slice := range all {
		records := record.Endpoints(o.in.Cluster, o.in.Key, slice)
		for i := range records {
			own.Endpoints = append(own.Endpoints, door.CompactEndpoints(&records[i]))
		}
		for i := range slice.Endpoints {
			if e := &slice.Endpoints[i]; e.NodeName != nil && len(e.Addresses) > 0 {
				if addr, err := api.ParseAddress(e.Addresses[0]); err == nil {
					own.Nodes[addr] = *e.NodeName
				}
			}
		}
	}
	return own
}

// gatherNamespace reads what the namespace allows: to make a Service if there is no own one, or to extend that, if it asks for it.
func (o *round) gatherNamespace(ctx context.Context) error {
	key, namespace := o.in.Key, &corev1.Namespace{}
	if _, err := get(ctx, o.local, "", key.Namespace, namespace, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	o.in.Names = o.own == nil && desired.MayName(key.Namespace, key.Name, namespace.Labels)
	if o.own != nil && o.own.DeletionTimestamp.IsZero() && desired.AsksToBeExtended(o.own) {
		o.in.Extended = &desired.Extended{
			Service: o.own, Allowed: desired.MayExtend(key.Namespace, key.Name, namespace.Labels, o.options.ExtendEverywhere),
			Excluded: !o.options.imports(key.Namespace),
		}
	}
	return nil
}

// known reports whether the hub has been read, and has a MemberCluster of this cluster that doesn't say that it has left.
func (o *round) known() bool {
	own := o.members.Member(o.options.Cluster)
	return !o.alone && own != nil && !own.Left()
}

// here returns the MemberCluster of this cluster, nil if there is none.
func (r *reconciler) here(cluster string) *clustersetv1alpha1.MemberCluster {
	return copies{r.local.cache}.Member(cluster)
}

// clusterOf returns what the hub and this cluster say of a cluster.
func (o *round) clusterOf(name string, own *clustersetv1alpha1.MemberCluster) (c effective.Cluster) {
	c.Member, c.Here = o.members.Member(name), o.here(name)
	if c.Member != nil && own != nil {
		c.Apart = name != own.Name && !communities.Share(own.Spec.Communities, c.Member.Spec.Communities)
	}
	c.Unread = o.alone || !o.hub.Read(name)
	return c
}

// across reports whether the clusters are in several networks.
func (r *reconciler) across() bool {
	all := append(r.hub.Members(), copies{r.local.cache}.Members()...)
	return slices.ContainsFunc(all, func(m *clustersetv1alpha1.MemberCluster) bool { return m.Apart(all[0]) })
}

// forbidden returns where no external address of another network's cluster may be: in the networks of this network's clusters, at this
// cluster's nodes and API server, and at the hub (D82). It is empty if all clusters of the service are in this network.
func (o *round) forbidden(ctx context.Context) (forbidden []netip.Prefix) {
	apart := false
	for cluster := range o.in.Members {
		apart = apart || o.in.Apart(cluster)
	}
	if !apart {
		return nil
	}
	all, own := o.members.Members(), o.in.Members[o.in.Cluster]
	if own != nil {
		all = append(all, own) // the hub may have lost it
	}
	forbidden = desired.Inside(own, slices.Values(all))
	for _, addr := range o.options.Avoid(ctx) {
		addr = addr.Unmap()
		forbidden = append(forbidden, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return forbidden
}

// sooner returns the sooner of two times to reconcile again. 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// indexService names the index of EndpointSlices by service.
const indexService = "importer.service"

// slicesOf finds this cluster's EndpointSlices of a service: those of the importer, and those of the cluster's own Service.
//
// controller-runtime's field indexes do that too, but hold each object twice, and a List by them copies each object.
type slicesOf struct{ indexer toolscache.Indexer }

// add adds the index to a cache. It fails if the API server is unreachable, and may be called again then.
func (s *slicesOf) add(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &discoveryv1.EndpointSlice{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("index EndpointSlices: %w", err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return fmt.Errorf("index EndpointSlices: the informer is a %T", informer)
	}
	return s.use(indexed.GetIndexer())
}

func (s *slicesOf) use(indexer toolscache.Indexer) error {
	s.indexer = indexer
	return indexer.AddIndexers(toolscache.Indexers{indexService: func(o any) ([]string, error) {
		slice := o.(client.Object)
		key, ok := backedBy(slice)
		if !ok {
			key, ok = desired.ServiceOf(slice)
		}
		if !ok {
			return nil, nil
		}
		return []string{key.String()}, nil
	}})
}

// of returns the slices of a service, in no order. They belong to the cache.
func (s *slicesOf) of(service string) []*discoveryv1.EndpointSlice {
	found, err := s.indexer.ByIndex(indexService, service)
	if err != nil { // the index doesn't exist, although use added it
		panic(err)
	}
	all := make([]*discoveryv1.EndpointSlice, len(found))
	for i, o := range found {
		all[i] = o.(*discoveryv1.EndpointSlice) //nolint:forcetypeassert // the informer's kind
	}
	return all
}

// backedBy returns the Service of this cluster to which another owner's EndpointSlice belongs.
func backedBy(o client.Object) (types.NamespacedName, bool) {
	name := o.GetLabels()[discoveryv1.LabelServiceName]
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != "" && !desired.Owned(o)
}
