package exporter

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterset/clusterset/api"
)

// Rule C61 of docs/spec/control-plane.md: one invalid value in what people write about an export takes with it only what it says itself, and
// the ServiceExport's condition Complete names it.
func TestOneInvalidValueTakesNothingElseWithIt(t *testing.T) {
	whole := func() Source {
		src := exported(slice("web-1", 2), slice("web-2", 1))
		src.Export.Annotations = map[string]string{
			api.AnnotationPrefer: "zone", api.AnnotationBoundary: "region", api.AnnotationMinReady: "2", api.AnnotationExportTo: "beijing, lyon",
		}
		src.Export.Spec.ExportedLabels = map[string]string{"team": "shop", "tier": "web"}
		src.Export.Spec.ExportedAnnotations = map[string]string{"note": "a", "example.com/b": "c"}
		return src
	}
	type change struct {
		spoil, to func(*Source) // to makes the whole source what the spoiled one counts as
		said      string
	}
	onExport := func(key, value string) func(*Source) {
		return func(s *Source) { s.Export.Annotations[key] = value }
	}
	without := func(key string) func(*Source) {
		return func(s *Source) { delete(s.Export.Annotations, key) }
	}
	nothing := func(*Source) {}
	changes := map[string]change{
		"annotation prefer":           {onExport(api.AnnotationPrefer, "zone regoin"), without(api.AnnotationPrefer), `clusterset.dev/prefer]: Invalid value: "zone regoin": unknown tier "regoin": want one or more of cluster, zone and region, the most wanted first, separated by blanks, or none; did you mean region?`},
		"annotation boundary":         {onExport(api.AnnotationBoundary, "Region"), without(api.AnnotationBoundary), "did you mean region?"},
		"annotation min-ready":        {onExport(api.AnnotationMinReady, "two"), without(api.AnnotationMinReady), "clusterset.dev/min-ready]: Invalid value"},
		"annotation export-to":        {onExport(api.AnnotationExportTo, "beijing, Lyon, lyon"), nothing, `clusterset.dev/export-to]: Invalid value: "Lyon"`},
		"annotation export-to, whole": {onExport(api.AnnotationExportTo, "Lyon"), onExport(api.AnnotationExportTo, "beijing"), `clusterset.dev/export-to]: Invalid value: "Lyon"`},
		"annotation external-addresses": {
			onExport(api.AnnotationExternalAddresses, "192.0.2.1, 192.0.2.300"), onExport(api.AnnotationExternalAddresses, "192.0.2.1"),
			`clusterset.dev/external-addresses]: Invalid value: "192.0.2.300"`,
		},
		"annotation share":    {onExport(api.AnnotationShare, "50%"), nothing, `clusterset.dev/share]: Invalid value: "50%": want a whole number from 0 to 100`},
		"annotation misspelt": {onExport("clusterset.dev/exportTo", "lyon"), nothing, `metadata.annotations: Invalid value: "clusterset.dev/exportTo"`},
		"annotation of the Service": {
			func(s *Source) { s.Service.Annotations = map[string]string{"clusterset.dev/perfer": "zone"} }, nothing,
			`service.metadata.annotations: Invalid value: "clusterset.dev/perfer": must be one of the annotations clusterset.dev/prefer, clusterset.dev/boundary, clusterset.dev/min-ready, clusterset.dev/share, clusterset.dev/export-to, clusterset.dev/external-addresses; did you mean clusterset.dev/prefer?`,
		},
		"label of the Service": {
			func(s *Source) { s.Service.Labels = map[string]string{api.AnnotationBoundary: "zone"} }, nothing,
			`service.metadata.labels: Invalid value: "clusterset.dev/boundary"`,
		},
		"ExportedLabels, key":     {func(s *Source) { s.Export.Spec.ExportedLabels["a b"] = "c" }, nothing, "spec.exportedLabels"},
		"ExportedLabels, value":   {func(s *Source) { s.Export.Spec.ExportedLabels["note"] = "a b" }, nothing, "spec.exportedLabels"},
		"ExportedLabels, not his": {func(s *Source) { s.Export.Spec.ExportedLabels["clusterset.dev/managed-by"] = "importer" }, nothing, "spec.exportedLabels"},
		"ExportedAnnotations, key": {
			func(s *Source) { s.Export.Spec.ExportedAnnotations["-"] = "x" }, nothing, "spec.exportedAnnotations",
		},
		"ExportedAnnotations, size": {
			func(s *Source) { s.Export.Spec.ExportedAnnotations["zz"] = strings.Repeat("x", 17<<10) }, nothing, "spec.exportedAnnotations",
		},
		"port, appProtocol": {
			func(s *Source) { s.Service.Spec.Ports[0].AppProtocol = ptrTo(strings.Repeat("x", 300)) }, nothing, "spec.ports[0].appProtocol",
		},
		"port, targetPort": {
			func(s *Source) { s.Service.Spec.Ports[0].TargetPort = intstr.FromString("NOT/ONE") },
			func(s *Source) { s.Service.Spec.Ports[0].TargetPort = intstr.FromInt32(0) }, "spec.ports[0].targetPort",
		},
		"slice, address": {
			func(s *Source) {
				s.Slices[0].Endpoints[0].Addresses = append(s.Slices[0].Endpoints[0].Addresses, "127.0.0.1")
			}, nothing, "127.0.0.1",
		},
		"slice, hostname": {func(s *Source) { s.Slices[0].Endpoints[0].Hostname = ptrTo("No_Host") }, nothing, "hostname"},
		"slice, zone": {
			func(s *Source) { s.Slices[0].Endpoints[0].Zone = ptrTo(" a\t") },
			func(s *Source) { s.Slices[0].Endpoints[0].Zone = nil }, "zone",
		},
		"slice, port": {
			func(s *Source) {
				s.Slices[0].Ports = append(slices.Clone(s.Slices[0].Ports), discoveryv1.EndpointPort{Name: ptrTo("Bad_Name"), Port: ptrTo(int32(1))})
			}, nothing, "ports[1].name",
		},
	}
	known := whole()
	known.Service.Annotations = map[string]string{api.KeyExtend: api.ExtendTrue, api.AnnotationPrefer: "zone"}
	if wrong := unknownKeys(known); len(wrong) > 0 {
		t.Errorf("what a Service may have is reported: %v", wrong)
	}
	for _, key := range exportKeys() {
		if name := "annotation " + strings.TrimPrefix(key, api.Domain+"/"); changes[name].said == "" {
			t.Errorf("say what an invalid %s takes with it, as %q", key, name)
		}
	}
	for name, c := range changes {
		spoiled, right := whole(), whole()
		c.spoil(&spoiled)
		c.to(&right)
		got, want := desired(spoiled), desired(right)
		if !reflect.DeepEqual(got.Service, want.Service) || !reflect.DeepEqual(got.Endpoints, want.Endpoints) {
			t.Errorf("%s: exported\n%+v\n%+v\nwant\n%+v\n%+v", name, got.Service, got.Endpoints, want.Service, want.Endpoints)
		}
		if is := completeCondition(got.LeftOut); is.Status != metav1.ConditionFalse || !strings.Contains(is.Message, c.said) {
			t.Errorf("%s: the condition says %s %s\nwant %s", name, is.Status, is.Message, c.said)
		}
		if want.LeftOut.Count > 0 {
			t.Errorf("%s: what it counts as isn't right: %v", name, want.LeftOut)
		}
	}
}

func ptrTo[T any](v T) *T { return &v }
