package desired

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
)

// A slice that lost its content to the cache is compared as if it had it, and each part of the content makes a difference. Rule D28 of
// docs/spec/data-path.md.
func TestDigests(t *testing.T) {
	slice := func() *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: Labels(), Annotations: map[string]string{api.AnnotationRecord: "web.shop.a", "note": "x"}},
			Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.1.0.1"}, Zone: new("a"), Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}},
			}},
		}
	}
	strip := func(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		for range 2 { // again, it changes nothing
			o, err := Strip(s)
			if err != nil {
				t.Fatal(err)
			}
			s = o.(*discoveryv1.EndpointSlice)
		}
		return s
	}
	is := strip(slice())
	if !Stripped(is) || len(is.Endpoints)+len(is.Ports)+len(Stored(is)) > 0 || is.Annotations["note"] != "x" {
		t.Errorf("stripped: %+v", is)
	}
	if !SameContent(is, slice()) || !sameEndpoints(is, slice()) {
		t.Error("it differs from what it was")
	}
	for name, c := range map[string]struct {
		change    func(*discoveryv1.EndpointSlice)
		endpoints bool // stay the same in their own cluster
	}{
		"address":    {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.1.0.2" }, false},
		"condition":  {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) }, false},
		"zone":       {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Zone = new("b") }, true},
		"hostname":   {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hostname = new("web-0") }, true},
		"hints":      {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Hints.ForZones[0].Name = "b" }, true},
		"port":       {func(s *discoveryv1.EndpointSlice) { *s.Ports[0].Port = 81 }, true},
		"record":     {func(s *discoveryv1.EndpointSlice) { s.Annotations[api.AnnotationRecord] = "web.shop.b" }, true},
		"no address": {func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }, false},
	} {
		changed := slice()
		c.change(changed)
		if SameContent(is, changed) || SameContent(changed, is) || sameEndpoints(is, changed) != c.endpoints {
			t.Errorf("%s: same content %v, same endpoints %v", name, SameContent(is, changed), sameEndpoints(is, changed))
		}
		if !SameContent(strip(changed.DeepCopy()), changed) {
			t.Errorf("%s: stripped, it differs", name)
		}
	}
	foreign := slice()
	foreign.Labels = nil
	if strip(foreign); len(foreign.Endpoints) == 0 {
		t.Error("somebody else's slice lost its content")
	}
}
