package crds

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// load decodes every embedded CRD, by kind, and rejects unknown fields like a strict API server.
func load(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, data := range All() {
		object, _, err := decoder.Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		crd := object.(*apiextensionsv1.CustomResourceDefinition)
		crds[crd.Spec.Names.Kind] = crd
	}
	return crds
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// at follows property names down a schema; "[]" stands for a list's items.
func at(t *testing.T, schema apiextensionsv1.JSONSchemaProps, path ...string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, name := range path {
		if name == "[]" {
			schema = *schema.Items.Schema
			continue
		}
		next, ok := schema.Properties[name]
		if !ok {
			t.Fatalf("no %s in %v", name, path)
		}
		schema = next
	}
	return schema
}

// This test fails if a type gained, lost or renamed a field and `make generate` was not run. It takes far less time than
// generating.
func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	crds := load(t)
	for kind, object := range map[string]any{
		"GlobalService":     fabedgev1alpha1.GlobalService{},
		"MemberReport":      clustersetv1alpha1.MemberReport{},
		"MemberCluster":     clustersetv1alpha1.MemberCluster{},
		"ExportedService":   clustersetv1alpha1.ExportedService{},
		"ExportedEndpoints": clustersetv1alpha1.ExportedEndpoints{},
		"Reachability":      clustersetv1alpha1.Reachability{},
	} {
		compareFields(t, kind, reflect.TypeOf(object), schemaOf(crds[kind]))
	}
}

// opaque are types whose schemas don't list their Go fields.
var opaque = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[intstr.IntOrString](),
}

func compareFields(t *testing.T, path string, typ reflect.Type, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	switch {
	case slices.Contains(opaque, typ):
	case typ.Kind() == reflect.Pointer:
		compareFields(t, path, typ.Elem(), schema)
	case typ.Kind() == reflect.Slice:
		if schema.Items == nil {
			t.Errorf("%s is no list in the schema", path)
			return
		}
		compareFields(t, path+"[]", typ.Elem(), *schema.Items.Schema)
	case typ.Kind() == reflect.Struct:
		fields := map[string]reflect.Type{}
		collectFields(typ, fields)
		if have, want := slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(maps.Keys(fields)); !slices.Equal(have, want) {
			t.Errorf("%s has %v in the schema, %v in Go: run make generate", path, have, want)
			return
		}
		for name, field := range fields {
			compareFields(t, path+"."+name, field, schema.Properties[name])
		}
	}
}

func collectFields(typ reflect.Type, into map[string]reflect.Type) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			collectFields(f.Type, into) // inlined
			continue
		}
		into[name] = f.Type
	}
}

func TestLimitsInTheSchemasAreThoseOfTheCode(t *testing.T) {
	crds := load(t)
	global, member := schemaOf(crds["GlobalService"]), schemaOf(crds["MemberCluster"])
	service, endpoints := schemaOf(crds["ExportedService"]), schemaOf(crds["ExportedEndpoints"])
	endpoint := at(t, endpoints, "spec", "endpoints", "[]")
	for what, tc := range map[string]struct {
		got  *int64
		want int
	}{
		"GlobalService endpoint ports": {at(t, global, "spec", "endpoints", "[]", "ports").MaxItems, api.MaxPorts},
		"ExportedService ports":        {at(t, service, "spec", "ports").MaxItems, api.MaxPorts},
		"exported labels":              {at(t, service, "spec", "exportedLabels").MaxProperties, api.MaxExportedKeys},
		"exported annotations":         {at(t, service, "spec", "exportedAnnotations").MaxProperties, api.MaxExportedKeys},
		"ExportedEndpoints endpoints":  {at(t, endpoints, "spec", "endpoints").MaxItems, api.MaxExportedEndpoints},
		"ExportedEndpoints ports":      {at(t, endpoints, "spec", "ports").MaxItems, api.MaxPorts},
		"MemberCluster cidrs":          {at(t, member, "spec", "cidrs").MaxItems, clustersetv1alpha1.MaxCIDRs},
		"MemberCluster communities":    {at(t, member, "spec", "communities").MaxItems, clustersetv1alpha1.MaxCommunities},
		"MemberCluster zones":          {at(t, member, "spec", "zones").MaxItems, clustersetv1alpha1.MaxZones},
		"MemberCluster zone":           {at(t, member, "spec", "zone").MaxLength, api.MaxLocation},
		"MemberCluster region":         {at(t, member, "spec", "region").MaxLength, api.MaxLocation},
		// What the exporter leaves out is what the schema refuses.
		"addresses":          {at(t, endpoint, "addresses").MaxItems, api.MaxExportedAddresses},
		"an endpoint's zone": {at(t, endpoint, "zone").MaxLength, api.MaxEndpointZone},
		"exportTo":           {at(t, service, "spec", "exportTo").MaxItems, clustersetv1alpha1.MaxExportTo},
		"a hostname":         {at(t, endpoint, "hostname").MaxLength, 63},
	} {
		if tc.got == nil || *tc.got != int64(tc.want) {
			t.Errorf("%s: %v in the schema, %d in the code", what, tc.got, tc.want)
		}
	}
	if m := at(t, member, "spec", "weight").Maximum; m == nil || *m != float64(clustersetv1alpha1.DefaultWeight) {
		t.Errorf("weight: at most %v in the schema, %d in the code", m, clustersetv1alpha1.DefaultWeight)
	}
	rule := at(t, service, "spec", "exportedAnnotations").XValidations[0].Rule
	if want := fmt.Sprintf("<= %d", clustersetv1alpha1.MaxExportedAnnotationBytes); !strings.HasSuffix(rule, want) {
		t.Errorf("exported annotations: %s; want %s", rule, want)
	}
}

