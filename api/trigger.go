package api

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxTriggerAge is the longest that a change is followed on its way to other clusters. What took longer was an outage, which
// other metrics show, and a record that is written again long after the change says nothing about the way.
const MaxTriggerAge = 10 * time.Minute

// TriggerTime returns the time of the change, of a pod or Service, that led to the content of an EndpointSlice or
// ExportedEndpoints with these annotations. ok is false where none states a time.
func TriggerTime(annotations map[string]string) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, annotations[corev1.EndpointsLastChangeTriggerTime])
	return at, err == nil
}

// RecentTriggerTime is TriggerTime without what can't be measured: a time to come, as of a cluster whose clock is ahead, and
// one more than MaxTriggerAge ago.
func RecentTriggerTime(annotations map[string]string, now time.Time) (at time.Time, ok bool) {
	at, ok = TriggerTime(annotations)
	return at, ok && !at.After(now) && now.Sub(at) <= MaxTriggerAge
}
