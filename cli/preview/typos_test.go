package preview

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
)

// A typo is an error. "Nothing changes" would be a confident answer to a question that nobody asked.
func TestTyposAreErrors(t *testing.T) {
	s := shop(t).state()
	drain := []Change{{Drain: []string{"beijing"}}}
	for want, try := range map[string]struct {
		changes []Change
		options Options
	}{
		"there is no exported service shop/webb; did you mean shop/web?":  {drain, Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "webb"}}}},
		"there is no place beijng/-/-; there are beijing/bj-a/north, ":    {drain, Options{From: topology.Location{Cluster: "beijng"}}},
		"there is no place beijing/nowhere/-":                             {drain, Options{From: topology.Location{Cluster: "beijing", Zone: "nowhere"}}},
		"exportTo: there is no cluster or community nirvana; there are":   {[]Change{{Policy: &Policy{Service: "shop/web", ExportTo: []string{"nirvana"}}}}, Options{}},
		"there is no cluster beijng; did you mean beijing?":               {[]Change{{Drain: []string{"beijng"}}}, Options{}},
		"there is no exported service shop/onli; did you mean shop/only?": {[]Change{{Policy: &Policy{Service: "shop/onli", ServicePolicy: clustersetv1alpha1.ServicePolicy{Prefer: "none"}}}}, Options{}},
	} {
		if _, err := s.Preview(t.Context(), try.changes, try.options); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A service exists for --for if a cluster exports it before the changes, or if a change exports it.
func TestServicesThatComeAndGo(t *testing.T) {
	only := Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "only"}}}
	created := Options{Services: []types.NamespacedName{{Namespace: "shop", Name: "new"}}}
	s := shop(t).state()
	export := []Change{{Export: &Export{Service: "shop/new", From: "hangzhou", Records: shop(t).records("hangzhou", "shop/new", "", "hz=2")}}}
	if r, err := s.Preview(t.Context(), export, created); err != nil || r.Summary.Changed != 1 {
		t.Errorf("a service that the change exports: %v, %+v", err, r)
	}
	gone, _, err := s.Apply(Change{Unexport: &Export{Service: "shop/only", From: "beijing"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "there is no exported service shop/only; "
	if _, err := gone.Preview(t.Context(), []Change{{Drain: []string{"beijing"}}}, only); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a service whose last export had ended before: want %q, got %v", want, err)
	}
}
