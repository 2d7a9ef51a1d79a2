package importer

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// If sameSliceEndpoint ignored a field, that field would never be updated. So a difference in any of an Endpoint's
// fields must count.
func TestSameSliceEndpointSeesEachField(t *testing.T) {
	text, no := "x", false
	full := discoveryv1.Endpoint{
		Addresses:  []string{"10.1.0.1"},
		Conditions: discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &no},
		Hostname:   &text, TargetRef: &corev1.ObjectReference{Name: "x"}, DeprecatedTopology: map[string]string{"x": "x"},
		NodeName: &text, Zone: &text, Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "x"}}},
	}
	if again := *full.DeepCopy(); !sameSliceEndpoint(full, again) {
		t.Errorf("a copy differs: %+v", again)
	}
	var lacks func(of, in reflect.Value, path string, whole *discoveryv1.Endpoint)
	lacks = func(of, in reflect.Value, path string, whole *discoveryv1.Endpoint) {
		for i := range of.NumField() {
			name := path + of.Type().Field(i).Name
			if of.Field(i).Kind() == reflect.Struct {
				lacks(of.Field(i), in.Field(i), name+".", whole)
				continue
			}
			if of.Field(i).IsZero() {
				t.Errorf("the test sets no %s", name)
			}
			was := reflect.ValueOf(in.Field(i).Interface())
			in.Field(i).SetZero()
			if equality.Semantic.DeepEqual(full, *whole) || sameSliceEndpoint(full, *whole) {
				t.Errorf("%s makes no difference", name)
			}
			in.Field(i).Set(was)
		}
	}
	without := *full.DeepCopy()
	lacks(reflect.ValueOf(full), reflect.ValueOf(&without).Elem(), "", &without)
}
