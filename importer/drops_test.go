package importer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/merge"
)

// said are the lines that a reporter logged, and its Events.
type said struct {
	lines  []string
	events chan string
}

func listen(t *testing.T, r *reporter) (context.Context, *said) {
	s := &said{events: r.events.(*events.FakeRecorder).Events}
	log := funcr.New(func(_, line string) { s.lines = append(s.lines, line) }, funcr.Options{})
	return logf.IntoContext(t.Context(), log), s
}

// take returns how many have a text, and forgets all.
func (s *said) take(text string) (lines, noted int) {
	for _, line := range s.lines {
		if strings.Contains(line, text) {
			lines++
		}
	}
	s.lines = nil
	for len(s.events) > 0 {
		if strings.Contains(<-s.events, text) {
			noted++
		}
	}
	return lines, noted
}

// A thief puts another invalid label in a record each time, also in one of a service that an honest cluster exports. The ServiceImport says the
// last one, and all are counted. The log has a thousand, and what others' records lack. Rule C81 of docs/spec/control-plane.md.
func TestAThiefsInvalidValuesAreToldSeldom(t *testing.T) {
	g := newRig(Options{})
	g.hub.put(memberAt("honest", "zone-1"))
	g.hub.put(memberAt("thief", "zone-2"))
	ctx, said := listen(t, g.report)
	export := exporting(ctx, t, g)
	before := metric(t, "clusterset_importer_dropped_values_total", "member", "thief")
	const changes = clusterAtOnce + 100
	lines := 0
	for n := range changes {
		export("thief", fmt.Sprint("kubernetes.io/x", n))
		l, e := said.take("kubernetes.io/x")
		if lines += l; e > 0 {
			t.Errorf("%d Events", e)
		}
	}
	if lines != clusterAtOnce {
		t.Errorf("%d changes are told in %d lines", changes, lines)
	}
	if n := metric(t, "clusterset_importer_dropped_values_total", "member", "thief") - before; n != changes {
		t.Errorf("%v of %d are counted", n, changes)
	}
	export("honest", "kubernetes.io/honest")
	if l, _ := said.take("kubernetes.io/honest"); l != 1 {
		t.Errorf("another cluster's is told in %d lines", l)
	}
	if says := g.leftOut(); !strings.Contains(says, "2 parts of the exports of honest, thief are left out") {
		t.Errorf("the condition is %q", says)
	}
	export("thief", "")
	if says := g.leftOut(); !strings.Contains(says, "1 part of the exports of honest is left out") {
		t.Errorf("then it is %q", says)
	}
	export("honest", "")
	if says := g.leftOut(); says != "" {
		t.Errorf("nothing is left out, and it is %q", says)
	}
}

// What such changes write counts for the thief, whose changes wait when its budget is used up. The last one is told. Rules C39 and C81 of
// docs/spec/control-plane.md.
func TestAThiefsInvalidValuesAreWrittenAtItsPace(t *testing.T) {
	g := newRig(Options{WriteRate: 1 << 10, WriteBurst: 128 << 10})
	g.hub.put(memberAt("thief", "zone-2"))
	export := exporting(t.Context(), t, g)
	export("thief", "")
	g.here.writes = nil
	again := time.Duration(0)
	for n := range 1000 {
		again = export("thief", fmt.Sprint("kubernetes.io/x", n))
	}
	if n := len(g.here.writes); n == 0 || n > 200 {
		t.Errorf("%d writes for 1000 changes", n)
	}
	for range 100 {
		if again == 0 {
			break
		}
		g.clock.Step(again)
		again = g.reconcile(t).RequeueAfter
	}
	if says := g.leftOut(); !strings.Contains(says, "kubernetes.io/x999") {
		t.Errorf("in the end the condition is %q", says)
	}
}

// exporting returns what exports shop/web from a cluster, with one label, and reconciles it. It returns when to do that again.
func exporting(ctx context.Context, t *testing.T, g *rig) func(cluster, label string) time.Duration {
	return func(cluster, label string) time.Duration {
		t.Helper()
		record := exportedBy(cluster, mcsv1beta1.ClusterSetIP, len(cluster))
		if label != "" {
			record.Spec.ExportedLabels = map[string]string{label: "y"}
		}
		g.hub.put(record)
		result, err := g.Reconcile(ctx, reconcile.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
}

// leftOut returns what the ServiceImport shop/web says to be left out.
func (g *rig) leftOut() string {
	imp := g.here.get(&mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}).(*mcsv1beta1.ServiceImport)
	if c := meta.FindStatusCondition(imp.Status.Conditions, api.ConditionComplete); c != nil {
		return c.Message
	}
	return ""
}

// A cluster whose services each lack something, as at its first import, has them logged at once, up to a thousand. Withdrawing and exporting
// them again brings no more. Rule C81 of docs/spec/control-plane.md.
func TestEachServiceOfAClusterIsToldAtOnce(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r := newReporter(events.NewFakeRecorder(1), now)
	ctx, said := listen(t, r)
	all := func(cluster string, services int) {
		for n := range services {
			key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(cluster, n)}
			r.drops(ctx, key, []merge.Drop{{Cluster: cluster, Values: api.LeftOut{Count: 1}}})
			r.outcome(key, "")
		}
	}
	all("honest", 500)
	if lines, _ := said.take("honest"); lines != 500 {
		t.Errorf("500 services are told in %d lines", lines)
	}
	for range 5 {
		all("thief", 500)
	}
	if lines, _ := said.take("thief"); lines != clusterAtOnce {
		t.Errorf("2500 exports are told in %d lines", lines)
	}
	now.Step(2 * clusterEvery)
	all("thief", 500)
	if lines, _ := said.take("thief"); lines != 2 {
		t.Errorf("two minutes later %d are told", lines)
	}
}

// Each missing namespace is mentioned once, those of a cluster that names ever new ones, or more than are remembered, no faster than that
// cluster's pace. Rule C81 of docs/spec/control-plane.md.
func TestAThiefsMissingNamespacesAreToldSeldom(t *testing.T) {
	r := newReporter(events.NewFakeRecorder(1), clocktesting.NewFakeClock(time.Unix(1e9, 0)))
	ctx, said := listen(t, r)
	for range 10 {
		for n := range 1500 {
			r.namespaceMissing(ctx, fmt.Sprint("thief-", n), []string{"thief"})
		}
	}
	if lines, _ := said.take("thief-"); lines != clusterAtOnce {
		t.Errorf("15000 reconciles are told in %d lines", lines)
	}
	r.namespaceMissing(ctx, "honest", []string{"thief", "honest"})
	r.namespaceMissing(ctx, "honest", []string{"thief", "honest"})
	if lines, _ := said.take("honest"); lines != 1 {
		t.Errorf("another cluster's is told in %d lines", lines)
	}
}
