package exporter

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// pruned returns what the hub won't keep of our record, after the steps were taken: an API server drops the fields that its
// CustomResourceDefinitions don't have, and an update that changes nothing else leaves the resourceVersion as it was.
func pruned(have Records, want Desired, steps []step) *field.Error {
	for _, s := range steps {
		if s.verb == verbUpdate && s.kind == kindService && s.object.GetResourceVersion() == have.Service.ResourceVersion &&
			want.Service.Spec.Policy != nil && have.Service.Spec.Policy == nil {
			return field.Forbidden(field.NewPath("spec", "policy"), "the hub is of an older version and drops it; upgrade the hub")
		}
	}
	return nil
}
