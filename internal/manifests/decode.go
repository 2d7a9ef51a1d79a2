package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsyaml "sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
)

// Located is an object with its place in a file, for messages.
type Located struct {
	// Object is the index's form of the API object Source.
	Object index.Object
	Source runtime.Object
	Place  string
}

// Note is a problem with a file that leaves the rest of it usable.
type Note struct {
	Place string
	// Kind is the object's kind, or "other" for a kind that isn't served.
	Kind string
	Err  error
}

func (n Note) String() string { return n.Place + ": " + n.Err.Error() }

// Decode reads the objects of a file. An error means that the whole file can't be trusted: a document that doesn't
// parse may be incomplete.
func Decode(name string, data []byte) (objects []Located, notes []Note, err error) {
	err = each(name, data, func(place string, asJSON []byte, complete bool) error {
		more, wrong, err := decode(place, asJSON, complete)
		objects, notes = append(objects, more...), append(notes, wrong...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return objects, notes, nil
}

// each calls f for each document of a file, as JSON. complete is false for the last one if the file ends in the middle of a line: it may
// have been cut off.
func each(name string, data []byte, f func(place string, asJSON []byte, complete bool) error) error {
	documents, err := split(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, d := range documents {
		asJSON := d.data
		if !d.json {
			if asJSON, err = sigsyaml.YAMLToJSONStrict(d.data); err != nil {
				return fmt.Errorf("%s:%s", name, atLine(err, d.line))
			}
		}
		complete := d.json || i < len(documents)-1 || bytes.HasSuffix(data, []byte("\n"))
		if err := f(fmt.Sprintf("%s:%d", name, d.line), asJSON, complete); err != nil {
			return err
		}
	}
	return nil
}

// DecodeJSON reads one JSON document: an object, or a List of them.
func DecodeJSON(place string, data []byte) ([]Located, []Note, error) {
	return decode(place, data, true)
}

// decode reads a document. If it is complete, values that don't fit their fields are left out; otherwise they are an error.
func decode(place string, data []byte, complete bool) ([]Located, []Note, error) {
	o, _, err := strict.Decode(data, nil, nil)
	var misfits field.ErrorList
	if err != nil && complete && !runtime.IsStrictDecodingError(err) && !runtime.IsNotRegisteredError(err) {
		if data, misfits = withoutMisfits(data); len(misfits) > 0 {
			o, _, err = strict.Decode(data, nil, nil)
		}
	}
	misspelt := o != nil && runtime.IsStrictDecodingError(err)
	if err != nil && !misspelt || meta.IsListType(o) {
		return decodeOther(place, data, err, complete)
	}
	kind := o.GetObjectKind().GroupVersionKind().Kind
	var notes []Note
	if misspelt {
		notes = append(notes, Note{place, kind, err})
	}
	for _, err := range misfits {
		notes = append(notes, Note{place, kind, fmt.Errorf("%s: %w", kind, err)})
	}
	defaultNamespace(o)
	object, wrong := convert(o)
	for _, err := range wrong {
		notes = append(notes, Note{place, kind, fmt.Errorf("%s: %w", kind, err)})
	}
	if object == nil {
		return nil, notes, nil
	}
	return []Located{{object, o, place}}, notes, nil
}

// decodeOther reads a document that isn't an object of a served kind. The error is the one from reading it as such an
// object.
func decodeOther(place string, data []byte, cause error, complete bool) ([]Located, []Note, error) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return nil, nil, nil // only comments
	}
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, nil, fmt.Errorf("%s: want an object with apiVersion and kind: %w", place, err)
	}
	switch {
	case head.Kind == "" || head.APIVersion == "":
		return nil, nil, fmt.Errorf("%s: apiVersion and kind are missing", place)
	case head.Items != nil && strings.HasSuffix(head.Kind, "List"):
		return decodeItems(place, head.Items, complete)
	case cause == nil || runtime.IsNotRegisteredError(cause):
		return nil, []Note{{place, "other", fmt.Errorf("%s of %s is ignored: want ServiceImport, EndpointSlice, GlobalService, MemberCluster or Reachability", head.Kind, head.APIVersion)}}, nil
	}
	return nil, nil, fmt.Errorf("%s: %s: %w", place, head.Kind, cause)
}

func decodeItems(place string, items []json.RawMessage, complete bool) (objects []Located, notes []Note, err error) {
	for i, item := range items {
		more, wrong, err := decode(fmt.Sprintf("%s: items[%d]", place, i), item, complete)
		if err != nil {
			return nil, nil, err
		}
		objects, notes = append(objects, more...), append(notes, wrong...)
	}
	return objects, notes, nil
}

// defaultNamespace sets the namespace of a namespaced object that has none, as kubectl apply does.
func defaultNamespace(o runtime.Object) {
	switch o.(type) {
	case *clustersetv1alpha1.MemberCluster, *clustersetv1alpha1.Reachability: // cluster-scoped
		return
	}
	if m, err := meta.Accessor(o); err == nil && m.GetNamespace() == "" {
		m.SetNamespace(metav1.NamespaceDefault)
	}
}

// convert converts an object, and adds a note if it can't be served.
func convert(o runtime.Object) (index.Object, []error) {
	object, errs, ok := index.Convert(o)
	if !ok {
		return nil, []error{errors.New("ignored: not a kind that is served")}
	}
	if object == nil && len(errs) == 0 {
		return nil, []error{errors.New("ignored: an EndpointSlice is served if it has the label multicluster.kubernetes.io/service-name and holds IPv4 or IPv6 addresses")}
	}
	out := make([]error, 0, len(errs))
	for _, err := range errs {
		out = append(out, err)
	}
	return object, out
}
