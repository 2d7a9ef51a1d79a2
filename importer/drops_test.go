package importer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
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

// A thief puts another invalid label in a record each time, also in one of a service that an honest cluster exports. A few are told, and the
// last one in the end; all are counted. What others' records lack is told at once. Rule C81 of docs/spec/control-plane.md.
func TestAThiefsInvalidValuesAreToldSeldom(t *testing.T) {
	for _, c := range []struct {
		name  string
		valid bool // it changes a valid label too, so that the ServiceImport is written each time
	}{{"nothing is written", false}, {"the ServiceImport is", true}} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(Options{})
			g.hub.put(memberAt("honest", "zone-1"))
			g.hub.put(memberAt("thief", "zone-2"))
			ctx, said := listen(t, g.report)
			export := func(cluster string, labels map[string]string) time.Duration {
				t.Helper()
				record := exportedBy(cluster, mcsv1beta1.ClusterSetIP, len(cluster))
				record.Spec.ExportedLabels = labels
				g.hub.put(record)
				result, err := g.Reconcile(ctx, reconcile.Request{NamespacedName: web})
				if err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter
			}
			before := metric(t, "clusterset_importer_dropped_values_total", "member", "thief")
			var lines, noted int
			var again time.Duration
			for n := range 1000 {
				labels := map[string]string{fmt.Sprint("kubernetes.io/x", n): "y"}
				if c.valid {
					labels["team"] = fmt.Sprint(n)
				}
				again = export("thief", labels)
				l, e := said.take("kubernetes.io/x")
				lines, noted = lines+l, noted+e
				if n == 0 && (l != 1 || e != 1) {
					t.Errorf("the first is told in %d lines and %d Events", l, e)
				}
			}
			if lines > 5 || noted > 5 {
				t.Errorf("1000 changes are told in %d lines and %d Events", lines, noted)
			}
			if n := metric(t, "clusterset_importer_dropped_values_total", "member", "thief") - before; n != 1000 {
				t.Errorf("%v of 1000 are counted", n)
			}
			export("honest", map[string]string{"kubernetes.io/honest": "y"})
			if l, e := said.take("kubernetes.io/honest"); l != 1 || e != 1 {
				t.Errorf("another cluster's is told in %d lines and %d Events", l, e)
			}
			if again == 0 {
				t.Fatal("it doesn't look again")
			}
			g.clock.Step(again)
			if _, err := g.Reconcile(ctx, reconcile.Request{NamespacedName: web}); err != nil {
				t.Fatal(err)
			}
			if l, e := said.take("kubernetes.io/x999"); l != 1 || e != 1 {
				t.Errorf("the last one is told in %d lines and %d Events", l, e)
			}
		})
	}
}

// A cluster whose services each lack something, as at its first import, has them told at once, up to a thousand. Withdrawing and exporting
// them again brings no more. Rule C81 of docs/spec/control-plane.md.
func TestEachServiceOfAClusterIsToldAtOnce(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r := newReporter(events.NewFakeRecorder(10*clusterAtOnce), now)
	ctx, said := listen(t, r)
	imp := &clustersetv1alpha1.MemberCluster{}
	all := func(cluster string, services int) {
		for n := range services {
			key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(cluster, n)}
			r.drops(ctx, key, imp, []merge.Drop{{Cluster: cluster, Values: api.LeftOut{Count: 1}}})
			r.outcome(key, "")
		}
	}
	all("honest", 500)
	if lines, noted := said.take("honest"); lines != 500 || noted != 500 {
		t.Errorf("500 services are told in %d lines and %d Events", lines, noted)
	}
	for range 5 {
		all("thief", 500)
	}
	if lines, noted := said.take("thief"); lines != clusterAtOnce || noted != clusterAtOnce {
		t.Errorf("2500 exports are told in %d lines and %d Events", lines, noted)
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
