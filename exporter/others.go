package exporter

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// newOthers bounds what ServiceExports say of conflicts and of missing namespaces, which other clusters change as often as they like (C80).
func newOthers() *rate.Limiter { return rate.NewLimiter(rate.Every(time.Second), 1000) }

// onlyOthers reports whether conditions differ at most in those that other clusters change.
func onlyOthers(a, b []metav1.Condition) bool {
	rest := func(all []metav1.Condition) []metav1.Condition {
		return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
			return c.Type == string(mcsv1beta1.ServiceExportConditionConflict) || c.Type == api.ConditionImported
		})
	}
	return equality.Semantic.DeepEqual(rest(a), rest(b))
}
