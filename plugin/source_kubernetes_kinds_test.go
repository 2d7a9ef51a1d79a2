package clusterset

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// The stated time of a change comes from another cluster and its clock, so it can't be trusted.
func TestWhichChangesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(idle{})
		s.startedAt = time.Now()
		kind := watchedKinds[1]
		store := &store{kind: kind, source: s}
		pass(30 * time.Minute)
		now := time.Now()
		sum := func() (n uint64, seconds float64) {
			var m dto.Metric
			if err := programmingSeconds.WithLabelValues(kind.kind.String()).(prometheus.Metric).Write(&m); err != nil {
				t.Fatal(err)
			}
			return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
		}
		stated := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(time.RFC3339Nano) }
		for _, c := range []struct {
			name, stated string
			began        time.Duration // how long ago
			seconds      float64       // negative if not measured
		}{
			{"a change", stated(1500 * time.Millisecond), 30 * time.Minute, 1.5},
			{"a slow one", stated(9 * time.Minute), 30 * time.Minute, 540},
			{"none", "", 30 * time.Minute, -1},
			{"garbage", "now", 30 * time.Minute, -1},
			{"of a clock that is ahead", stated(-time.Second), 30 * time.Minute, -1},
			{"too long ago", stated(11 * time.Minute), 30 * time.Minute, -1},
			{"absurd", "0001-01-01T00:00:00Z", 30 * time.Minute, -1},
			{"from before the server started", stated(2 * time.Minute), time.Minute, -1},
		} {
			s.startedAt = now.Add(-c.began)
			n, seconds := sum()
			slice := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "web-1",
					Labels:      map[string]string{mcsv1beta1.LabelServiceName: "web", mcsv1beta1.LabelSourceCluster: "a"},
					Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: c.stated},
				},
				AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
			}
			if err := store.Update(slice); err != nil {
				t.Fatal(err)
			}
			n2, seconds2 := sum()
			if measured := n2 > n; measured != (c.seconds >= 0) {
				t.Errorf("%s: measured: %t", c.name, measured)
			} else if got := seconds2 - seconds; measured && (got < c.seconds-0.001 || got > c.seconds+0.001) {
				t.Errorf("%s: %v seconds, want %v", c.name, got, c.seconds)
			}
		}
	})
}
