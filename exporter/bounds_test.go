package exporter

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// The hub refuses records that are larger than an exporter writes, and takes the largest that an exporter writes, of a Service that exceeds
// every bound. Rules C50 and C51 of docs/spec/control-plane.md.
func TestTheHubRefusesWhatNoExporterWrites(t *testing.T) {
	t.Parallel()
	src := excessive()
	d := desired(src)
	if d.Service == nil || len(d.Endpoints) != 1 {
		t.Fatalf("nothing is exported: %v", d)
	}
	if message := completeCondition(d.LeftOut).Message; !strings.Contains(message, "spec.ports: Too many: 101: must have at most 100 items") {
		t.Errorf("the condition says %s", message)
	}

	hub := kube.StartAll(t, nil)[0]
	if err := join.InstallHubCRDs(t.Context(), join.At(hub.Config())); err != nil {
		t.Fatal(err)
	}
	onHub, err := connect.NewClient(hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.MemberNamespace("beijing")}}
	if err := onHub.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{d.Service.DeepCopy(), d.Endpoints[0].DeepCopy()} {
		if err := onHub.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Errorf("the hub refuses what is exported: %v", err)
		}
	}

	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		record, path string
		value        any
	}{
		{"service", "exportedAnnotations", map[string]any{"note": long}},
		{"service", "exportedAnnotations", map[string]any{long: ""}},
		{"service", "exportedLabels", map[string]any{"team": strings.Repeat("x", 64)}},
		{"service", "exportedLabels", map[string]any{long: "x"}},
		{"service", "exportedAt", "2026-01-01T00:00:00." + strings.Repeat("0", 1<<20) + "Z"},
		{"service", "trafficDistribution", long},
		{"service", "clusterIPs", []any{long}},
		{"service", "ports", []any{map[string]any{"port": int64(80), "targetPort": long}}},
		{"service", "ports", []any{map[string]any{"port": int64(80), "appProtocol": long}}},
		{"endpoints", "endpoints", []any{map[string]any{"addresses": []any{"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5"}}}},
		{"endpoints", "endpoints", []any{map[string]any{"addresses": []any{}}}},
		{"endpoints", "endpoints", []any{map[string]any{"addresses": []any{strings.Repeat("1", 46)}}}},
		{"endpoints", "endpoints", []any{map[string]any{"addresses": []any{"10.1.0.1"}, "zone": long}}},
		{"endpoints", "endpoints", []any{map[string]any{"addresses": []any{"10.1.0.1"}, "hostname": long}}},
		{"endpoints", "ports", []any{map[string]any{"port": int64(80), "name": long}}},
		{"endpoints", "ports", []any{map[string]any{"port": int64(80), "appProtocol": long}}},
	} {
		o := untyped(t, d, c.record)
		if err := unstructured.SetNestedField(o.Object, c.value, "spec", c.path); err != nil {
			t.Fatal(err)
		}
		err := onHub.Create(t.Context(), o, client.DryRunAll)
		if what := fmt.Sprintf("%s %s %.80v", c.record, c.path, c.value); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %.300v", what, err)
		}
	}

	// What isn't in the schema isn't stored.
	o := untyped(t, d, "endpoints")
	endpoint := map[string]any{"addresses": []any{"10.1.0.1"}, "nodeName": long, "deprecatedTopology": map[string]any{"a": long}}
	if err := unstructured.SetNestedSlice(o.Object, []any{endpoint}, "spec", "endpoints"); err != nil {
		t.Fatal(err)
	}
	if err := onHub.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if content, err := json.Marshal(o); err != nil || len(content) > 100_000 {
		t.Errorf("the hub keeps %d bytes of it", len(content))
	}
}

// excessive exceeds every bound of a record.
func excessive() Source {
	src := exported(slice("web-1", api.MaxExportedEndpoints, func(s *discoveryv1.EndpointSlice) {
		zone, host := strings.Repeat("华", 64), strings.Repeat("h", 63)
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			e.Zone, e.Hostname = &zone, &host
			for j := range 99 {
				e.Addresses = append(e.Addresses, fmt.Sprintf("10.2.%d.%d", i, j+1))
			}
		}
		s.Ports = nil
		for i := range api.MaxPorts + 1 {
			name, number, protocol := fmt.Sprintf("%s%03d", strings.Repeat("p", 60), i), int32(1000+i), longestProtocol
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number, AppProtocol: &protocol})
		}
	}))
	src.Service.Spec.Ports = nil
	for i := range api.MaxPorts + 1 {
		protocol := longestProtocol
		src.Service.Spec.Ports = append(src.Service.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("%s%03d", strings.Repeat("p", 60), i), Port: int32(1000 + i), AppProtocol: &protocol, //nolint:gosec // small
		})
	}
	src.Export = export(func(e *mcsv1beta1.ServiceExport) {
		e.Spec.ExportedLabels, e.Spec.ExportedAnnotations = map[string]string{}, map[string]string{"note-0001": strings.Repeat("x", clustersetv1alpha1.MaxExportedAnnotationBytes)}
		prefix := strings.Repeat(strings.Repeat("d", 62)+".", 4)
		for i := range api.MaxExportedKeys + 1 {
			e.Spec.ExportedLabels[fmt.Sprintf("%sx/%s%03d", prefix, strings.Repeat("k", 60), i)] = strings.Repeat("v", 63)
			e.Spec.ExportedAnnotations[fmt.Sprint("text-", i)] = strings.Repeat("华", 70)
		}
		var to []string
		for i := range clustersetv1alpha1.MaxExportTo + 1 {
			to = append(to, fmt.Sprintf("%s%03d", strings.Repeat("c", 60), i))
		}
		e.Annotations = map[string]string{api.AnnotationExportTo: strings.Join(to, ",")}
	})
	return src
}

// longestProtocol is the longest name of an application protocol that a Service may have.
var longestProtocol = strings.Repeat(strings.Repeat("d", 62)+".", 4) + "x/" + strings.Repeat("p", 63)

func untyped(t *testing.T, d Desired, record string) *unstructured.Unstructured {
	t.Helper()
	var from any = d.Endpoints[0]
	kind := kindEndpoints
	if record == "service" {
		from, kind = d.Service, kindService
	}
	content, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind))
	return o
}
