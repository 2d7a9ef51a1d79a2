package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Counts the requests that an import costs both API servers, from its first write to its end.
func TestWhatIsWritten(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	run := w.start(Options{})
	kube.Eventually(t, func() error {
		return w.client.Get(t.Context(), client.ObjectKey{Name: "shanghai"}, &clustersetv1alpha1.MemberCluster{})
	})
	// The endpoints of web are first on the hub, then those of another service. Once that service is imported, the agent knows web's
	// endpoints too, so web is imported completely at once.
	web := records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")
	w.onHub(strings.SplitN(web, "---", 2)[1])
	w.onHub(records.Exported("shanghai", "shop", "known", "10.2.0.2", "10.12.0.6"))
	w.imported("shop", "known", 1)
	w.quiet(run, 1)
	earlier := len(run.local.written())
	w.onHub(strings.SplitN(web, "---", 2)[0])
	w.imported("shop", "web", 1)
	w.quiet(run, 2)

	t.Run("each object once, and the status of one", func(t *testing.T) {
		got := slices.DeleteFunc(run.local.written()[earlier:], func(s string) bool { return strings.Contains(s, "memberclusters") })
		const in = "/namespaces/shop/"
		want := []string{
			"POST /api/v1" + in + "services",
			"POST /apis/multicluster.x-k8s.io/v1beta1" + in + "serviceimports",
			"POST /apis/discovery.k8s.io/v1" + in + "endpointslices",
			"POST /apis/dns.fabedge.io/v1alpha1" + in + "globalservices",
			"PUT /apis/multicluster.x-k8s.io/v1beta1" + in + "serviceimports/web/status",
		}
		if !slices.Equal(got, want) {
			t.Errorf("wrote\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})

	t.Run("no heartbeat", func(t *testing.T) {
		before := len(run.local.written())
		status := func(patch string) {
			t.Helper()
			mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}}
			if err := w.hubClient.Status().Patch(t.Context(), mc, client.RawPatch(types.MergePatchType, []byte(`{"status":`+patch+`}`))); err != nil {
				t.Fatal(err)
			}
		}
		status(`{"phase":"Ready"}`)
		here := &clustersetv1alpha1.MemberCluster{}
		kube.Eventually(t, func() error {
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shanghai"}, here); err != nil || here.Status.Phase != clustersetv1alpha1.MemberReady {
				return fmt.Errorf("%+v, %w", here.Status, err)
			}
			return nil
		})
		written := func(want int) {
			t.Helper()
			kube.Eventually(t, func() error { // a write is visible a moment before its response arrives
				if n := len(run.local.written()); n != before+want {
					return fmt.Errorf("%d writes, want %d", n-before, want)
				}
				return nil
			})
		}
		written(1)
		status(`{"exportedServices":7}`)
		status(`{"agentVersion":"v9"}`) // the copy shows this change, so the change before was processed too
		kube.Eventually(t, func() error {
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shanghai"}, here); err != nil || here.Status.AgentVersion != "v9" {
				return fmt.Errorf("%+v, %w", here.Status, err)
			}
			return nil
		})
		written(2)
		if here.Status.ExportedServices != nil {
			t.Errorf("the copy's status is %+v", here.Status)
		}
	})

	t.Run("un-exporting asks the hub nothing", func(t *testing.T) {
		run.hub.mu.Lock()
		before := len(run.hub.asked)
		run.hub.mu.Unlock()
		w.withdraw(web)
		w.gone("shop", "web")
		run.hub.mu.Lock()
		defer run.hub.mu.Unlock()
		if got := run.hub.asked[before:]; len(got) > 0 {
			t.Errorf("asked %v", got)
		}
	})
}

