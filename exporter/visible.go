package exporter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
)

// visibility knows which clusters may import what this one exports.
type visibility struct {
	own string
	// peers is nil until the hub's MemberClusters have been listed.
	peers atomic.Pointer[peers]
}

// peers are the other clusters of the set that share a community with this one.
type peers struct {
	limited bool // some cluster is in another community than the default one
	names   []string
	of      communities.Set

	apart    map[string]string // the networks of the clusters that are in another one
	external []string          // spec.externalCIDRs of this cluster

	digests map[string]string // of the namespaces of each cluster
	have    map[string]clustersetv1alpha1.Namespaces
}

func peersOf(members []clustersetv1alpha1.MemberCluster, own string) *peers {
	set, apart := communities.Set{}, map[string]string{}
	var this *clustersetv1alpha1.MemberCluster
	var external []string
	if i := slices.IndexFunc(members, func(m clustersetv1alpha1.MemberCluster) bool { return m.Name == own }); i >= 0 {
		this, external = &members[i], members[i].Spec.ExternalCIDRs
	}
	for i := range members {
		m := &members[i]
		if m.Left() && m.Name != own {
			continue
		}
		set[m.Name] = m.Spec.Communities
		if m.Apart(this) {
			apart[m.Name] = m.Spec.Network
		}
	}
	names := slices.DeleteFunc(set.Peers(own), func(name string) bool { return name == own })
	digests, have := map[string]string{}, map[string]clustersetv1alpha1.Namespaces{}
	for i := range members {
		if m := &members[i]; m.Status.Namespaces != "" && !m.Left() {
			digests[m.Name], have[m.Name] = m.Status.Namespaces, clustersetv1alpha1.ParseNamespaces(m.Status.Namespaces)
		}
	}
	return &peers{limited: set.On(), names: names, of: set, apart: apart, external: external, digests: digests, have: have}
}

// watch keeps the peers, and calls changed with the namespaces for whose services they have changed. It returns when ctx ends.
func (v *visibility) watch(ctx context.Context, hub cache.Cache, changed func(ctx context.Context, in func(namespace string) bool)) error {
	events := make(chan struct{}, 1)
	signal := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		informer, err := hub.GetInformer(ctx, &clustersetv1alpha1.MemberCluster{}, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
			})
		}
		return err == nil, nil // it ends with ctx
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
		}
		var members clustersetv1alpha1.MemberClusterList
		if err := hub.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).V(1).Info("Can't list the clusters", "reason", err.Error())
			continue
		}
		now := peersOf(members.Items, v.own)
		was := v.peers.Swap(now)
		if was == nil || was.limited != now.limited || !maps.EqualFunc(was.of, now.of, slices.Equal) ||
			!maps.Equal(was.apart, now.apart) || !slices.Equal(was.external, now.external) {
			changed(ctx, func(string) bool { return true })
		} else if !maps.Equal(was.digests, now.digests) {
			changed(ctx, func(namespace string) bool { return !slices.Equal(was.lacking(namespace), now.lacking(namespace)) })
		}
	}
}

// put sets the condition Visible, and reports whether it changed. A service that all clusters may import, or that isn't exported, has none.
func (v *visibility) put(export *mcsv1beta1.ServiceExport, service *clustersetv1alpha1.ExportedService) (changed bool) {
	p := v.peers.Load()
	switch {
	case p == nil:
		return false
	case service == nil || !p.limited && len(service.Spec.ExportTo) == 0:
		return meta.RemoveStatusCondition(&export.Status.Conditions, api.ConditionVisible)
	}
	c := p.condition(service.Spec.ExportTo)
	c.ObservedGeneration = export.Generation
	return meta.SetStatusCondition(&export.Status.Conditions, c)
}

func (p *peers) condition(exportTo []string) metav1.Condition {
	const shown = 10
	var all []string
	for _, name := range p.names {
		if communities.Allows(exportTo, name, p.of[name]) {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return metav1.Condition{
			Type: api.ConditionVisible, Status: metav1.ConditionFalse, Reason: api.ReasonNoPeers,
			Message: "no other cluster imports it: none is in a community of this one, or " + api.AnnotationExportTo + " excludes those that are",
		}
	}
	names := strings.Join(all[:min(len(all), shown)], ", ")
	if more := len(all) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return metav1.Condition{
		Type: api.ConditionVisible, Status: metav1.ConditionTrue, Reason: api.ReasonPeers, Message: "these other clusters can import it: " + names,
	}
}
