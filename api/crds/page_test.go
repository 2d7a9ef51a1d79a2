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
process write the rest. ServiceExport and ServiceImport are those of the
[Multi-Cluster Services API](https://multicluster.sigs.k8s.io/concepts/multicluster-services-api/).
`

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
			fmt.Fprintf(&b, "\n## %s\n\n`%s/%s`, %s, in kubectl %s.\n\n%s\n\n| field | type | |\n|---|---|---|\n",
				kind, crd.Spec.Group, v.Name, scope, names, v.Schema.OpenAPIV3Schema.Description)
			writeFields(&b, "", v.Schema.OpenAPIV3Schema, true)
		}
	}
	page.Fresh(t, "../../docs/api.md", b.String())
}

// writeFields writes a row for each property of a schema, and for those below it.
func writeFields(b *strings.Builder, path string, schema *apiextensionsv1.JSONSchemaProps, top bool) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if top && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
		field := schema.Properties[name]
		text := strings.ReplaceAll(strings.Join(strings.Fields(field.Description), " "), "|", `\|`)
		if slices.Contains(schema.Required, name) {
			text = strings.TrimSpace(text + " Required.")
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", path, name, typeOf(&field), text)
		writeBelow(b, path+name, &field)
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
		writeFields(b, path+".", field, false)
	}
}

func typeOf(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.Items != nil && field.Items.Schema != nil:
		return "array of " + typeOf(field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(field.AdditionalProperties.Schema)
	case field.XIntOrString:
		return "integer or string"
	case field.Format != "":
		return field.Type + " (" + field.Format + ")"
	}
	return field.Type
}
