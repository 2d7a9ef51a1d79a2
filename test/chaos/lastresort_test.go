package chaos

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/random"
)

// readEvery is the interval between two readings of slices in a cluster. What they hold changes seldom.
const readEvery = 200 * time.Millisecond

// ownName returns the question for a Service's endpoints of last resort.
func ownName(key types.NamespacedName) question {
	return question{key.Name + "." + key.Namespace + ".svc", lastResort}
}

// reader returns a function that reads the endpoints of last resort of a member's Services.
func reader(m *fleettest.Member) func(context.Context, string, question, time.Duration) (string, error) {
	return func(ctx context.Context, _ string, q question, patience time.Duration) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		words := strings.Split(q.name, ".")
		all, err := random.ReadLastResort(ctx, m, types.NamespacedName{Namespace: words[1], Name: words[0]})
		if err != nil {
			return "", err
		}
		text, wrong := random.LastResortOf(all)
		if wrong != nil {
			text = wrong.Error()
		}
		return text, nil
	}
}

// judgeSlices compares what slices hold with what they must hold, and counts it. An API server that doesn't answer is no fault of theirs.
// Between two stages they are written one after the other, so they may hold some of both, but not nothing if neither is that.
func (s *probed) judgeSlices(q question, got string, err error) {
	if err != nil {
		return
	}
	s.counts.read++
	allowed, none := map[string]bool{}, false
	for i := s.reached[q]; i < len(s.stages); i++ {
		want := s.stages[i][q]
		possible := random.Possibilities(want)
		if want == anyAnswer || slices.Contains(possible, got) {
			s.reached[q] = i
			if i < len(s.owed) {
				delete(s.owed[i], q)
			}
			return
		}
		for _, text := range possible {
			none = none || text == random.Nothing
			for _, endpoint := range strings.Split(text, ", ") {
				allowed[endpoint] = true
			}
		}
	}
	if got == random.Nothing && none {
		return
	}
	if got == random.Nothing || slices.ContainsFunc(strings.Split(got, ", "), func(endpoint string) bool { return !allowed[endpoint] }) ||
		s.reached[q] == len(s.stages)-1 && decided(s.stages[s.reached[q]][q]) {
		s.counts.astray++
		s.example(q, got, nil)
	}
}
