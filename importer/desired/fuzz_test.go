package desired_test

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/test/records"
)

// FuzzHubRecords uses any JSON as one member's records, including their metadata, next to an honest member's. The result is
// valid, contains the honest member's part, and DNS servers accept all of it.
func FuzzHubRecords(f *testing.F) {
	for _, pair := range [][2]string{
		{
			`{"spec":{"serviceNamespace":"shop","serviceName":"web","type":"ClusterSetIP","clusterIPs":["10.12.0.5"],"ipFamilies":["IPv4"],"ports":[{"name":"http","port":80}],"exportedAt":"2025-01-01T00:00:00Z"}}`,
			`{"spec":{"serviceNamespace":"shop","serviceName":"web","addressType":"IPv4","ports":[{"name":"http","port":8080}],"endpoints":[{"addresses":["10.2.0.1"],"hostname":"web-0","zone":"z","conditions":{"ready":false}}]}}`,
		},
		{
			`{"metadata":{"namespace":"clusterset-member-a","name":"other.ns","labels":{"clusterset.dev/cluster":"a"}},"spec":{"type":"Headless","exportedLabels":{"a":"b","kubernetes.io/x":""}}}`,
			`{"metadata":{"namespace":"kube-system"},"spec":{"addressType":"IPv6","endpoints":[{"addresses":["fd00::1","::1","fe80::1%eth0"],"hostname":"_http._tcp"},{"addresses":[]}]}}`,
		},
		{
			`{"spec":{"type":"ExternalName","ports":[{"name":"A.B\u0000","port":-1},{"port":70000},{"name":"x","port":1},{"name":"x","port":2}],"sessionAffinity":"x","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":-1}},"trafficDistribution":"\u001b[2J"}}`,
			`{"spec":{"addressType":"FQDN","endpoints":[{"addresses":["a.b"],"hostname":"h\u00e9"}]}}`,
		},
		{`null`, `{"spec":null}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]), uint8(0))
		f.Add([]byte(pair[0]), []byte(pair[1]), uint8(5))
	}
	paths := []desired.DataPath{desired.DataPathPods, desired.DataPathClusterIPs, desired.DataPathNone}
	f.Fuzz(func(t *testing.T, serviceJSON, endpointsJSON []byte, how uint8) {
		var s clustersetv1alpha1.ExportedService
		var e clustersetv1alpha1.ExportedEndpoints
		if json.Unmarshal(serviceJSON, &s) != nil || json.Unmarshal(endpointsJSON, &e) != nil {
			return // the API server would reject it
		}
		if how&4 == 0 { // RBAC and the index by service enforce these fields
			s.Namespace, s.Name, e.Namespace = "clusterset-member-b", "web.shop", "clusterset-member-b"
			s.Spec.ServiceNamespace, s.Spec.ServiceName = "shop", "web"
			e.Spec.ServiceNamespace, e.Spec.ServiceName = "shop", "web"
		}
		in := records.Input(t, paths[how%3])
		honestService, honestEndpoints := honest(t)
		in.Services = []*clustersetv1alpha1.ExportedService{honestService, &s}
		in.Endpoints = []*clustersetv1alpha1.ExportedEndpoints{honestEndpoints, &e}
		out := in.Compute()
		if out.ServiceImport == nil {
			t.Fatal("one bad record took the other cluster's with it")
		}
		checkImport(t, out)
		for _, slice := range out.Slices {
			checkSlice(t, slice)
			if _, errs, _ := index.Convert(slice); len(errs) > 0 {
				t.Errorf("the DNS servers find in a slice: %v", errs.ToAggregate())
			}
		}
		if _, errs, _ := index.Convert(out.ServiceImport); len(errs) > 0 {
			t.Errorf("the DNS servers find in the ServiceImport: %v", errs.ToAggregate())
		}
		if errs := out.Global.Validate(); len(errs) > 0 {
			t.Errorf("GlobalService: %v", errs.ToAggregate())
		}
		for _, endpoint := range out.Global.Spec.Endpoints {
			if endpoint.Cluster != "a" && (endpoint.Cluster != "b" || s.Namespace != "clusterset-member-b" && e.Namespace != "clusterset-member-b") && how&4 == 0 {
				t.Errorf("an endpoint of cluster %q, which wrote nothing", endpoint.Cluster)
			}
		}
	})
}

func honest(t *testing.T) (*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpoints) {
	t.Helper()
	s, e := &clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}
	for o, text := range map[any]string{
		s: "{metadata: {namespace: clusterset-member-a, name: web.shop}, spec: {serviceNamespace: shop, serviceName: web, type: ClusterSetIP, clusterIPs: [10.11.0.5], ipFamilies: [IPv4], ports: [{name: http, port: 80}], exportedAt: 2026-01-01T00:00:00Z}}",
		e: "{metadata: {namespace: clusterset-member-a, name: web.shop.x-0}, spec: {serviceNamespace: shop, serviceName: web, addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.1.0.1]}]}}",
	} {
		if err := yaml.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
	}
	return s, e
}
