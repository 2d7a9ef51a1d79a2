package exporter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/exporter/membership"
)

func leaseOf(uid string, renewed time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed)
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	if uid != "" {
		lease.Annotations = map[string]string{api.AnnotationClusterUID: uid}
	}
	return lease
}

// Rule C26 of docs/spec/control-plane.md: who loses the name to another cluster stops, and goes on once that is silent.
func TestLosingTheNameStopsTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var renewals atomic.Int32
		name := &claim{
			uid:  func(context.Context) (string, error) { return "us", nil },
			name: membership.Name{Run: "1", Interval: 10 * time.Second},
			tell: func(context.Context, string, string, string) {}, report: func(context.Context) {},
		}
		var ours *coordinationv1.Lease
		name.lease = func(context.Context) (*coordinationv1.Lease, error) {
			if at := time.Since(began); renewals.Load() >= 3 && at < 5*time.Minute {
				return leaseOf("them", began.Add(at)), nil
			} else if renewals.Load() == 3 {
				return leaseOf("them", began.Add(5*time.Minute)), nil
			}
			return ours, nil
		}
		if err := name.take(t.Context()); err != nil || !name.held() {
			t.Fatal(err)
		}
		h := &heartbeat{claim: name, renew: func(context.Context) error {
			renewals.Add(1)
			ours = leaseOf("us", name.renewing(metav1.NowMicro()).Time)
			ours.Annotations[api.AnnotationRun] = "1"
			name.name.Renewed()
			return nil
		}}
		h.start(t)
		elapse(time.Minute)
		if renewals.Load() != 3 || name.held() || !errors.Is(name.unheard(), suspendedByOther) {
			t.Errorf("after a minute: %d renewals, %v", renewals.Load(), name.unheard())
		}
		elapse(4*time.Minute + 51*time.Second)
		if renewals.Load() < 4 || !name.held() {
			t.Errorf("%d renewals, and the other has been silent for 50 s", renewals.Load())
		}
	})
}
