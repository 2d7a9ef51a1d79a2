package v1alpha1

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
)

// endpoints returns a valid ExportedEndpoints in which Sanitized has nothing to fill in, changed by f.
func endpoints(f func(*ExportedEndpoints)) *ExportedEndpoints {
	e := &ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-beijing", Name: api.ExportedEndpointsName("shop", "web", "web-abc", 0)},
		Spec: ExportedEndpointsSpec{
			ServiceNamespace: "shop",
			ServiceName:      "web",
			AddressType:      discoveryv1.AddressTypeIPv4,
			Endpoints: []Endpoint{
				{Addresses: []string{"10.1.0.1"}, Hostname: ptr("web-0"), Zone: ptr("beijing"), Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)}},
				{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false), Terminating: ptr(true)}},
			},
			Ports: []EndpointPort{{Name: ptr("http"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(8080))}},
		},
	}
	if f != nil {
		f(e)
	}
	return e
}

func TestExportedEndpointsSanitized(t *testing.T) {
	sanitizeAll(t, "testdata/cases/endpoints.yaml", endpoints(nil))
	t.Run("too many endpoints", func(t *testing.T) {
		with := func(n int) *ExportedEndpoints {
			return endpoints(func(e *ExportedEndpoints) {
				e.Spec.Endpoints = append(e.Spec.Endpoints, slices.Repeat([]Endpoint{{Addresses: []string{"10.1.0.3"}}}, n)...)
			})
		}
		sanitizes(t, with(api.MaxExportedEndpoints), with(api.MaxExportedEndpoints-2), []string{"spec.endpoints: Too many: 102: must have at most 100 items"})
	})
}
