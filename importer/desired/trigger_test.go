package desired_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/records"
)

// Every write of a slice with a trigger time counts as the end of the change at that time. So a write for another reason
// must not have one.
func TestTriggerTimes(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const key, stated, before = corev1.EndpointsLastChangeTriggerTime, "2026-01-01T11:59:58.5Z", "2026-01-01T11:50:30Z"
	for _, c := range []struct {
		name  string
		after func(*records.Service)
		is    func(**discoveryv1.EndpointSlice)
		want  string
	}{
		{"an endpoint more", func(in *records.Service) {
			e := &in.Endpoints[0].Spec
			e.Endpoints = append(e.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{"10.11.0.2"}})
		}, nil, stated},
		{"another address", func(in *records.Service) { in.Endpoints[0].Spec.Endpoints[0].Addresses[0] = "10.11.0.9" }, nil, stated},
		{"no longer ready", func(in *records.Service) {
			no := false
			in.Endpoints[0].Spec.Endpoints[0].Conditions.Ready = &no
		}, nil, stated},
		{"a slice more", nil, func(is **discoveryv1.EndpointSlice) { *is = nil }, stated},
		{"the same content", nil, nil, ""},
		{"another zone, ours or theirs", func(in *records.Service) {
			zone := "z"
			in.Endpoints[0].Spec.Endpoints[0].Zone = &zone
		}, nil, ""},
		{"another rank", func(in *records.Service) { in.Nodes = []topology.Location{{Zone: "z"}} }, nil, ""},
		{"told before", func(in *records.Service) { in.Endpoints[0].Spec.Endpoints[0].Addresses[0] = "10.11.0.9" }, func(is **discoveryv1.EndpointSlice) {
			(*is).Annotations = map[string]string{key: stated}
		}, ""},
		{"too long ago", func(in *records.Service) { in.Endpoints[0].Annotations[key] = "2026-01-01T11:49:59Z" }, func(is **discoveryv1.EndpointSlice) { *is = nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := records.Input(t, desired.DataPathPods, records.Exported("a", "shop", "web", "10.1.0.1", "10.11.0.1"))
			in.Endpoints[0].Annotations = map[string]string{key: before, "other": "note"}
			is := in.Compute().Slices[0]
			in = records.Input(t, desired.DataPathPods, records.Exported("a", "shop", "web", "10.1.0.1", "10.11.0.1"))
			in.Endpoints[0].Annotations = map[string]string{key: stated, "other": "note"}
			if c.after != nil {
				c.after(&in)
			}
			if c.is != nil {
				c.is(&is)
			}
			got := desired.TriggerTime(is, in.Compute().Slices[0], now)
			if got[key] != c.want || (len(got) > 0) != (c.want != "") || got["other"] != "" {
				t.Errorf("got %v, want the time %q", got, c.want)
			}
		})
	}
}
