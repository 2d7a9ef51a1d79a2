package clusterset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
)

// strict reads objects and says which fields it doesn't know, which are mostly misspelt.
var strict = serializer.NewCodecFactory(sourceScheme, serializer.EnableStrict).UniversalDeserializer()

// note is something wrong with a file that leaves the rest of it usable.
type note struct {
	place, kind string
	err         error
}

func (n note) String() string { return n.place + ": " + n.err.Error() }

// document is one YAML document or JSON value of a file.
type document struct {
	line int // where it begins, from 1
	data []byte
}

// decodeManifest reads the objects of a file. An error means that the file as a whole can't be trusted: a document that
// doesn't parse may be half of what its writer meant to say.
func decodeManifest(name string, data []byte) ([]located, []note, error) {
	documents, err := split(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	var objects []located
	var notes []note
	for _, d := range documents {
		place := fmt.Sprintf("%s:%d", name, d.line)
		asJSON, err := sigsyaml.YAMLToJSONStrict(d.data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%s", name, atLine(err, d.line))
		}
		more, wrong, err := decodeDocument(place, asJSON)
		if err != nil {
			return nil, nil, err
		}
		objects, notes = append(objects, more...), append(notes, wrong...)
	}
	return objects, notes, nil
}

// split cuts a file into documents: at "---" lines for YAML, between values for JSON.
func split(data []byte) ([]document, error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		if documents, ok := splitJSON(data); ok {
			return documents, nil
		} // else YAML that begins with a flow mapping, or broken: the YAML reader knows
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
			documents = append(documents, document{line, doc})
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
		documents = append(documents, document{1 + bytes.Count(data[:start], []byte("\n")), raw})
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

// decodeDocument reads one document: an object, or a List of them.
func decodeDocument(place string, data []byte) ([]located, []note, error) {
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
	if head.Kind == "" || head.APIVersion == "" {
		return nil, nil, fmt.Errorf("%s: apiVersion and kind are missing", place)
	}
	if head.Items != nil && strings.HasSuffix(head.Kind, "List") {
		var objects []located
		var notes []note
		for i, item := range head.Items {
			more, wrong, err := decodeDocument(fmt.Sprintf("%s: items[%d]", place, i), item)
			if err != nil {
				return nil, nil, err
			}
			objects, notes = append(objects, more...), append(notes, wrong...)
		}
		return objects, notes, nil
	}
	o, _, err := strict.Decode(data, nil, nil)
	var notes []note
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil, []note{{place, "other", fmt.Errorf("%s of %s is ignored: want ServiceImport, EndpointSlice, GlobalService or MemberCluster", head.Kind, head.APIVersion)}}, nil
	case o != nil && runtime.IsStrictDecodingError(err):
		notes = append(notes, note{place, head.Kind, err})
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %s: %w", place, head.Kind, err)
	}
	defaultNamespace(o)
	object, wrong := convertAny(o)
	for _, err := range wrong {
		notes = append(notes, note{place, head.Kind, fmt.Errorf("%s: %w", head.Kind, err)})
	}
	if object == nil {
		return nil, notes, nil
	}
	return []located{{object, place}}, notes, nil
}

// defaultNamespace does what kubectl apply would do with a namespaced object that names no namespace.
func defaultNamespace(o runtime.Object) {
	if _, clusterScoped := o.(*clustersetv1alpha1.MemberCluster); clusterScoped {
		return
	}
	if m, err := meta.Accessor(o); err == nil && m.GetNamespace() == "" {
		m.SetNamespace(metav1.NamespaceDefault)
	}
}

// convertAny finds the kind that an object is of and reads it as that.
func convertAny(o runtime.Object) (index.Object, []error) {
	for _, k := range watchedKinds {
		if !k.is(o) {
			continue
		}
		object, errs := k.convert(o)
		out := make([]error, 0, len(errs))
		for _, err := range errs {
			out = append(out, err)
		}
		if object == nil && len(errs) == 0 {
			out = append(out, errors.New("ignored: an EndpointSlice is served if it has the label multicluster.kubernetes.io/service-name and holds IPv4 or IPv6 addresses"))
		}
		return object, out
	}
	return nil, []error{errors.New("ignored: not a kind that is served")}
}
