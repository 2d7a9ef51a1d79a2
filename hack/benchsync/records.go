package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/record"
)

// others returns the number of clusters besides near and far.
func (b *bench) others() int { return b.clusters - 2 }

// fill joins the other clusters and writes the records that their exporters would write: services, every second one headless, each with its
// share of the slices.
func (b *bench) fill(ctx context.Context) error {
	b.say("filling the hub with %d services and %d slices of %d endpoints, of %d clusters", b.services, b.slices, b.endpointsPer, b.others())
	var clusters []string
	for i := range b.others() {
		clusters = append(clusters, other(i))
	}
	if err := b.join(ctx, clusters...); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range b.services {
		group.Go(func() error { return b.hub.Client.Create(ctx, b.exportedService(i)) })
	}
	for i := range b.slices {
		group.Go(func() error { return b.hub.Client.Create(ctx, b.exportedEndpoints(i, 1)) })
	}
	return group.Wait()
}

// join makes members of clusters that have no API server. Each has its own zone.
func (b *bench) join(ctx context.Context, clusters ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, cluster := range clusters {
		group.Go(func() error {
			_, err := join.Join(ctx, join.At(b.hub.Plane.Config()), join.Options{Cluster: cluster, Zone: cluster})
			return err
		})
	}
	return group.Wait()
}

// changeAll replaces the endpoints of every slice.
func (b *bench) changeAll(ctx context.Context) error {
	b.say("changing every slice on the hub")
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range b.slices {
		group.Go(func() error {
			return b.hub.Client.Patch(ctx, b.exportedEndpoints(i, 2), client.MergeFrom(b.exportedEndpoints(i, 1)))
		})
	}
	return group.Wait()
}

func other(i int) string { return fmt.Sprintf("other-%d", i) }

func serviceName(i int) string { return fmt.Sprintf("svc-%d", i) }

// recordsOf returns the records of a cluster's service with one endpoint.
func recordsOf(cluster, service, ip, endpoint string) []client.Object {
	return []client.Object{
		serviceRecord(cluster, service, time.Unix(1, 0), ip),
		endpointsRecord(cluster, service, "slice", []discoveryv1.Endpoint{{Addresses: []string{endpoint}}}),
	}
}

// serviceRecord returns the record of a cluster's service, which is headless if it has no IP.
func serviceRecord(cluster, service string, at time.Time, ips ...string) *clustersetv1alpha1.ExportedService {
	s := &clustersetv1alpha1.ExportedService{
		ObjectMeta: record.Meta(cluster, keyOf(service), api.ExportedServiceName(namespace, service)),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: namespace, ServiceName: service, ExportedAt: metav1.NewTime(at),
			Type: mcsv1beta1.ClusterSetIP, ClusterIPs: ips, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	if len(ips) == 0 {
		s.Spec.Type = mcsv1beta1.Headless
	}
	return s
}

// endpointsRecord returns the record that a cluster's exporter makes of a slice of up to a hundred endpoints.
func endpointsRecord(cluster, service, slice string, endpoints []discoveryv1.Endpoint) *clustersetv1alpha1.ExportedEndpoints {
	name, number, protocol := "http", int32(8080), corev1.ProtocolTCP
	records := record.Endpoints(cluster, keyOf(service), discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: slice},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}},
		Endpoints:   endpoints,
	})
	return &records[0]
}

func keyOf(service string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: service}
}

// exportedService returns the record of the i'th service, which belongs to one of the other clusters.
func (b *bench) exportedService(i int) *clustersetv1alpha1.ExportedService {
	var ips []string
	if i%2 == 0 {
		ips = []string{fmt.Sprintf("10.99.%d.%d", i/250, 1+i%250)}
	}
	return serviceRecord(other(i%b.others()), serviceName(i), time.Now(), ips...)
}

// exportedEndpoints returns the record of the i'th slice. Its addresses depend on the version.
func (b *bench) exportedEndpoints(i, version int) *clustersetv1alpha1.ExportedEndpoints {
	var endpoints []discoveryv1.Endpoint
	for n := range b.endpointsPer {
		id := i*b.endpointsPer + n
		endpoints = append(endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100*version+id/(250*250), id/250%250, 1+id%250)},
		})
	}
	service := i % b.services
	return endpointsRecord(other(service%b.others()), serviceName(service), fmt.Sprintf("slice-%d", i/b.services), endpoints)
}
