package importer

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/door/store"
)

// hub is what is known of the hub: a store.Store.
type hub interface {
	members
	Service(key types.NamespacedName) []store.Part
	Export(cluster string, key types.NamespacedName) *door.Export
	Keys(cluster string) []types.NamespacedName
	KeysIn(namespace string) []types.NamespacedName
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
