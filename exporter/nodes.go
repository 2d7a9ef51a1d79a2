package exporter

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/api"
)

// nodes knows the nodes at whose ports Services are reached, and which services use them.
type nodes struct {
	changed func(context.Context, []types.NamespacedName) bool // of services
	report  func([]netip.Addr)                                 // Options.Nodes

	mu    sync.Mutex
	known []Node // sorted by name; nil until they are known
	users sets.Set[types.NamespacedName]
}

func newNodes(changed func(context.Context, []types.NamespacedName) bool, report func([]netip.Addr)) *nodes {
	return &nodes{changed: changed, report: report, users: sets.New[types.NamespacedName]()}
}

// all returns the nodes, or nil until they are known. The service is told when they change.
func (n *nodes) all(user types.NamespacedName) []Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users.Insert(user)
	return n.known
}

func (n *nodes) forget(user types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users.Delete(user)
}

// run watches the nodes until ctx ends. They have a cache of their own: in the manager's, one kind that can't be read would block all others.
func (n *nodes) run(ctx context.Context, mgr manager.Manager) error {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: onlyReach,
	})
	if err != nil {
		return fmt.Errorf("make a cache for nodes: %w", err)
	}
	go func() {
		_ = follow(ctx, c, &corev1.Node{}, func() {
			var list corev1.NodeList
			if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err == nil { // a cache that has synced answers
				n.set(ctx, list.Items)
			}
		})
	}()
	return c.Start(ctx)
}

// set records the nodes. If they have changed, it tells the services that use them, and reports the addresses.
func (n *nodes) set(ctx context.Context, all []corev1.Node) {
	now := make([]Node, len(all))
	var addresses []netip.Addr
	for i := range all {
		now[i] = NodeOf(&all[i])
		addresses = append(addresses, now[i].IPs...)
	}
	slices.SortFunc(now, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	n.mu.Lock()
	same := reflect.DeepEqual(n.known, now)
	n.known = now
	users := n.users.UnsortedList()
	n.mu.Unlock()
	if !same {
		n.report(addresses)
		n.changed(ctx, users)
	}
}

// onlyReach strips a node down to its name, zone, addresses and readiness.
func onlyReach(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		is := NodeOf(n)
		n.ObjectMeta = metav1.ObjectMeta{
			Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: map[string]string{corev1.LabelTopologyZone: is.Zone},
		}
		n.Spec, n.Status = corev1.NodeSpec{}, corev1.NodeStatus{}
		for _, ip := range is.IPs {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
		}
		if is.Ready {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
	}
	return o, nil
}

// NodeOf returns what external addresses need of a Node.
func NodeOf(n *corev1.Node) Node {
	is := Node{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone]}
	for _, c := range n.Status.Conditions {
		is.Ready = is.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	for _, a := range n.Status.Addresses {
		addr, err := api.ParseAddress(a.Address)
		if err != nil || a.Type != corev1.NodeInternalIP {
			continue
		}
		// kube-proxy's nftables mode serves node ports at the first address of each family alone.
		if !slices.ContainsFunc(is.IPs, func(have netip.Addr) bool { return have.Is4() == addr.Is4() }) {
			is.IPs = append(is.IPs, addr)
		}
	}
	return is
}
