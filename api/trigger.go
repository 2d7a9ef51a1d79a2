package api

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxTriggerAge is the longest time for which the propagation of a change to other clusters is measured. A longer time means
// an outage, which other metrics show, or a record that was rewritten long after the change.
const MaxTriggerAge = 10 * time.Minute

// TriggerTime returns the time of the change, of a pod or Service, that led to the content of an EndpointSlice or
// ExportedEndpoints with these annotations. ok is false if none states a time.
func TriggerTime(annotations map[string]string) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339Nano, annotations[corev1.EndpointsLastChangeTriggerTime])
	return at, err == nil
}

// RecentTriggerTime is TriggerTime without times that can't be measured: those in the future, from a cluster whose clock is
// ahead, and those more than MaxTriggerAge ago.
func RecentTriggerTime(annotations map[string]string, now time.Time) (at time.Time, ok bool) {
	at, ok = TriggerTime(annotations)
	return at, ok && !at.After(now) && now.Sub(at) <= MaxTriggerAge
}
