package exporter

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/topology"
)

// statedPolicy returns what the annotations of the ServiceExport state about how the service's endpoints are chosen, and what
// in them is wrong. A ServiceExport that stands for a mark on the Service has none of its own: there the Service's count.
func statedPolicy(src Source) (topology.Policy, field.ErrorList) {
	annotations, path := src.Export.Annotations, field.NewPath("metadata", "annotations")
	if ofMark(src.Export) {
		annotations, path = src.Service.Annotations, field.NewPath("service", "metadata", "annotations")
	}
	return policy.FromAnnotations(annotations, path)
}

// pruned returns what the hub doesn't keep of our record, after the steps were taken.
func pruned(have Records, want Desired, steps []step) *field.Error {
	there := have.Service
	for _, s := range steps {
		if s.kind == kindService && (s.verb == verbCreate || s.verb == verbUpdate) {
			there = s.object.(*clustersetv1alpha1.ExportedService)
		}
	}
	if want.Service == nil || want.Service.Spec.Policy == nil || there == nil || there.Spec.Policy != nil {
		return nil
	}
	return field.Forbidden(field.NewPath("spec", "policy"), "the hub is of an older version and drops it; upgrade the hub")
}
