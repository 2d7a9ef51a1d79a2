// Package largeset makes a hub's records of a large set, for tests of what the console does with one.
package largeset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Clusters and Services are their numbers.
const (
	Clusters = 250
	Services = 5000
)

// Records returns the records of clusters cluster-000… in 25 zones and 5 regions, and of services ns-0/svc-0…, fifty in a namespace. Every
// cluster exports the first; each other one is exported by a number of clusters, with ready endpoints.
func Records(exporters, endpoints int) (all []runtime.Object) {
	name := func(cluster int) string { return fmt.Sprintf("cluster-%03d", cluster%Clusters) }
	for i := range Clusters {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
		m.Spec.Zone, m.Spec.Region = fmt.Sprintf("zone-%02d", i%25), fmt.Sprintf("region-%d", i%5)
		m.Status.Phase, m.Status.AgentVersion = clustersetv1alpha1.MemberReady, "v0.12.0"
		all = append(all, m)
	}
	for s := range Services {
		by := exporters
		if s == 0 {
			by = Clusters
		}
		for i := range by {
			cluster := s + i*Clusters/by
			ns, svc := fmt.Sprintf("ns-%d", s/50), fmt.Sprintf("svc-%d", s)
			meta := metav1.ObjectMeta{Namespace: api.MemberNamespace(name(cluster)), Name: api.ExportedServiceName(ns, svc)}
			all = append(all, &clustersetv1alpha1.ExportedService{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: ns, ServiceName: svc, Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{fmt.Sprintf("10.%d.%d.%d", cluster%Clusters, s/250, s%250+1)},
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, ExportedAt: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
				Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			}})
			meta.Name += ".x-0"
			slice := &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedEndpointsSpec{ServiceNamespace: ns, ServiceName: svc, AddressType: discoveryv1.AddressTypeIPv4}}
			for e := range endpoints {
				slice.Spec.Endpoints = append(slice.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{fmt.Sprintf("%d.%d.%d.%d", 11+e, cluster%Clusters, s/250, s%250)}})
			}
			all = append(all, slice)
		}
	}
	return all
}
