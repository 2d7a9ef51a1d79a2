package exporter

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

var (
	epoch = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	web   = types.NamespacedName{Namespace: "shop", Name: "web"}
)

// service returns shop/web as an API server would return it.
func service(change ...func(*corev1.Service)) *corev1.Service {
	policy := corev1.ServiceInternalTrafficPolicyCluster
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: "service-uid"},
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeClusterIP,
			ClusterIP:             "10.96.0.10",
			ClusterIPs:            []string{"10.96.0.10"},
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:                 []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: &policy,
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func export(change ...func(*mcsv1beta1.ServiceExport)) *mcsv1beta1.ServiceExport {
	e := &mcsv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: "export-uid", CreationTimestamp: epoch, Generation: 1},
	}
	for _, c := range change {
		c(e)
	}
	return e
}

// slice returns an EndpointSlice with n endpoints, 10.1.0.1 and so on.
func slice(name string, n int, change ...func(*discoveryv1.EndpointSlice)) discoveryv1.EndpointSlice {
	port, http, tcp, zone, node := int32(8080), "http", corev1.ProtocolTCP, "cn-north-1a", "node-1"
	s := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: web.Namespace, Name: name,
			Labels: map[string]string{
				api.LabelKubernetesServiceName:  web.Name,
				api.LabelEndpointSliceManagedBy: "endpointslice-controller.k8s.io",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &http, Protocol: &tcp, Port: &port}},
	}
	ready := true
	for i := range n {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			NodeName:   &node,
			Zone:       &zone,
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "web-0"},
		})
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func exported(slices ...discoveryv1.EndpointSlice) Source {
	return Source{Cluster: "beijing", Key: web, Service: service(), Export: export(), Slices: slices}
}
