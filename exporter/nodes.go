package exporter

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/api"
)

// nodes knows the nodes at whose ports Services are reached, and which services use them.
type nodes struct {
	changed func(context.Context, []types.NamespacedName) bool // of services
	report  func([]netip.Addr)                                 // Options.Nodes

	mu    sync.Mutex
	known bool
	of    map[string]Node
	users map[types.NamespacedName]bool
}

func newNodes(changed func(context.Context, []types.NamespacedName) bool, report func([]netip.Addr)) *nodes {
	return &nodes{changed: changed, report: report, of: map[string]Node{}, users: map[types.NamespacedName]bool{}}
}

// all returns the nodes, sorted by name, or nil until they are known. The service is told when they change.
func (n *nodes) all(user types.NamespacedName) []Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users[user] = true
	if !n.known {
		return nil
	}
	all := make([]Node, 0, len(n.of))
	for _, node := range n.of {
		all = append(all, node)
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (n *nodes) forget(user types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.users, user)
}

// run watches the nodes until ctx ends. They have a cache of their own: in the manager's, one kind that can't be read would block all others.
func (n *nodes) run(ctx context.Context, mgr manager.Manager) error {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: onlyReach,
	})
	if err != nil {
		return fmt.Errorf("make a cache for nodes: %w", err)
	}
	informer, err := c.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.set(ctx, o, false) },
		UpdateFunc: func(_, o any) { n.set(ctx, o, false) },
		DeleteFunc: func(o any) { n.set(ctx, o, true) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			n.mu.Lock()
			n.known = true
			n.mu.Unlock()
			n.tell(ctx)
		}
	}()
	return c.Start(ctx)
}

// set records a node, or that it is gone.
func (n *nodes) set(ctx context.Context, o any, gone bool) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	object, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	is := NodeOf(object)
	n.mu.Lock()
	was, had := n.of[is.Name]
	same := had != gone && (gone || was.Zone == is.Zone && was.Ready == is.Ready && slices.Equal(was.IPs, is.IPs))
	if gone {
		delete(n.of, is.Name)
	} else {
		n.of[is.Name] = is
	}
	known := n.known
	n.mu.Unlock()
	if !same && known {
		n.tell(ctx)
	}
}

// tell tells the services that use nodes, and reports the addresses.
func (n *nodes) tell(ctx context.Context) {
	n.mu.Lock()
	users := make([]types.NamespacedName, 0, len(n.users))
	for user := range n.users {
		users = append(users, user)
	}
	var addresses []netip.Addr
	for _, node := range n.of {
		addresses = append(addresses, node.IPs...)
	}
	n.mu.Unlock()
	n.report(addresses)
	n.changed(ctx, users)
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
