package importer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

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

// A thief puts another invalid label in a record each time, and names another missing namespace: the log says that once a minute, and what others'
// records lack. All are counted.
func TestAThiefIsToldOnceAMinute(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r := newReporter(events.NewFakeRecorder(1), now)
	ctx, said := listen(t, r)
	before := metric(t, "clusterset_importer_dropped_values_total", "member", "thief")
	for n := range 180 {
		wrong := func(value string) api.LeftOut {
			return api.Left(field.Invalid(field.NewPath("labels"), value, "no label"))
		}
		r.drops(ctx, web, []merge.Drop{{Cluster: "honest", Values: wrong("x")}, {Cluster: "thief", Values: wrong(fmt.Sprint(n))}})
		r.namespaceMissing(ctx, fmt.Sprint("thief-", n), []string{"thief"})
		now.Step(time.Second)
	}
	if n := metric(t, "clusterset_importer_dropped_values_total", "member", "thief") - before; n != 180 {
		t.Errorf("%v are counted", n)
	}
	lines := strings.Join(said.lines, "\n")
	if n := strings.Count(lines, `"exporter"="thief"`); n != 3 {
		t.Errorf("the thief's are told in %d lines:\n%s", n, lines)
	}
	if n := strings.Count(lines, `"exporter"="honest"`); n != 1 {
		t.Errorf("another cluster's is told in %d lines", n)
	}
}
