package exporter

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

const (
	// conflictsAtOnce is how many changes of conflicts alone are written at any speed, and conflictEvery how often one is after that.
	conflictsAtOnce, conflictEvery = 1000, time.Second
	// conflictSeldom is when a service's is written nevertheless, and conflictRetry when to look again until then.
	conflictSeldom, conflictRetry = 16 * time.Minute, time.Minute
)

// newConflicts paces what ServiceExports say of conflicts, which are other clusters' to change, as often as they like. Rule C80 of
// docs/spec/control-plane.md.
func newConflicts() *rate.Limiter { return rate.NewLimiter(rate.Every(conflictEvery), conflictsAtOnce) }

// onlyConflict reports whether conditions differ at most in the conflict.
func onlyConflict(a, b []metav1.Condition) bool {
	rest := func(all []metav1.Condition) []metav1.Condition {
		return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return c.Type == string(mcsv1beta1.ServiceExportConditionConflict) })
	}
	return equality.Semantic.DeepEqual(rest(a), rest(b))
}
