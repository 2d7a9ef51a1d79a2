package record

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/text"
)

// InvalidMark returns what is wrong with the mark of a Service or Namespace, or nil: it has another value than those that mean something, or
// another key. Rule C1 of docs/spec/control-plane.md.
func InvalidMark(o metav1.Object) *field.Error {
	if api.IsGlobal(o.GetLabels(), o.GetAnnotations()) {
		return nil
	}
	for i, keys := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		path := field.NewPath("metadata", []string{"labels", "annotations"}[i])
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			switch value := text.Truncate(keys[key], 64); {
			case key == api.KeyGlobalService && value != "false":
				return field.Invalid(path.Key(key), value, `must be "true" or "false"; it exports nothing`+near.Meant(value, []string{"true", "false"}))
			case key != api.KeyGlobalService && (key == api.Domain+"/global-service" || near.Meant(key, []string{api.KeyGlobalService}) != ""):
				return field.Invalid(path, key, "exports nothing; did you mean "+api.KeyGlobalService+"?")
			}
		}
	}
	return nil
}
