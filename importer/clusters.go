package importer

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/damping"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/door/store"
)

// clusters remember the hub's MemberClusters as services were last enqueued for them, and which were down when a service was last reconciled.
type clusters struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	seen map[string]*clustersetv1alpha1.MemberCluster
	down map[string]*damping.Damper
}

func newClusters(c clock.PassiveClock) *clusters {
	return &clusters{clock: c, seen: map[string]*clustersetv1alpha1.MemberCluster{}, down: map[string]*damping.Damper{}}
}

// change is what changed of a MemberCluster since services were last enqueued for it.
type change struct {
	// now: its phase, drain or membership. What leads to it must go or come.
	now bool
	// place: where it is, or with whom it shares exports.
	place bool
	// networks decide which external addresses of other clusters are used.
	networks bool
}

// look returns what changed of a MemberCluster.
func (c *clusters) look(name string, from members) change {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, is := c.seen[name], from.Member(name)
	c.seen[name] = is
	if is == nil {
		delete(c.seen, name)
	}
	return changeOf(was, is)
}

func changeOf(was, is *clustersetv1alpha1.MemberCluster) change {
	if was == is {
		return change{}
	}
	if was == nil || is == nil {
		return change{now: true, networks: len(cmp.Or(was, is).Spec.CIDRs) > 0}
	}
	return change{
		now: was.Status.Phase != is.Status.Phase || was.Spec.Drain != is.Spec.Drain || was.Left() != is.Left() || !was.ForgottenAt().Equal(is.ForgottenAt()) ||
			was.UID != is.UID,
		place:    !equality.Semantic.DeepEqual(was.Spec, is.Spec) || !slices.Equal(was.Status.Zones, is.Status.Zones),
		networks: was.Apart(is) || !slices.Equal(was.Spec.CIDRs, is.Spec.CIDRs) || len(is.Spec.CIDRs) > 0 && was.Left() != is.Left(),
	}
}

// returning returns for how much longer a cluster must be Ready before it is used again; 0: it may be used (D5). A drain is set by a person and takes
// effect at once. m is its MemberCluster on the hub, nil if that is gone.
func (c *clusters) returning(name string, m *clustersetv1alpha1.MemberCluster) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m == nil {
		delete(c.down, name)
		return 0
	}
	d := c.down[name]
	if d == nil {
		d = &damping.Damper{}
		c.down[name] = d
	}
	now := c.clock.Now()
	d.Note(m.Status.Phase == clustersetv1alpha1.MemberSuspect || m.Status.Phase == clustersetv1alpha1.MemberExpired, now)
	return d.Left(now)
}

// hub is what is known of the hub: a store.Store.
type hub interface {
	members
	Service(key types.NamespacedName) []store.Part
	Export(cluster string, key types.NamespacedName) *door.Export
	Keys(cluster string) []types.NamespacedName
	All() []types.NamespacedName
	Services(cluster string) int
	HasSynced() bool
	Read(cluster string) bool
	State() store.State
	OnRecords(changed func(cluster string, key types.NamespacedName))
	OnMember(changed func(name string))
}

// members are MemberClusters: the hub's, or the copies here. They must not be changed.
type members interface {
	Member(name string) *clustersetv1alpha1.MemberCluster
	Members() []*clustersetv1alpha1.MemberCluster
}

// copies are the MemberClusters of this cluster.
type copies struct{ cache client.Reader }

// Member implements members. A cache that has synced fails only when the process is stopping.
func (c copies) Member(name string) *clustersetv1alpha1.MemberCluster {
	m := &clustersetv1alpha1.MemberCluster{}
	if c.cache.Get(context.Background(), client.ObjectKey{Name: name}, m, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return m
}

// Members implements members.
func (c copies) Members() (all []*clustersetv1alpha1.MemberCluster) {
	var list clustersetv1alpha1.MemberClusterList
	_ = c.cache.List(context.Background(), &list, client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}
