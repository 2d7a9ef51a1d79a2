package cli

import (
	"bytes"
	"cmp"
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
		return nil, usagef("--file %s: %w", p.file, err)
	}
	return changes, nil
}

// changesIn reads a list of changes.
func changesIn(content []byte) ([]preview.Change, error) {
	asJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, err // with its line
	}
	var items []json.RawMessage
	if err := json.Unmarshal(asJSON, &items); err != nil || len(items) == 0 {
		return nil, fmt.Errorf("this is not a list of changes; each begins with - and has one of %s", preview.Kinds)
	}
	changes := make([]preview.Change, len(items))
	for i, item := range items {
		d := json.NewDecoder(bytes.NewReader(item))
		d.DisallowUnknownFields()
		if err := d.Decode(&changes[i]); err != nil {
			return nil, fmt.Errorf("change %d: %w", i+1, inYAML(err))
		}
	}
	return changes, nil
}

// inYAML says what is wrong with a change in YAML's words.
func inYAML(err error) error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		want := map[reflect.Kind]string{reflect.Slice: "a list", reflect.Struct: "a mapping of fields", reflect.Int32: "a number"}[mismatch.Type.Kind()]
		return fmt.Errorf("%s must be %s", mismatch.Field, cmp.Or(want, "a text"))
	}
	var field string
	if _, unknown := fmt.Sscanf(err.Error(), "json: unknown field %q", &field); unknown == nil {
		return fmt.Errorf("there is no field %s%s", field, near.Meant(field, strings.FieldsFunc(preview.Kinds, func(r rune) bool { return r == ' ' || r == ',' })))
	}
	return err
}
