// Package cases reads tables for tests from YAML files. A row changes a valid object, and says what is left of it.
package cases

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// Table is a file. Values that several rows have may stand in shared, with anchors.
type Table struct {
	Shared any            `json:"shared,omitempty"`
	Valid  map[string]any `json:"valid,omitempty"` // the object, unless the test makes it
	Cases  []Case         `json:"cases"`
}

// Case is a row. Change and Left are JSON merge patches (RFC 7396) of the valid object.
type Case struct {
	Name   string         `json:"name"`
	Change map[string]any `json:"change,omitempty"`
	Left   map[string]any `json:"left,omitempty"`
	// Dropped says that nothing is left.
	Dropped bool `json:"dropped,omitempty"`
	// Text is what the object becomes, as text.
	Text   string   `json:"text,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

// Read reads a file.
func Read(t testing.TB, path string) (table Table) {
	t.Helper()
	content, err := os.ReadFile(path) //nolint:gosec // a test's file
	if err != nil {
		t.Fatal(err)
	}
	if content, err = yaml.YAMLToJSON(content); err != nil { // not strictly, as a value that is merged in may be replaced
		t.Fatalf("%s: %v", path, err)
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&table); err != nil || len(table.Cases) == 0 {
		t.Fatalf("%s: %d cases, %v", path, len(table.Cases), err)
	}
	return table
}

// Object returns a copy of a valid object, with the patch.
func Object[T any](t testing.TB, valid any, patch map[string]any) *T {
	t.Helper()
	content, err := json.Marshal(valid)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	merge(fields, patch)
	if content, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	object := new(T)
	if err := yaml.UnmarshalStrict(content, object); err != nil {
		t.Fatalf("%s: %v", content, err)
	}
	return object
}

func merge(into, patch map[string]any) {
	for name, value := range patch {
		below, isMap := value.(map[string]any)
		if at, both := into[name].(map[string]any); isMap && both {
			merge(at, below)
			continue
		}
		if into[name] = value; value == nil {
			delete(into, name)
		}
	}
}
