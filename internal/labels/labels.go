// Package labels merges what our objects say into the labels, or annotations, of objects that others may write too.
package labels

import "maps"

// Merge returns current with every key of want, and without those of dropped that want doesn't have; nil where that leaves none.
// Whatever else somebody put there, a mesh's annotation say, stays.
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
