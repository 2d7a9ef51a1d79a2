package desired

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
)

// triggerTime is the annotation that states when a slice's endpoints changed.
const triggerTime = corev1.EndpointsLastChangeTriggerTime

// TriggerTime returns the annotation that states when a slice's endpoints changed, if writing the slice brings such a change here. is is the slice
// that is there, or nil. No other write may have it: DNS servers and kube-proxies that measure how long a change takes regard every write as the end
// of the stated change. So there is none if only rank or hints changed, or if the change was too long ago.
func TriggerTime(is, want *discoveryv1.EndpointSlice, now time.Time) map[string]string {
	stated := want.Annotations[triggerTime]
	if _, recent := api.RecentTriggerTime(want.Annotations, now); !recent {
		return nil
	}
	if is != nil && (is.Annotations[triggerTime] == stated || sameEndpoints(is, want)) {
		return nil
	}
	return map[string]string{triggerTime: stated}
}
