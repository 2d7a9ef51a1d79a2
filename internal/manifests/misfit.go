package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/internal/text"
)

// withoutMisfits returns an object without the values that don't fit their fields, such as text where a number is wanted. An API server
// would have refused the object, but a file passes none, and a typo must not take more with it than its own field (rule A60 of
// docs/spec/answers.md).
func withoutMisfits(data []byte) (mended []byte, errs field.ErrorList) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // as it is written
	var object map[string]any
	if d.Decode(&object) != nil {
		return data, nil
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if key == "apiVersion" || key == "kind" {
			continue
		}
		fitting(object, key, field.NewPath(key), func(value any) error {
			content, err := json.Marshal(map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"], key: value})
			if err == nil {
				_, _, err = strict.Decode(content, nil, nil)
			}
			if runtime.IsStrictDecodingError(err) {
				return nil // it is only misspelt
			}
			return err
		}, &errs)
	}
	mended, err := json.Marshal(object)
	if err != nil {
		return data, nil
	}
	return mended, errs
}

// fitting removes from the value of a key what doesn't fit, or the key if nothing does. fits is asked about one value at that place alone.
func fitting(in map[string]any, key string, path *field.Path, fits func(any) error, errs *field.ErrorList) {
	err := fits(in[key])
	if err == nil {
		return
	}
	switch value := in[key].(type) {
	case map[string]any:
		if fits(map[string]any{}) == nil {
			for _, child := range slices.Sorted(maps.Keys(value)) {
				fitting(value, child, path.Child(child), func(v any) error { return fits(map[string]any{child: v}) }, errs)
			}
			return
		}
	case []any:
		if fits([]any{}) == nil {
			kept := []any{}
			for i, item := range value {
				one := map[string]any{"": item}
				fitting(one, "", path.Index(i), func(v any) error { return fits([]any{v}) }, errs)
				if item, ok := one[""]; ok {
					kept = append(kept, item)
				}
			}
			in[key] = kept
			return
		}
	}
	*errs = append(*errs, field.Invalid(path, text.Truncate(fmt.Sprint(in[key]), 64), err.Error()))
	delete(in, key)
}
