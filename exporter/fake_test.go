package exporter

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door/store"
)

// fakeHub is what is known of a hub: this cluster's records are in indexers, and the MemberClusters are the hub's.
type fakeHub struct {
	services, endpoints toolscache.Indexer
	hub                 client.Reader
}

func newFakeHub(hub client.Reader) fakeHub {
	empty := func() toolscache.Indexer {
		return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	}
	return fakeHub{empty(), empty(), hub}
}

func (f fakeHub) OwnRecords() (services []*clustersetv1alpha1.ExportedService, endpoints []*clustersetv1alpha1.ExportedEndpoints) {
	for _, o := range f.services.List() {
		services = append(services, o.(*clustersetv1alpha1.ExportedService))
	}
	for _, o := range f.endpoints.List() {
		endpoints = append(endpoints, o.(*clustersetv1alpha1.ExportedEndpoints))
	}
	return services, endpoints
}

func (f fakeHub) Own(key types.NamespacedName) (export *clustersetv1alpha1.ExportedService, of []*clustersetv1alpha1.ExportedEndpoints) {
	services, endpoints := f.OwnRecords()
	for _, s := range services {
		if s.Name == api.ExportedServiceName(key.Namespace, key.Name) {
			export = s
		}
	}
	for _, e := range endpoints {
		if keyOf(e) == key {
			of = append(of, e)
		}
	}
	return export, of
}

func (f fakeHub) Service(types.NamespacedName) []store.Part { return nil }

func (f fakeHub) Member(cluster string) *clustersetv1alpha1.MemberCluster {
	m := &clustersetv1alpha1.MemberCluster{}
	if f.hub.Get(context.Background(), client.ObjectKey{Name: cluster}, m) != nil {
		return nil
	}
	return m
}
