package hub_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/hub/liveness"
	"github.com/clusterset/clusterset/test/hubtest"
	"github.com/clusterset/clusterset/test/kube"
)

// world is a hub's API server with some members. Those in beating renew their Leases.
type world struct {
	*testing.T
	plane   *kube.ControlPlane
	admin   client.Client
	beating chan []string

	maxServices int
}

// newWorld makes a world for this test alone. That lets tests run in parallel, because they spend most of their time waiting.
func newWorld(t *testing.T, members ...string) *world {
	t.Helper()
	t.Parallel()
	return newWorldOn(t, kube.Start(t), members...)
}

func newWorldOn(t *testing.T, plane *kube.ControlPlane, members ...string) *world {
	t.Helper()
	w := &world{T: t, plane: plane, admin: hubtest.Admin(t, plane), beating: make(chan []string)}
	for _, name := range members {
		if _, err := join.Join(t.Context(), join.At(w.plane.Config()), join.Options{Cluster: name}); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		w.beat(ctx)
	}()
	w.beating <- members
	return w
}

// beat renews the Leases of all running members, ten times within the 2 s after which the hub suspects a member in these tests.
func (w *world) beat(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var alive []string
	for {
		select {
		case <-ctx.Done():
			return
		case alive = <-w.beating:
		case <-tick.C:
		}
		for _, name := range alive {
			lease := coordinationv1ac.Lease(api.HeartbeatLease, api.MemberNamespace(name)).
				WithSpec(coordinationv1ac.LeaseSpec().WithRenewTime(metav1.NowMicro()).WithHolderIdentity(name))
			if err := w.admin.Apply(ctx, lease, client.FieldOwner("test"), client.ForceOwnership); err != nil && ctx.Err() == nil {
				w.Errorf("heartbeat of %s: %v", name, err)
			}
		}
	}
}

// run runs the hub process until stop is called or the test ends.
func (w *world) run() (stop func()) {
	w.Helper()
	thresholds := liveness.Thresholds{Suspect: 2 * time.Second, Expire: 5 * time.Second, Forget: 12 * time.Second, Left: 10 * time.Second}
	return hubtest.Run(w.T, w.plane.Config(), func(mgr manager.Manager) error {
		return hub.Setup(mgr, hub.Options{Thresholds: thresholds, MaxServices: w.maxServices})
	})
}

func (w *world) member(name string) (*clustersetv1alpha1.MemberCluster, error) {
	mc := &clustersetv1alpha1.MemberCluster{}
	err := w.admin.Get(w.Context(), types.NamespacedName{Name: name}, mc)
	return mc, err
}

// awaitPhase waits until all these members are in that phase.
func (w *world) awaitPhase(phase clustersetv1alpha1.MemberClusterPhase, names ...string) {
	w.Helper()
	kube.Eventually(w, func() error {
		for _, name := range names {
			if mc, err := w.member(name); err != nil || mc.Status.Phase != phase {
				return fmt.Errorf("%s is %q, want %q; %w", name, mc.Status.Phase, phase, err)
			}
		}
		return nil
	})
}

func (w *world) awaitEvents(name string, reasons ...string) {
	w.Helper()
	kube.Eventually(w, func() error {
		var events eventsv1.EventList
		if err := w.admin.List(w.Context(), &events); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, e := range events.Items {
			if e.Regarding.Name == name && e.Regarding.Kind == "MemberCluster" {
				seen[e.Reason] = true
			}
		}
		var missing []error
		for _, r := range reasons {
			if !seen[r] {
				missing = append(missing, fmt.Errorf("no Event %s about %s", r, name))
			}
		}
		return errors.Join(missing...)
	})
}
