package importer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/importer/desired"
)

// nodesTimeout is how long the start waits for the nodes. Names and addresses must work even without the right to read nodes.
const nodesTimeout = 10 * time.Second

// nodes has the locations of this cluster's nodes. It watches only their metadata, so that their status, which changes all the
// time, is neither decoded nor kept. So it doesn't know whether they are ready. It doesn't need to: kube-proxy looks for its
// own node's zone among the hints, and an extra zone there does no harm.
type nodes struct {
	// changed is called when a location changed.
	changed func()

	mu    sync.Mutex
	known bool                         // whether all nodes are in the maps
	of    map[string]desired.NodePlace // by the node's name
	count map[desired.NodePlace]int
}

func newNodes(changed func()) *nodes {
	return &nodes{changed: changed, of: map[string]desired.NodePlace{}, count: map[desired.NodePlace]int{}}
}

// places returns where the nodes are, sorted.
func (n *nodes) places() []desired.NodePlace {
	n.mu.Lock()
	defer n.mu.Unlock()
	places := make([]desired.NodePlace, 0, len(n.count))
	for p := range n.count {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b desired.NodePlace) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Region, b.Region))
	})
	return places
}

// zones returns the zones of the nodes, sorted. known is false until all nodes have been read.
func (n *nodes) zones() (zones []string, known bool) {
	for _, p := range n.places() {
		if l := len(zones); p.Zone != "" && (l == 0 || zones[l-1] != p.Zone) {
			zones = append(zones, p.Zone)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return zones, n.known
}

// allKnown records that all nodes have been read.
func (n *nodes) allKnown() {
	n.mu.Lock()
	n.known = true
	n.mu.Unlock()
	n.changed()
}

// set records a node's location, or that it is gone.
func (n *nodes) set(name string, labels map[string]string, gone bool) {
	n.mu.Lock()
	was, known := n.of[name]
	is := desired.NodePlace{Zone: labels[corev1.LabelTopologyZone], Region: labels[corev1.LabelTopologyRegion]}
	if known && !gone && was == is || !known && gone {
		n.mu.Unlock()
		return
	}
	differ := false
	if known {
		n.count[was]--
		if n.count[was] == 0 {
			delete(n.count, was)
			differ = true
		}
	}
	if gone {
		delete(n.of, name)
	} else {
		n.of[name] = is
		n.count[is]++
		differ = differ || n.count[is] == 1
	}
	n.mu.Unlock()
	if differ {
		n.changed()
	}
}

// start watches the nodes until ctx ends. It returns when they are known or after nodesTimeout.
func (n *nodes) start(ctx context.Context, mgr manager.Manager) error {
	// Not in the manager's cache, where one kind that can't be read would block all others.
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: onlyPlace,
	})
	if err != nil {
		return fmt.Errorf("make a cache for nodes: %w", err)
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	informer, err := c.GetInformer(ctx, node, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.event(o, false) },
		UpdateFunc: func(_, o any) { n.event(o, false) },
		DeleteFunc: func(o any) { n.event(o, true) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	go func() { _ = c.Start(ctx) }() // fails only if it is started twice
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			n.allKnown()
		}
	}()
	wait, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	if !toolscache.WaitForCacheSync(wait.Done(), registration.HasSynced) && ctx.Err() == nil {
		logf.FromContext(ctx).Info("Can't read this cluster's nodes: the account needs the right to get, list and watch them. " +
			"Until then endpoints behind ClusterSetIPs are ranked from this cluster's location, not from each node's zone")
	}
	return nil
}

// onlyPlace strips a node down to what places needs.
func onlyPlace(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			Labels: map[string]string{
				corev1.LabelTopologyZone: m.Labels[corev1.LabelTopologyZone], corev1.LabelTopologyRegion: m.Labels[corev1.LabelTopologyRegion],
			},
		}
	}
	return o, nil
}

func (n *nodes) event(o any, gone bool) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		n.set(m.Name, m.Labels, gone)
	}
}
