// Package nodes has this cluster's nodes: where they are decides what hints endpoints have and what zones the cluster states, and what
// addresses they have is where other networks reach node ports.
package nodes

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/topology"
)

// Node is what matters of a node.
type Node struct {
	Name string
	// At is where it is, from its labels. Cluster is empty, and either of the others may be.
	At    topology.Location
	Ready bool
	// IPs are the first internal address of each family.
	IPs []netip.Addr
}

// Of returns what matters of a Node.
func Of(n *corev1.Node) Node {
	is := Node{Name: n.Name, At: topology.Location{Zone: n.Labels[corev1.LabelTopologyZone], Region: n.Labels[corev1.LabelTopologyRegion]}}
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

// Nodes are a cluster's nodes, as far as they are known. It is safe for concurrent use.
type Nodes struct {
	known chan struct{} // closed once they are known

	mu     sync.Mutex
	all    []Node              // sorted by name; nil until they are known
	places []topology.Location // sorted, without repetition
	tell   []func(ctx context.Context, moved bool)
}

// New returns Nodes of which none is known.
func New() *Nodes { return &Nodes{known: make(chan struct{})} }

// Known is closed once the nodes are known.
func (n *Nodes) Known() <-chan struct{} { return n.known }

// All returns the nodes sorted by name, nil until they are known. Don't change them.
func (n *Nodes) All() []Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all
}

// IPs returns the nodes' addresses, in the order of their names.
func (n *Nodes) IPs() (all []netip.Addr) {
	for _, node := range n.All() {
		all = append(all, node.IPs...)
	}
	return all
}

// Places returns where the nodes are, sorted, none until they are known. Don't change them.
func (n *Nodes) Places() []topology.Location {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.places
}

// Zones returns the zones of the nodes, sorted. known is false until the nodes are known.
func (n *Nodes) Zones() (zones []string, known bool) {
	for _, p := range n.Places() { // of several regions, a zone has several places
		if l := len(zones); p.Zone != "" && (l == 0 || zones[l-1] != p.Zone) {
			zones = append(zones, p.Zone)
		}
	}
	return zones, n.All() != nil
}

// OnChange makes f be called after each change of what matters, one call at a time: f must not wait. moved means that Places has changed.
func (n *Nodes) OnChange(f func(ctx context.Context, moved bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell = append(n.tell, f)
}

// Set makes these the nodes, and tells of it if that is a change.
func (n *Nodes) Set(ctx context.Context, all ...Node) {
	now := append([]Node{}, all...) // not nil: they are known
	slices.SortFunc(now, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	places := make([]topology.Location, len(now))
	for i := range now {
		places[i] = now[i].At
	}
	slices.SortFunc(places, func(a, b topology.Location) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Region, b.Region))
	})
	places = slices.Compact(places)
	n.mu.Lock()
	if n.all == nil {
		close(n.known)
	}
	same, moved := reflect.DeepEqual(n.all, now), !slices.Equal(n.places, places)
	n.all, n.places = now, places
	tell := slices.Clone(n.tell)
	n.mu.Unlock()
	if !same {
		for _, f := range tell {
			f(ctx, moved)
		}
	}
}

// lookEvery is how often the cache of nodes is compared with what is known of them.
const lookEvery = 2 * time.Second

// Watch keeps the nodes up to date until ctx ends. They have a cache of their own: in the manager's, one kind that can't be read would block
// all others.
func (n *Nodes) Watch(ctx context.Context, mgr manager.Manager) error {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: stripped,
	})
	if err != nil {
		return fmt.Errorf("make a cache for nodes: %w", err)
	}
	go func() {
		c.WaitForCacheSync(ctx) // so that it has started
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			var list corev1.NodeList
			if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // it waits for as long as nodes can't be read
				return
			}
			all := make([]Node, len(list.Items))
			for i := range list.Items {
				all[i] = Of(&list.Items[i])
			}
			n.Set(ctx, all...)
		}, lookEvery)
	}()
	return c.Start(ctx)
}

// stripped leaves of a node what Of reads.
func stripped(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		is := Of(n)
		n.ObjectMeta = metav1.ObjectMeta{
			Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion,
			Labels: map[string]string{corev1.LabelTopologyZone: is.At.Zone, corev1.LabelTopologyRegion: is.At.Region},
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
