package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// others are the clusters besides near and far.
func (b *bench) others() int { return b.clusters - 2 }

// fill joins the other clusters and writes what their exporters would have: services, of which every second is headless,
// each with its share of the slices.
func (b *bench) fill(ctx context.Context) error {
	b.say("filling the hub with %d services and %d slices of %d endpoints, of %d clusters", b.services, b.slices, b.endpointsPer, b.others())
	for i := range b.others() {
		if err := b.command(ctx, "join", "--hub-kubeconfig", b.hub.Plane.Kubeconfig(), "--name", other(i), "--zone", other(i)); err != nil {
			return err
		}
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

// changeAll gives every slice other endpoints.
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

// meta is that of a record of the i'th service, whose cluster is one of the others.
func (b *bench) meta(i int, name string) metav1.ObjectMeta {
	return recordMeta(other(i%b.others()), serviceName(i), name)
}

func recordMeta(cluster, service, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: name, Labels: map[string]string{
		api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: cluster,
		api.LabelExportedNamespace: namespace, api.LabelExportedName: service,
	}}
}

// recordsOf are the records of a cluster's service of one endpoint.
func recordsOf(cluster, service, ip, endpoint string) []client.Object {
	name, number, protocol := "http", int32(8080), corev1.ProtocolTCP
	return []client.Object{
		&clustersetv1alpha1.ExportedService{
			ObjectMeta: recordMeta(cluster, service, api.ExportedServiceName(namespace, service)),
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: namespace, ServiceName: service, ExportedAt: metav1.NewTime(time.Unix(1, 0)),
				Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Ports: []clustersetv1alpha1.ServicePort{{Name: name, Protocol: protocol, Port: 80}},
			},
		},
		&clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: recordMeta(cluster, service, api.ExportedEndpointsName(namespace, service, "slice", 0)),
			Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				ServiceNamespace: namespace, ServiceName: service, AddressType: discoveryv1.AddressTypeIPv4,
				Ports:     []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{endpoint}}},
			},
		},
	}
}

func (b *bench) exportedService(i int) *clustersetv1alpha1.ExportedService {
	s := &clustersetv1alpha1.ExportedService{
		ObjectMeta: b.meta(i, api.ExportedServiceName(namespace, serviceName(i))),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: namespace, ServiceName: serviceName(i),
			ExportedAt: metav1.NewTime(time.Now()),
			Type:       mcsv1beta1.Headless,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	if i%2 == 0 {
		s.Spec.Type, s.Spec.ClusterIPs = mcsv1beta1.ClusterSetIP, []string{fmt.Sprintf("10.99.%d.%d", i/250, 1+i%250)}
	}
	return s
}

// exportedEndpoints is the i'th slice in its version'th state.
func (b *bench) exportedEndpoints(i, version int) *clustersetv1alpha1.ExportedEndpoints {
	service := i % b.services
	name, number, protocol := "http", int32(8080), corev1.ProtocolTCP
	e := &clustersetv1alpha1.ExportedEndpoints{
		ObjectMeta: b.meta(service, api.ExportedEndpointsName(namespace, serviceName(service), fmt.Sprintf("slice-%d", i/b.services), 0)),
		Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: namespace, ServiceName: serviceName(service),
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}},
		},
	}
	for n := range b.endpointsPer {
		id := i*b.endpointsPer + n
		e.Spec.Endpoints = append(e.Spec.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100*version+id/(250*250), id/250%250, 1+id%250)},
		})
	}
	return e
}
