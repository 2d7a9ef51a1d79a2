package kube

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// decode returns the objects of YAML or JSON manifests of one or more documents each, in an order in which they can be applied: CRDs first, then
// namespaces, then the rest as written. Lists are split into their items; documents with only comments are skipped.
func decode(manifests ...[]byte) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	for _, manifest := range manifests {
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
		for n := 1; ; n++ {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read document %d: %w", n, err)
			}
			found, err := decodeDocument(doc)
			if err != nil {
				return nil, fmt.Errorf("decode document %d: %w\n%s", n, err, doc)
			}
			objs = append(objs, found...)
		}
	}
	slices.SortStableFunc(objs, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	return objs, nil
}

func decodeDocument(doc []byte) ([]*unstructured.Unstructured, error) {
	// JSON is not quite YAML (it may be indented with tabs), and a text that begins with a brace is not always JSON.
	if !json.Valid(doc) {
		converted, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return nil, err
		}
		doc = converted
	}
	if string(doc) == "null" {
		return nil, nil
	}
	obj := new(unstructured.Unstructured)
	if err := obj.UnmarshalJSON(doc); err != nil {
		return nil, err
	}
	if !obj.IsList() {
		return []*unstructured.Unstructured{obj}, nil
	}
	var items []*unstructured.Unstructured
	err := obj.EachListItem(func(item runtime.Object) error {
		items = append(items, item.(*unstructured.Unstructured))
		return nil
	})
	return items, err
}

func rank(obj *unstructured.Unstructured) int {
	switch {
	case isCRD(obj):
		return 0
	case obj.GetAPIVersion() == "v1" && obj.GetKind() == "Namespace":
		return 1
	}
	return 2
}

func isCRD(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "CustomResourceDefinition" && obj.GroupVersionKind().Group == "apiextensions.k8s.io"
}

// describe identifies an object in an error.
func describe(obj *unstructured.Unstructured) string {
	if ns := obj.GetNamespace(); ns != "" {
		return fmt.Sprintf("%s %s/%s", obj.GetKind(), ns, obj.GetName())
	}
	return fmt.Sprintf("%s %s", obj.GetKind(), obj.GetName())
}
