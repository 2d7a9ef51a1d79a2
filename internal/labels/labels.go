// Package labels merges our labels or annotations into objects that others may write too.
package labels

import "maps"

// Merge returns current with all of want, and without the keys of dropped that want doesn't have, or nil if that is empty. Keys
// that someone else set, such as a mesh's annotation, stay.
func Merge(current, want map[string]string, dropped []string) map[string]string {
	merged := maps.Clone(current)
	if merged == nil {
		merged = make(map[string]string, len(want))
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
