package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/connect"
)

// The rule is of docs/spec/control-plane.md.

// waitedOn is a hub with MemberClusters, and the Leases and reports of those that are heard.
type waitedOn struct {
	t   *testing.T
	hub *objects.Cluster
}

func newWaitedOn(t *testing.T, members ...*clustersetv1alpha1.MemberCluster) waitedOn {
	b := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithStatusSubresource(&clustersetv1alpha1.MemberCluster{}).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
	for _, m := range members {
		b.WithObjects(m)
	}
	return waitedOn{t, &objects.Cluster{Client: b.Build(), What: "hub"}}
}

func memberIn(name string, phase clustersetv1alpha1.MemberClusterPhase, drained bool) *clustersetv1alpha1.MemberCluster {
	m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Status.Phase, m.Spec.Drain = phase, drained
	return m
}

// beat is a heartbeat, and a report of what it follows and can't follow.
func (w waitedOn) beat(cluster, follows, cantFollow string) {
	w.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now()))
	report := &clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: clustersetv1alpha1.MemberReportName}}
	report.Spec = clustersetv1alpha1.MemberReportSpec{Follows: follows, CantFollow: cantFollow}
	for _, o := range []client.Object{lease, report} {
		if err := errors.Join(client.IgnoreNotFound(w.hub.Delete(w.t.Context(), o)), w.hub.Create(w.t.Context(), o)); err != nil {
			w.t.Error(err)
		}
	}
}

// A drain is followed when every other member that is Ready says so (C76).
func TestDrainWaitsForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := clustersetv1alpha1.MemberReady
		w := newWaitedOn(t, memberIn("beijing", ready, true), memberIn("shanghai", ready, false), memberIn("tianjin", ready, false),
			memberIn("guangzhou", clustersetv1alpha1.MemberSuspect, false), memberIn("planned", "", false))
		before := clustersetv1alpha1.DrainsAndLeaves(nil)
		after := clustersetv1alpha1.DrainsAndLeaves([]clustersetv1alpha1.MemberCluster{*memberIn("beijing", ready, true)})
		for _, name := range []string{"beijing", "shanghai", "tianjin", "guangzhou"} {
			w.beat(name, before, "")
		}
		wait := waiting{wait: true, timeout: time.Minute}
		err := wait.followed(t.Context(), w.hub, "beijing")
		if want := "gave up after 1m0s: agents haven't followed the change yet, of shanghai, tianjin; "; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		w.beat("tianjin", before, "beijing")
		err = wait.followed(t.Context(), w.hub, "beijing")
		want := "gave up after 1m0s: agents haven't followed the change yet, of shanghai; read their logs, or wait longer with --timeout; tianjin can't follow: MemberClusters that aren't its agent's copies keep it from following the hub: beijing; "
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		go func() {
			time.Sleep(10 * time.Second) //nolint:forbidigo // on the clock of synctest
			w.beat("shanghai", after, "")
			time.Sleep(10 * time.Second) //nolint:forbidigo // on the clock of synctest
			w.beat("tianjin", after, "")
		}()
		began := time.Now()
		if err := wait.followed(t.Context(), w.hub, "beijing"); err != nil || time.Since(began) < 20*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// Whether a cluster left or is drained matters, and nothing else that a MemberCluster says.
func TestDrainsAndLeaves(t *testing.T) {
	a, b, left := *memberIn("beijing", "", true), *memberIn("shanghai", "", true), *memberIn("shanghai", "", false)
	left.SetLeft(time.Now())
	type set = []clustersetv1alpha1.MemberCluster
	digest := clustersetv1alpha1.DrainsAndLeaves
	if digest(set{a, b}) != digest(set{b, a, *memberIn("tianjin", clustersetv1alpha1.MemberReady, false)}) {
		t.Error("the digest depends on the order, or on a cluster that is neither drained nor has left")
	}
	different := map[string]bool{}
	for _, all := range []set{{}, {a}, {b}, {left}, {a, b}, {a, left}} {
		different[digest(all)] = true
	}
	if len(different) != 6 {
		t.Errorf("only %d of 6 states have different digests", len(different))
	}
}

// join waits for a heartbeat that is new, and then for the hub process.
func TestJoinWaitsForAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaitedOn(t, memberIn("beijing", "", false))
		w.beat("beijing", "", "")
		j := joinCommand{membership: membership{hub: w.hub, waiting: waiting{wait: true, timeout: time.Minute}}, options: join.Options{Cluster: "beijing"}}
		before, err := heartbeat(t.Context(), w.hub, "beijing")
		if err != nil {
			t.Fatal(err)
		}
		heard := func(want string) {
			t.Helper()
			err := j.heard(t.Context(), before)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		heard("gave up after 1m0s: the hub hasn't heard beijing yet; check that its agent runs")
		w.beat("beijing", "", "")
		heard(`gave up after 1m0s: the hub hears beijing, but its phase is "", not Ready; check that clusterset hub runs`)
		mc := memberIn("beijing", "", false)
		err = w.hub.Get(t.Context(), client.ObjectKeyFromObject(mc), mc)
		mc.Status.Phase = clustersetv1alpha1.MemberReady
		if err := errors.Join(err, w.hub.Status().Update(t.Context(), mc)); err != nil {
			t.Fatal(err)
		}
		heard("")
	})
}

// An error at the start is the user's; later ones pass, or are said at the end.
func TestWaitingThroughErrors(t *testing.T) {
	away := errors.New("the hub is away")
	for _, c := range []struct {
		looks []error // what each look finds: nil is a heartbeat that hasn't come, and after the last it has
		want  string
	}{
		{[]error{away}, "the hub is away"},
		{[]error{nil, away}, ""},
		{append([]error{nil}, slices.Repeat([]error{away}, 1000)...), "gave up after 1m0s: the hub is away"},
	} {
		synctest.Test(t, func(t *testing.T) {
			looks := c.looks
			err := (waiting{timeout: time.Minute}).until(t.Context(), func(context.Context) (string, error) {
				if len(looks) == 0 {
					return "", nil
				}
				found := looks[0]
				if looks = looks[1:]; found != nil {
					return "", found
				}
				return "a heartbeat", nil
			})
			if err == nil && c.want != "" || err != nil && err.Error() != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A cluster that has left can't be drained.
func TestWhoIsDrained(t *testing.T) {
	ready, left := clustersetv1alpha1.MemberReady, memberIn("shanghai", clustersetv1alpha1.MemberReady, false)
	left.SetLeft(time.Now())
	all := []clustersetv1alpha1.MemberCluster{*memberIn("beijing", ready, false), *left}
	if _, err := present(&objects.Cluster{Server: "https://hub"}, "shanghai", all); err == nil || !strings.Contains(err.Error(), "there is no cluster shanghai; there are beijing") {
		t.Error(err)
	}
}
