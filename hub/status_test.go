package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// A member can report something else ten times a second. All that it says changes its MemberCluster once a minute at most, and the last state always
// does, also if a write failed. What it doesn't say stays, and what is no digest isn't copied. Rules C29 and C77 of docs/spec/control-plane.md.
func TestReportsAreCopiedOnceAMinute(t *testing.T) {
	h := newFakeHub(t, member("thief")...)
	said, writes, last := "", 0, time.Time{}
	for i := range 120 { // ten minutes
		h.report("thief", clustersetv1alpha1.MemberReportSpec{AgentVersion: fmt.Sprint("v", i), Zones: []string{"z"}[:i%2], Namespaces: new([]string{"", "AAAAAg"}[i%2])})
		if mc, _ := h.look("thief"); mc.ResourceVersion != said {
			if writes++; h.at.Sub(last) < copyEvery {
				t.Errorf("written at %s and %s", last, h.at)
			}
			said, last = mc.ResourceVersion, h.at
		}
		h.at = h.at.Add(5 * time.Second)
	}
	if writes != 10 {
		t.Errorf("written %d times in ten minutes", writes)
	}
	h.report("thief", clustersetv1alpha1.MemberReportSpec{AgentVersion: "last"})
	h.at = last.Add(copyEvery)
	works := h.client
	h.client = interceptor.NewClient(h.WithWatch, interceptor.Funcs{SubResourcePatch: func(
		context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption,
	) error {
		return errors.New("refused")
	}})
	if _, err := h.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "thief"}}); err == nil {
		t.Error("the write didn't fail")
	}
	h.client = works
	if mc, _ := h.look("thief"); mc.Status.AgentVersion != "last" {
		t.Errorf("after a write that failed, it is %s", mc.Status.AgentVersion)
	}
	h.report("thief", clustersetv1alpha1.MemberReportSpec{Namespaces: new("\x1b[2J")})
	h.at = h.at.Add(copyEvery)
	if mc, _ := h.look("thief"); mc.Status.AgentVersion != "last" || mc.Status.Namespaces != "" {
		t.Errorf("after garbage, it is %+v", mc.Status)
	}
}

// Rule C48 of docs/spec/control-plane.md: a condition, an Event and the metrics name what can't be used, for as long as it is there, or the member.
func TestInvalidValuesAreNamed(t *testing.T) {
	h := newFakeHub(t, member("lyon")...)
	for _, c := range []struct {
		networks []string
		want     string // the condition's message, or nothing
		metric   float64
	}{
		{[]string{"10.1.0.0/16"}, "", 0},
		{
			[]string{"10.1.0.0/16", "10.2.0.1/16", "::::/0"},
			`the MemberCluster isn't used as it is: spec.cidrs[1]: Invalid value: "10.2.0.1/16": must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48; and 1 more`,
			1,
		},
		{[]string{"10.1.0.0/16"}, "", 0},
	} {
		mc, _ := h.look("lyon")
		mc.Spec.CIDRs = c.networks
		if err := h.Update(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		mc, _ = h.look("lyon")
		said := ""
		if valid := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionValid); valid != nil {
			said = valid.Message
		}
		if metric := testutil.ToFloat64(metricInvalid.WithLabelValues("lyon")); said != c.want || metric != c.metric {
			t.Errorf("%v: %q and %v, want %q and %v", c.networks, said, metric, c.want, c.metric)
		}
	}
	if e := <-h.events.Events; !strings.HasPrefix(e, corev1.EventTypeWarning+" Invalid ") || len(h.events.Events) > 0 {
		t.Errorf("Event %q, and %d more", e, len(h.events.Events))
	}
	h.drop("lyon")
	if n := testutil.CollectAndCount(metricInvalid); n != 0 {
		t.Errorf("%d series are left of a member that is gone", n)
	}
}

// All members watch MemberClusters, so neither a heartbeat nor an export may change them.
func TestHeartbeatsReachNobody(t *testing.T) {
	h := newFakeHub(t, member("a")...)
	h.beat("a")
	was, _ := h.look("a")
	if was.Status.Phase != clustersetv1alpha1.MemberReady {
		t.Errorf("after a heartbeat it is %q", was.Status.Phase)
	}
	for range 5 {
		h.at = h.at.Add(10 * time.Second)
		h.beat("a")
		h.put(&clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: fmt.Sprint("web.", h.at.Unix())}})
		if is, _ := h.look("a"); is.ResourceVersion != was.ResourceVersion {
			t.Errorf("the MemberCluster was written: %+v", is.Status)
		}
	}
}

// The records of a cluster that was silent for a day are deleted, also if they come back while it is silent, as from a backup of the hub. Nothing
// else need change for that. Its MemberCluster says so before, until the cluster is heard, and an Event once. Rule C22 of
// docs/spec/control-plane.md.
func TestForgottenRecordsThatReturnAreDeleted(t *testing.T) {
	h := newFakeHub(t, member("c")...)
	silent, _ := h.look("c")
	silent.Status.Phase, silent.Status.LastHeartbeatTime = clustersetv1alpha1.MemberExpired, new(metav1.NewTime(h.at.Add(-48*time.Hour)))
	h = newFakeHub(t, silent)
	for range 4 * 60 { // an hour, for which each process listens
		h.look("c")
		h.at = h.at.Add(15 * time.Second)
	}
	for _, when := range []string{"after a day", "and they came back", "and again"} {
		h.put(&clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("c"), Name: "web.shop"}})
		began := silent.ForgottenAt()
		var again time.Duration
		if silent, again = h.look("c"); silent.ForgottenAt().IsZero() || when != "after a day" && !silent.ForgottenAt().Equal(began) {
			t.Errorf("%s: the MemberCluster says Forgotten since %s, then %s", when, began, silent.ForgottenAt())
		}
		var list clustersetv1alpha1.ExportedServiceList
		if err := h.List(t.Context(), &list, client.InNamespace(api.MemberNamespace("c"))); err != nil || len(list.Items) > 0 || again != forgottenEvery {
			t.Errorf("%s: %d records, looks again after %s, %v", when, len(list.Items), again, err)
		}
	}
	for range 2 { // the first may be as old as the hub's last restart
		h.beat("c")
		silent, _ = h.look("c")
		h.at = h.at.Add(time.Second)
	}
	if at := silent.ForgottenAt(); !at.IsZero() {
		t.Errorf("after it was heard, it says Forgotten since %s", at)
	}
	close(h.events.Events)
	forgotten := 0
	for e := range h.events.Events {
		if strings.Contains(e, clustersetv1alpha1.ReasonSilent) {
			forgotten++
		}
	}
	if forgotten != 1 {
		t.Errorf("%d Events that it is forgotten", forgotten)
	}
}
