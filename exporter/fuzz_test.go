package exporter

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
)

// FuzzMemberRecords gives the exporter a Service, a ServiceExport and an EndpointSlice decoded from arbitrary JSON. What the exporter
// writes to the hub is in the member's own namespace, is valid, and is written only once: the next pass over the same objects writes
// nothing.
func FuzzMemberRecords(f *testing.F) {
	text := func(o any) []byte {
		b, err := json.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(text(service()), text(export()), text(slice("web-1", 3)))
	f.Add(text(service(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })), text(export(func(e *mcsv1beta1.ServiceExport) {
		e.Spec.ExportedLabels = map[string]string{"team": "red", "kubernetes.io/x": "y", " ": "\n"}
	})), text(slice("web-2", 250)))
	for _, odd := range []string{
		`null`, `{"spec":{"type":"ExternalName"}}`, `{"metadata":{"name":"a.b","namespace":"\u0000"}}`,
		`{"spec":{"clusterIPs":["None","127.0.0.1","x"],"ports":[{"name":"\u001b[2J","port":99999,"targetPort":"x"},{"port":1},{"port":1}],"ipFamilies":["IPv9"]}}`,
		`{"metadata":{"name":"s"},"addressType":"IPv6","endpoints":[{"addresses":["::ffff:10.0.0.1","fe80::1"],"hostname":"_http._tcp","zone":"z\n"},{"addresses":null}],"ports":[{"port":null},{"name":"","port":0}]}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
	} {
		f.Add([]byte(odd), text(export()), text(slice("web-1", 1)))
		f.Add(text(service()), []byte(odd), text(slice("web-1", 1)))
		f.Add(text(service()), text(export()), []byte(odd))
	}
	f.Fuzz(func(t *testing.T, serviceJSON, exportJSON, sliceJSON []byte) {
		src := Source{Cluster: "beijing", Key: web, Service: &corev1.Service{}, Export: &mcsv1beta1.ServiceExport{}, Slices: make([]discoveryv1.EndpointSlice, 1)}
		if json.Unmarshal(serviceJSON, src.Service) != nil || json.Unmarshal(exportJSON, src.Export) != nil || json.Unmarshal(sliceJSON, &src.Slices[0]) != nil {
			return // the API server refuses it
		}
		d := desired(src)
		if d.Service == nil && len(d.Endpoints) > 0 || d.Service != nil && d.Refused != nil {
			t.Fatalf("service %v, %d endpoints, refused %v", d.Service, len(d.Endpoints), d.Refused)
		}
		have := Records{}
		if d.Service != nil {
			if d.Service.Namespace != api.MemberNamespace("beijing") || d.Service.Name != api.ExportedServiceName(web.Namespace, web.Name) {
				t.Errorf("a record at %s/%s", d.Service.Namespace, d.Service.Name)
			}
			if errs := d.Service.Validate(); len(errs) > 0 {
				t.Errorf("ExportedService: %v", errs.ToAggregate())
			}
			have.Service = d.Service.DeepCopy()
			have.Service.Spec.Revision = 1
		}
		names := map[string]bool{}
		for i := range d.Endpoints {
			e := &d.Endpoints[i]
			if e.Namespace != api.MemberNamespace("beijing") || names[e.Name] {
				t.Errorf("a record at %s/%s, or two", e.Namespace, e.Name)
			}
			names[e.Name] = true
			if errs := e.Validate(); len(errs) > 0 {
				t.Errorf("ExportedEndpoints: %v", errs.ToAggregate())
			}
			have.Endpoints = append(have.Endpoints, *e.DeepCopy())
		}
		if again := plan(have, desired(src), numbering{now: epoch.Time}); len(again) > 0 {
			t.Errorf("written over and over: %v", again)
		}
	})
}

// FuzzRestrictionsHold annotates a ServiceExport or its Service with arbitrary text. Whatever the text, export-to restricts the record to
// some clusters, even if the agent made the ServiceExport for a mark, and even while the agent keeps the record after the ServiceExport was
// deleted. A valid boundary is kept in the same way. An invalid one is ignored and reported, because a typo must not take a service away
// from all other clusters.
func FuzzRestrictionsHold(f *testing.F) {
	for _, to := range []string{"shanghai", "", " ", ",", "\n", "shanghai,shanghai", "Shanghai", "*", "all", "-", "shanghai;guangzhou", "\xff\x00", strings.Repeat("x,", 1<<10), strings.Repeat("x", 1<<18)} {
		for _, boundary := range []string{"region", "", "Region", "REGION ", "zone zone", "none", "any", "*", "\xff", "region" + strings.Repeat(" ", 64)} {
			f.Add(to, boundary, true, true)
			f.Add(to, boundary, true, false)
			f.Add(to, boundary, false, true)
			f.Add(to, boundary, false, false)
		}
	}
	f.Fuzz(func(t *testing.T, to, boundary string, onExport, mark bool) {
		src := Source{Cluster: "beijing", Key: web, Service: service(), Export: export()}
		if mark {
			src.Service.Annotations = map[string]string{api.KeyGlobalService: "true"}
			src.Export = markedExport(src.Service, false, nil)
			src.Export.CreationTimestamp = epoch
		}
		on := &src.Service.ObjectMeta
		if onExport {
			on = &src.Export.ObjectMeta
		}
		metav1.SetMetaDataAnnotation(on, api.AnnotationExportTo, to)
		metav1.SetMetaDataAnnotation(on, api.AnnotationBoundary, boundary)
		record := desired(src).Service
		src.Service.Annotations, src.Export = nil, keptExport(record, src.Key)
		for what, r := range map[string]*clustersetv1alpha1.ExportedService{"written": record, "kept": desired(src).Service} {
			_, err := topology.ParseTier(boundary)
			if len(r.Spec.ExportTo) == 0 || err == nil && (r.Spec.Policy == nil || r.Spec.Policy.Boundary == "") {
				t.Errorf("the record that is %s is for %v by %+v", what, r.Spec.ExportTo, r.Spec.Policy)
			}
			if errs := r.Validate(); len(errs) > 0 {
				t.Errorf("the record that is %s: %v", what, errs.ToAggregate())
			}
		}
	})
}
