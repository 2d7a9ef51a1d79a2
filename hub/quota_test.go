package hub

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A quota that has just changed may count a record that isn't stored yet. Correcting it then would admit one record too many.
func TestAQuotaSettles(t *testing.T) {
	now := time.Unix(0, 0)
	r := &reconciler{now: func() time.Time { return now }, quotas: map[string]quotaSeen{}}
	quota := func(namespace, version string) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{}
		q.Namespace, q.ResourceVersion = namespace, version
		return q
	}
	for _, step := range []struct {
		after              time.Duration
		namespace, version string
		want               bool
	}{
		{0, "a", "1", false},
		{settles - 1, "a", "1", false},
		{1, "a", "1", true},
		{0, "b", "1", false}, // another member's quota
		{time.Hour, "a", "2", false},
		{settles, "a", "2", true},
		{0, "b", "1", true},
		{0, "a", "1", false}, // the hub was set back
	} {
		now = now.Add(step.after)
		if got := r.settled(quota(step.namespace, step.version)); got != step.want {
			t.Errorf("%s at version %s is settled: %t, want %t", step.namespace, step.version, got, step.want)
		}
	}
}
