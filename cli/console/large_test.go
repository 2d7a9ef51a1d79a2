package console

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/record"
)

// large returns the records of a hub with 250 clusters in 30 zones, and 5,000 services with 5 exporters and 10 endpoints
// each.
func large() (objects []kruntime.Object) {
	zone := func(cluster int) string { return fmt.Sprintf("z%02d", cluster%30) }
	name := func(cluster int) string { return fmt.Sprintf("c%03d", cluster%250) }
	for i := range 250 {
		m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
		m.Spec.Region, m.Status.Phase = fmt.Sprintf("r%d", i%10), clustersetv1alpha1.MemberReady
		m.Status.Zones = []string{zone(i), zone(i + 1)}
		objects = append(objects, m)
	}
	for i := range 5000 {
		for j := range 5 {
			cluster := i/20 + 50*j
			e, s := export(name(cluster), types.NamespacedName{Namespace: fmt.Sprintf("ns%02d", i%50), Name: fmt.Sprintf("svc%04d", i)}, zone(cluster), 10)
			objects = append(objects, e, s)
		}
	}
	return objects
}

// export returns a cluster's records of a service.
func export(cluster string, key types.NamespacedName, zone string, ready int) (*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpoints) {
	e := &clustersetv1alpha1.ExportedService{
		ObjectMeta: record.Meta(cluster, key, api.ExportedServiceName(key.Namespace, key.Name)),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: key.Namespace, ServiceName: key.Name, Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{"10.96.0.10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, ExportedAt: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name + "-1"}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
	}
	for i := range ready {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}, Zone: &zone})
	}
	return e, &record.Endpoints(cluster, key, slice)[0]
}
