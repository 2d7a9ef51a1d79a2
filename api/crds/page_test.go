package crds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/clusterset/clusterset/test/page"
)

const pageHead = `# Custom resources

<!-- Generated from the CustomResourceDefinitions by make generate. -->

The kinds that clusterset defines. People write MemberCluster's ` + "`spec`" + `, and GlobalService where there is no agent; the agents and the hub
process write the rest. ` + "`kubectl explain exportedservice.spec`" + ` describes the fields that are only named here.
ServiceExport and ServiceImport are those of the
[Multi-Cluster Services API](https://multicluster.sigs.k8s.io/concepts/multicluster-services-api/).
`

var (
	// onlyNamed are the kinds on the hub that only programs write and read: the page names their fields.
	onlyNamed = []string{"ExportedEndpoints", "ExportedService", "MemberReport"}
	// opaque are fields of types that Kubernetes defines and describes.
	opaque = []string{"conditions", "targetRef", "sessionAffinityConfig"}
	escape = strings.NewReplacer("|", `\|`, "<", "&lt;")
)

// docs/api.md documents the CustomResourceDefinitions. UPDATE=1 rewrites it.
func TestAPIPageIsFresh(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	all := load(t)
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		crd := all[kind]
		for _, v := range crd.Spec.Versions {
			scope := "in a namespace"
			if crd.Spec.Scope == apiextensionsv1.ClusterScoped {
				scope = "of the whole cluster"
			}
			names := "`" + strings.Join(append([]string{crd.Spec.Names.Plural}, crd.Spec.Names.ShortNames...), "`, `") + "`"
			schema := v.Schema.OpenAPIV3Schema
			fmt.Fprintf(&b, "\n## %s\n\n`%s/%s`, %s, in kubectl %s.\n\n%s\n", kind, crd.Spec.Group, v.Name, scope, names, escape.Replace(schema.Description))
			if slices.Contains(onlyNamed, kind) {
				fields := slices.Sorted(maps.Keys(schema.Properties["spec"].Properties))
				fmt.Fprintf(&b, "\nFields of `spec`: `%s`.\n", strings.Join(fields, "`, `"))
				continue
			}
			b.WriteString("\n| field | type | |\n|---|---|---|\n")
			writeFields(&b, "", schema)
		}
	}
	page.Fresh(t, "../../docs/api.md", b.String())
}

// writeFields writes a row for each property of a schema, and for those below it.
func writeFields(b *strings.Builder, path string, schema *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
		field := schema.Properties[name]
		text := strings.Join(strings.Fields(field.Description), " ")
		for _, verb := range []string{" is ", " are "} {
			text = strings.TrimPrefix(text, name+verb)
		}
		if slices.Contains(schema.Required, name) {
			text = strings.TrimSpace(text + " Required.")
		}
		if path != "" || field.Type != "object" { // spec and status say nothing themselves
			fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", path, name, typeOf(&field), escape.Replace(text))
		}
		if !slices.Contains(opaque, name) {
			writeBelow(b, path+name, &field)
		}
	}
}

// writeBelow writes the fields of a property's own type, of an array's elements or of a map's values.
func writeBelow(b *strings.Builder, path string, field *apiextensionsv1.JSONSchemaProps) {
	switch {
	case field.Items != nil && field.Items.Schema != nil:
		writeBelow(b, path+"[]", field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		writeBelow(b, path+"{}", field.AdditionalProperties.Schema)
	default:
		writeFields(b, path+".", field)
	}
}

func typeOf(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.Items != nil && field.Items.Schema != nil:
		return "[]" + typeOf(field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(field.AdditionalProperties.Schema)
	case field.XIntOrString:
		return "integer or string"
	case field.Format != "":
		return field.Format
	}
	return field.Type
}
