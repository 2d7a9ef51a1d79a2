package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/near"
)

// fromFile reads the changes of --file.
func (p *previewCommand) fromFile() (changes []preview.Change, err error) {
	var content []byte
	switch p.file {
	case "":
		return nil, usagef("no change is given; name one (down, drain, undrain, leave, export, unexport, place, policy, communities, export-to, network), or a file with --file")
	case "-":
		content, err = io.ReadAll(os.Stdin)
	default:
		content, err = os.ReadFile(p.file)
	}
	if err != nil {
		return nil, usagef("--file: %w", err)
	}
	if changes, err = changesIn(content); err != nil {
		return nil, usagef("--file %s:%w", p.file, err)
	}
	return changes, nil
}

// changesIn reads a list of changes. An error begins with the number of its line.
func changesIn(content []byte) ([]preview.Change, error) {
	asJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, atLine(err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(asJSON, &items); err != nil {
		return nil, fmt.Errorf("1: this is not a list of changes; each begins with - and has one of %s", preview.Kinds)
	}
	if len(items) == 0 {
		return nil, errors.New("1: the list has no changes")
	}
	changes := make([]preview.Change, len(items))
	for i, item := range items {
		d := json.NewDecoder(bytes.NewReader(item))
		d.DisallowUnknownFields()
		if err := d.Decode(&changes[i]); err != nil {
			field, words := inYAML(err)
			return nil, fmt.Errorf("%d: %s", lineOf(content, i, field), words)
		}
	}
	return changes, nil
}

// atLine puts the line of a syntax error first.
func atLine(err error) error {
	message := err.Error()[strings.LastIndex(err.Error(), "yaml: ")+len("yaml: "):]
	var line int
	if n, _ := fmt.Sscanf(message, "line %d:", &line); n == 0 {
		return fmt.Errorf("1: %s", message)
	}
	_, message, _ = strings.Cut(message, ": ")
	return fmt.Errorf("%d: %s", line, message)
}

// inYAML says what is wrong with a change in YAML's words, and in which field.
func inYAML(err error) (field, words string) {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		field = mismatch.Field[strings.LastIndex(mismatch.Field, ".")+1:]
		want := map[reflect.Kind]string{reflect.Slice: "a list", reflect.Struct: "a mapping of fields", reflect.String: "a text", reflect.Int32: "a number"}[mismatch.Type.Kind()]
		is := map[string]string{"string": "a text", "array": "a list", "object": "a mapping of fields", "bool": "true or false"}[mismatch.Value]
		if is == "" {
			is = "a " + mismatch.Value
		}
		return field, fmt.Sprintf("%s is %s; it must be %s", field, is, want)
	}
	if _, err := fmt.Sscanf(err.Error(), "json: unknown field %q", &field); err == nil {
		return field, near.Unknown("field", field, fieldsOf(reflect.TypeFor[preview.Change]())).Error()
	}
	return "", err.Error()
}

// fieldsOf returns the names of all fields in a change.
func fieldsOf(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name != "" {
			all = append(all, name)
		}
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct {
			all = append(all, fieldsOf(of)...)
		}
	}
	return all
}

// lineOf returns the line of a field in an item of the list, or of the item.
func lineOf(content []byte, item int, field string) int {
	at, begins := -1, 1
	for i, line := range strings.Split(string(content), "\n") {
		if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
			at++
			if at == item {
				begins = i + 1
			}
		}
		if at == item && field != "" && strings.Contains(line, field+":") {
			return i + 1
		}
	}
	return begins
}