// FabDNS's schema requires an endpoint's addresses, allows two types, and restricts nothing else. If our schema were stricter
// in any of its fields, objects that are served today could not be applied.
func TestGlobalServiceTakesWhateverFabDNSTook(t *testing.T) {
	schema := schemaOf(load(t)["GlobalService"])
	if len(schema.Required) > 0 || len(at(t, schema, "spec").Required) > 0 || len(at(t, schema, "spec", "ports", "[]").Required) > 0 {
		t.Error("a field is required that FabDNS leaves out")
	}
	if got := at(t, schema, "spec", "endpoints", "[]").Required; !slices.Equal(got, []string{"addresses"}) {
		t.Errorf("an endpoint requires %v", got)
	}
	fields := [][]string{
		{"spec"},
		{"spec", "type"},
		{"spec", "ports"},
		{"spec", "ports", "[]"},
		{"spec", "endpoints"},
		{"spec", "endpoints", "[]"},
		{"spec", "endpoints", "[]", "addresses"},
		{"spec", "endpoints", "[]", "addresses", "[]"},
	}
	for _, name := range []string{"name", "protocol", "appProtocol", "port"} {
		fields = append(fields, []string{"spec", "ports", "[]", name})
	}
	for _, name := range []string{"hostname", "targetRef", "cluster", "zone", "region"} {
		fields = append(fields, []string{"spec", "endpoints", "[]", name})
	}
	for _, path := range fields {
		s := at(t, schema, path...)
		if s.MaxItems != nil || s.MinItems != nil || s.MaxLength != nil || s.MinLength != nil || s.Pattern != "" ||
			s.Minimum != nil || s.Maximum != nil || len(s.XValidations) > 0 || s.XListType != nil && *s.XListType == "map" {
			t.Errorf("%v is restricted, which FabDNS's is not", path)
		}
		if len(s.Enum) > 0 && path[len(path)-1] != "type" {
			t.Errorf("%v is an enumeration, which FabDNS's is not", path)
		}
	}
	if d := at(t, schema, "spec", "ports", "[]", "protocol").Default; d == nil || string(d.Raw) != `"TCP"` {
		t.Errorf("protocol defaults to %v", d)
	}
}

func TestEveryFieldOfOursIsExplained(t *testing.T) {
	for kind, crd := range load(t) {
		for _, part := range []string{"spec", "status"} {
			if s, ok := schemaOf(crd).Properties[part]; ok {
				if s.Description == "" {
					t.Errorf("%s.%s has no description", kind, part)
				}
				for name, field := range s.Properties {
					if field.Description == "" {
						t.Errorf("%s.%s.%s has no description", kind, part, name)
					}
				}
			}
		}
	}
}
