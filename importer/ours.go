package importer

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
)

// ours says whether the importer wrote the object. Nothing else is ever changed or deleted.
func ours(o client.Object) bool { return o.GetLabels()[api.LabelManagedBy] == api.ManagedByImporter }

func ourLabels() map[string]string {
	return map[string]string{api.LabelManagedBy: api.ManagedByImporter}
}

// mergeKeys returns current with every key of want, and without those of dropped that want doesn't have. Whatever else
// somebody put there, a mesh's annotation say, stays.
func mergeKeys(current, want map[string]string, dropped []string) map[string]string {
	merged := maps.Clone(current)
	if merged == nil {
		merged = map[string]string{}
	}
	for _, k := range dropped {
		delete(merged, k)
	}
	maps.Copy(merged, want)
	if len(merged) == 0 {
		return nil
	}
	return merged
}
