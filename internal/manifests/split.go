package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// document is one YAML document or JSON value of a file.
type document struct {
	line int // where it begins, from 1
	data []byte
	json bool
}

// split cuts a file into documents: at "---" lines for YAML, between values for JSON.
func split(data []byte) ([]document, error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		if documents, ok := splitJSON(data); ok {
			return documents, nil
		} // otherwise it is YAML that begins with a flow mapping, or invalid; the YAML reader decides
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		// The reader loses a last line without a line break that exactly fills its buffer, as when the disk was full.
		data = append(bytes.Clone(data), '\n')
	}
	var documents []document
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	line := 1
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if at := bytes.Index(data, doc); at >= 0 && len(doc) > 0 {
			line += bytes.Count(data[:at], []byte("\n"))
			data = data[at:]
		}
		if len(bytes.TrimSpace(doc)) > 0 {
			documents = append(documents, document{line: line, data: doc})
		}
	}
}

func splitJSON(data []byte) (documents []document, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return documents, true
		}
		if err != nil {
			return nil, false
		}
		start := int(d.InputOffset()) - len(raw)
		documents = append(documents, document{1 + bytes.Count(data[:start], []byte("\n")), raw, true})
	}
}

// atLine makes a YAML error's line one of the file: the parser counts from the document's beginning.
func atLine(err error, first int) string {
	msg := err.Error()
	rest, ok := strings.CutPrefix(msg, "yaml: line ")
	var line int
	if n, _ := fmt.Sscanf(rest, "%d:", &line); !ok || n != 1 {
		return fmt.Sprintf("%d: %s", first, msg)
	}
	_, text, _ := strings.Cut(rest, ":")
	return fmt.Sprintf("%d: yaml:%s", first+line-1, text)
}
