package manifests

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Objects reads a directory, or a file of any name, for all objects of the kinds that a scheme has, as `kubectl get -o yaml` writes
// them. Unlike Read, it fails if any object can't be read, because its callers need all of them. Objects of other kinds are left out,
// and counted by their kind.
func Objects(path string, scheme *runtime.Scheme) (objects []runtime.Object, others map[string]int, err error) {
	dir, names, err := list(path)
	if err != nil {
		return nil, nil, err
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	others = map[string]int{}
	var take func(place string, data []byte) error
	take = func(place string, data []byte) error {
		var head struct {
			Kind  string            `json:"kind"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &head); err != nil {
			return fmt.Errorf("%s: want an object with apiVersion and kind: %w", place, err)
		}
		if strings.HasSuffix(head.Kind, "List") {
			for i, item := range head.Items {
				if err := take(fmt.Sprintf("%s: items[%d]", place, i), item); err != nil {
					return err
				}
			}
			return nil
		}
		o, _, err := decoder.Decode(data, nil, nil)
		switch {
		case string(data) == "null": // only comments
		case runtime.IsNotRegisteredError(err):
			others[head.Kind]++
		case err != nil:
			return fmt.Errorf("%s: %w", place, err)
		default:
			objects = append(objects, o)
		}
		return nil
	}
	for _, name := range names {
		data, err := ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, nil, err
		}
		if err := each(name, data, func(place string, data []byte, _ bool) error { return take(place, data) }); err != nil {
			return nil, nil, err
		}
	}
	return objects, others, nil
}
