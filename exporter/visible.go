package exporter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/text"
)

// visibility knows which clusters may import what this one exports.
type visibility struct {
	own string
	// peers is nil until the hub's MemberClusters have been listed.
	peers atomic.Pointer[peers]
}

// peers are the other clusters of the set that share a community with this one.
type peers struct {
	names []string // sorted
	of    communities.Set
	known []string // what a service can be exported to

	apart    map[string]string // the networks of the clusters that are in another one
	external []string          // spec.externalCIDRs of this cluster

	digests map[string]string // of the namespaces of each cluster
	have    map[string]clustersetv1alpha1.Namespaces
}

func peersOf(members []*clustersetv1alpha1.MemberCluster, own string) *peers {
	p := &peers{
		of: communities.Set{}, apart: map[string]string{}, digests: map[string]string{}, have: map[string]clustersetv1alpha1.Namespaces{},
	}
	var this *clustersetv1alpha1.MemberCluster
	if i := slices.IndexFunc(members, func(m *clustersetv1alpha1.MemberCluster) bool { return m.Name == own }); i >= 0 {
		this, p.external = members[i], members[i].Spec.ExternalCIDRs
	}
	for _, m := range members {
		if m.Left() && m.Name != own {
			continue
		}
		p.of[m.Name] = m.Spec.Communities
		if m.Apart(this) {
			p.apart[m.Name] = m.Spec.Network
		}
		if m.Status.Namespaces != "" {
			p.digests[m.Name], p.have[m.Name] = m.Status.Namespaces, clustersetv1alpha1.ParseNamespaces(m.Status.Namespaces)
		}
	}
	p.known = p.of.Names()
	p.names = slices.DeleteFunc(p.of.Peers(own), func(name string) bool { return name == own })
	return p
}

func everywhere(string) bool { return true }

// watch keeps the peers, and calls changed with the namespaces for whose services they have changed. It returns when ctx ends.
func (v *visibility) watch(ctx context.Context, hub *store.Store, changed func(ctx context.Context, in func(namespace string) bool)) error {
	look := make(chan struct{}, 1)
	hub.OnMember(func(string) { signal(look) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look:
			v.look(ctx, hub.Members(), changed)
		}
	}
}

func (v *visibility) look(ctx context.Context, members []*clustersetv1alpha1.MemberCluster, changed func(ctx context.Context, in func(namespace string) bool)) {
	now := peersOf(members, v.own)
	was := v.peers.Swap(now)
	if was == nil || !maps.EqualFunc(was.of, now.of, slices.Equal) ||
		!maps.Equal(was.apart, now.apart) || !slices.Equal(was.external, now.external) {
		changed(ctx, everywhere)
	} else if !maps.Equal(was.digests, now.digests) {
		changed(ctx, func(namespace string) bool {
			return !slices.Equal(was.lacking(was.names, namespace), now.lacking(now.names, namespace))
		})
	}
}

// conditions returns those that depend on the other clusters: Visible, Reachable and Imported. One that has nothing to say, because the service
// isn't exported for example, has no status.
func (v *visibility) conditions(namespace string, d Desired) []metav1.Condition {
	p := v.peers.Load()
	if p == nil {
		return nil
	}
	var visible, reachable, imported metav1.Condition
	if d.Service != nil {
		to := d.Service.Spec.ExportTo
		importing := slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return !communities.Allows(to, name, p.of[name]) })
		if p.of.On() || len(to) > 0 {
			visible = visibleTo(importing, to)
		}
		if networks := p.otherNetworks(importing); len(networks) > 0 {
			reachable = reachableFrom(networks, d, len(p.external) > 0)
		}
		if without := p.lacking(importing, namespace); len(without) > 0 {
			imported = notImported(namespace, without)
		}
	}
	visible.Type, reachable.Type, imported.Type = api.ConditionVisible, api.ConditionReachable, api.ConditionImported
	return []metav1.Condition{visible, reachable, imported}
}

// visibleTo names the clusters that may import a service (rule C19 of docs/spec/control-plane.md).
func visibleTo(names, to []string) metav1.Condition {
	switch {
	case len(names) == 0 && len(to) == 0:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: api.ReasonAlone, Message: "no other cluster imports it: none is in a community of this one"}
	case len(names) == 0:
		return metav1.Condition{
			Status: metav1.ConditionFalse, Reason: api.ReasonNoPeers,
			Message: "no other cluster imports it: " + api.AnnotationExportTo + " excludes all that are in a community of this one",
		}
	}
	return metav1.Condition{
		Status: metav1.ConditionTrue, Reason: api.ReasonPeers, Message: "these other clusters can import it: " + text.First(names, 10),
	}
}

// otherNetworks returns the networks, but this cluster's, of some peers, sorted.
func (p *peers) otherNetworks(names []string) (all []string) {
	for _, name := range names {
		if network, apart := p.apart[name]; apart {
			all = append(all, network)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reachableFrom says whether clusters of other networks reach a service (D95). declared: this cluster states its external networks.
func reachableFrom(networks []string, d Desired, declared bool) metav1.Condition {
	if networks[0] == "" {
		networks[0] = "without a name"
	}
	who := "networks " + text.First(networks, 5)
	c := metav1.Condition{Status: metav1.ConditionFalse}
	switch {
	case len(d.external) == 0:
		c.Reason, c.Message = d.reason, fmt.Sprintf("%s (%s)", d.noExternal, who)
	case !declared:
		c.Reason = api.ReasonNotInExternalCIDRs
		c.Message = fmt.Sprintf("clusters of other networks (%s) don't use it: this cluster's MemberCluster states no spec.externalCIDRs; an administrator of the hub has to set it", who)
	default:
		var addresses []string
		for _, e := range d.external {
			for _, at := range e.Spec.Endpoints {
				addresses = append(addresses, at.Addresses[0])
			}
		}
		c.Status, c.Reason = metav1.ConditionTrue, api.ReasonExternalAddresses
		c.Message = fmt.Sprintf("clusters of other networks (%s) reach it at %s", who, text.First(addresses, 5))
	}
	return c
}

// lacking returns those of some peers that say they don't have a namespace (rule C77 of docs/spec/control-plane.md).
func (p *peers) lacking(names []string, namespace string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !p.have[name].Lack(namespace) })
}

func notImported(namespace string, clusters []string) metav1.Condition {
	return metav1.Condition{
		Status: metav1.ConditionFalse, Reason: api.ReasonNamespaceMissing,
		Message: fmt.Sprintf("not imported where there is no namespace %s: in %s; create it there (kubectl create namespace %[1]s), or start the agents there with --create-namespaces",
			namespace, text.First(clusters, 10)),
	}
}
