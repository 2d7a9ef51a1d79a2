package importer

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// A field that isn't compared would never be written.
func TestEveryFieldOfAnEndpointIsCompared(t *testing.T) {
	text, no := "x", false
	full := fabedgev1alpha1.Endpoint{
		Addresses: []string{"10.0.0.1"}, Hostname: &text, TargetRef: &corev1.ObjectReference{}, Cluster: "c", Zone: "z", Region: "r", Ready: &no,
		Ports: []fabedgev1alpha1.EndpointPort{{Name: "http"}},
	}
	all := reflect.ValueOf(full)
	for i := range all.NumField() {
		var one fabedgev1alpha1.Endpoint
		reflect.ValueOf(&one).Elem().Field(i).Set(all.Field(i))
		if all.Field(i).IsZero() || sameEndpoint(one, fabedgev1alpha1.Endpoint{}) {
			t.Errorf("%s is not compared", all.Type().Field(i).Name)
		}
	}
	if n := reflect.TypeFor[fabedgev1alpha1.GlobalServiceSpec]().NumField(); n != 3 {
		t.Errorf("isGlobal knows three fields of the spec, which has %d", n)
	}
}