// An agent that loses its hub reports that once, and reports once when the hub answers again.
func TestReach(t *testing.T) {
	w := newWorld(t)
	began := time.Now().Truncate(time.Second)
	now, state := began, store.State{Since: began.Add(-time.Hour)}
	w.here(strings.Replace(memberOf("beijing"), "metadata: {", "metadata: {labels: {"+api.LabelManagedBy+": "+api.ManagedByImporter+"}, ", 1))
	versions := map[string]bool{}
	var r reach
	says := func(status metav1.ConditionStatus, since time.Time) {
		t.Helper()
		l := &local{cache: w.client, live: w.client, client: w.client, imports: "v1beta1"}
		if err := sayReach(t.Context(), l, "beijing", r.now(state, true, time.Time{}, now)); err != nil {
			t.Fatal(err)
		}
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "beijing"}, mc); err != nil {
			t.Fatal(err)
		}
		versions[mc.ResourceVersion] = true
		c := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionHubAnswers)
		if c == nil || c.Status != status || !since.IsZero() && !c.LastTransitionTime.Time.Equal(since) {
			t.Errorf("the condition is %+v, want %s since %s", c, status, since)
		}
	}
	says(metav1.ConditionTrue, time.Time{}) // nothing is known yet
	state.Phase = store.Live
	says(metav1.ConditionTrue, time.Time{})
	state.Phase, state.Since = store.Away, began
	now = began.Add(awayAfter - time.Second)
	says(metav1.ConditionTrue, time.Time{})
	now = began.Add(awayAfter)
	says(metav1.ConditionFalse, began)
	now = began.Add(time.Hour)
	says(metav1.ConditionFalse, began)
	state.Phase, state.Since = store.Live, now
	says(metav1.ConditionTrue, time.Time{})
	if len(versions) != 3 {
		t.Errorf("written %d times for three changes", len(versions))
	}
}

// A token that the hub has rejected for a while is named, although the watches that it opened go on. One rejection says nothing: an API server that starts
// may not know it yet (C82 of docs/spec/control-plane.md).
func TestARefusedTokenIsNamed(t *testing.T) {
	var r reach
	for _, step := range []struct {
		after  time.Duration // since the first rejection; negative: there is none
		reason string
	}{
		{-1, clustersetv1alpha1.ReasonHubAnswers}, {time.Second, clustersetv1alpha1.ReasonHubAnswers},
		{awayAfter, clustersetv1alpha1.ReasonHubRefusesToken}, {-1, clustersetv1alpha1.ReasonHubAnswers},
	} {
		now := time.Now()
		var since time.Time
		if step.after >= 0 {
			since = now.Add(-step.after)
		}
		if c := r.now(store.State{Phase: store.Live}, true, since, now); c.Reason != step.reason {
			t.Errorf("after %s: %+v, want %s", step.after, c, step.reason)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A hub that refuses to be read is reported like one that is away, though it answers: a revoked token, or lost rights. When it is back after
// an outage, the watches get the time to be opened.
func TestARevokedTokenIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		hub, err := connect.NewHub(&rest.Config{Host: "http://hub", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, errors.New("no route to host")
			}
			const body = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}`
			header := http.Header{"Content-Type": {"application/json"}}
			return &http.Response{StatusCode: http.StatusUnauthorized, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})}, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = hub.Store.Start(ctx) })
		defer running.Wait()
		defer cancel()

		var r reach
		for _, step := range []struct {
			after  time.Duration
			away   bool
			reason string
		}{
			{time.Second, false, clustersetv1alpha1.ReasonHubAnswers},
			{10 * time.Second, false, clustersetv1alpha1.ReasonHubAnswers},
			{time.Minute, false, clustersetv1alpha1.ReasonHubRefuses},
			{time.Hour, true, clustersetv1alpha1.ReasonHubAway},
			{25 * time.Second, false, clustersetv1alpha1.ReasonHubAnswers},
			{time.Minute, false, clustersetv1alpha1.ReasonHubRefuses},
		} {
			away.Store(step.away)
			var c metav1.Condition
			for until := time.Now().Add(step.after); time.Now().Before(until); <-time.After(min(time.Second, time.Until(until))) {
				synctest.Wait()
				c = r.now(hub.Store.State(), hub.Store.Watched(), time.Time{}, time.Now())
			}
			if is := c.Status == metav1.ConditionTrue; c.Reason != step.reason || is != (step.reason == clustersetv1alpha1.ReasonHubAnswers) {
				t.Errorf("after %s: the condition is %+v, want %s", step.after, c, step.reason)
			}
		}
	})
}
