package door

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

var now = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

func decoded[T any](t testing.TB, text string) *T {
	t.Helper()
	record := new(T)
	if err := yaml.Unmarshal([]byte(text), record); err != nil {
		t.Fatal(err)
	}
	return record
}

const (
	service = `{metadata: {namespace: clusterset-member-a, name: web.shop, uid: u1, creationTimestamp: 2026-01-01T00:00:00Z}, spec: {serviceNamespace: shop, serviceName: web,
		type: ClusterSetIP, clusterIPs: [10.1.0.1], ports: [{name: http, port: 80}], exportedAt: 2026-01-01T00:00:00Z, revision: 7, endpoints: [0123456789abcdef-0]%s}}`
	endpoints = `{metadata: {namespace: clusterset-member-a, name: web.shop.0123456789abcdef-0, annotations: {endpoints.kubernetes.io/last-change-trigger-time: "2026-01-01T00:00:00Z"}},
		spec: {serviceNamespace: shop, serviceName: web, addressType: IPv4, ports: [{name: http, port: 8080, appProtocol: h2c}], endpoints: [
			{addresses: [10.2.0.1, 10.2.0.2], hostname: web-0, zone: z1, conditions: {ready: false, serving: true}}%s]}}`
)

// What can't be used is left out of a value, and of what was left out the first error is kept. Rule C52 of docs/spec/control-plane.md.
func TestWhatIsReadOfAService(t *testing.T) {
	for name, c := range map[string]struct {
		more   string
		change func(*clustersetv1alpha1.ExportedService)
		want   string // Cluster, revision, withdrawn, ports, or -1 if there is nothing to merge
		left   string
	}{
		"all of it":                    {want: "a 7 false 1"},
		"but what is invalid":          {more: ", policy: {prefer: moon, minReady: 2}", want: "a 7 false 1", left: "spec.policy.prefer"},
		"with one error of several":    {more: ", exportTo: [A, B, c]", want: "a 7 false 1", left: "and 1 more"},
		"nothing to merge if it went":  {more: ", withdrawn: true", want: "a 7 true -1"},
		"nor if it has no type":        {change: func(s *clustersetv1alpha1.ExportedService) { s.Spec.Type = "" }, want: "a 7 false -1", left: "spec.type"},
		"nor if it is nobody's":        {change: func(s *clustersetv1alpha1.ExportedService) { s.Namespace = "kube-system" }, want: " 7 false -1", left: "metadata.namespace"},
		"a revision from the future":   {change: func(s *clustersetv1alpha1.ExportedService) { s.Spec.Revision = now.AddDate(0, 0, 2).UnixMilli() }, want: "a 0 false 1"},
		"a service that has no record": {change: func(s *clustersetv1alpha1.ExportedService) { s.Spec.ServiceName = "." }, want: "a 7 false -1", left: "spec.serviceName"},
	} {
		t.Run(name, func(t *testing.T) {
			record := decoded[clustersetv1alpha1.ExportedService](t, fmt.Sprintf(service, c.more))
			if c.change != nil {
				c.change(record)
			}
			was := record.DeepCopy()
			e, ports := CompactService(record, now), -1
			if e.Spec != nil {
				ports = len(e.Spec.Ports)
			}
			if got := fmt.Sprint(e.Cluster, " ", e.Revision, " ", e.Withdrawn, " ", ports); got != c.want {
				t.Errorf("%s", got)
			}
			if !strings.Contains(e.Left.String(), c.left) || c.left == "" && e.Left.Count > 0 || len(e.Left.Errors) > 1 {
				t.Errorf("left out: %v", e.Left)
			}
			if e.UID != "u1" || e.Created.IsZero() || e.Key.Namespace != "shop" || e.Name != record.Name {
				t.Errorf("%+v", e)
			}
			if !equality.Semantic.DeepEqual(record, was) {
				t.Error("the record has changed")
			}
			if !e.Equal(CompactService(record, now)) {
				t.Error("it isn't equal to itself")
			}
		})
	}
	if CompactService(nil, now) != nil {
		t.Error("something is read of nothing")
	}
}

// Every field of a record that is read makes another value of it.
func TestValuesDiffer(t *testing.T) {
	for field, change := range map[string]func(*clustersetv1alpha1.ExportedService){
		"uid":      func(s *clustersetv1alpha1.ExportedService) { s.UID = "u2" },
		"created":  func(s *clustersetv1alpha1.ExportedService) { s.CreationTimestamp.Time = now },
		"revision": func(s *clustersetv1alpha1.ExportedService) { s.Spec.Revision++ },
		"went":     func(s *clustersetv1alpha1.ExportedService) { s.Spec.Withdrawn = true },
		"invalid": func(s *clustersetv1alpha1.ExportedService) {
			s.Spec.ExportedLabels = map[string]string{"kubernetes.io/x": ""}
		},
		"spec":    func(s *clustersetv1alpha1.ExportedService) { s.Spec.Endpoints = nil },
		"useless": func(s *clustersetv1alpha1.ExportedService) { s.Spec.Type = "" },
	} {
		a, b := decoded[clustersetv1alpha1.ExportedService](t, fmt.Sprintf(service, "")), decoded[clustersetv1alpha1.ExportedService](t, fmt.Sprintf(service, ""))
		change(b)
		if CompactService(a, now).Equal(CompactService(b, now)) {
			t.Errorf("a service with another %s is the same", field)
		}
	}
	for field, change := range map[string]func(*clustersetv1alpha1.ExportedEndpoints){
		"name":      func(e *clustersetv1alpha1.ExportedEndpoints) { e.Name += "1" },
		"trigger":   func(e *clustersetv1alpha1.ExportedEndpoints) { e.Annotations = nil },
		"family":    func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.AddressType = discoveryv1.AddressTypeIPv6 },
		"port":      func(e *clustersetv1alpha1.ExportedEndpoints) { *e.Spec.Ports[0].Port++ },
		"protocol":  func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.Ports[0].Protocol = new(corev1.ProtocolUDP) },
		"app":       func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.Ports[0].AppProtocol = nil },
		"external":  func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.External = true },
		"address":   func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.Endpoints[0].Addresses[0] = "10.2.0.9" },
		"more":      func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.Endpoints[0].Addresses = []string{"10.2.0.1"} },
		"hostname":  func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.Endpoints[0].Hostname = nil },
		"zone":      func(e *clustersetv1alpha1.ExportedEndpoints) { *e.Spec.Endpoints[0].Zone = "z2" },
		"condition": func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.Endpoints[0].Conditions.Serving = nil },
		"invalid":   func(e *clustersetv1alpha1.ExportedEndpoints) { e.Spec.Behind = 1 },
	} {
		a, b := decoded[clustersetv1alpha1.ExportedEndpoints](t, fmt.Sprintf(endpoints, "")), decoded[clustersetv1alpha1.ExportedEndpoints](t, fmt.Sprintf(endpoints, ""))
		change(b)
		if CompactEndpoints(a).Equal(CompactEndpoints(b)) {
			t.Errorf("endpoints with another %s are the same", field)
		}
	}
}

// FuzzEndpoints checks that a value has all that ExportedEndpoints.Sanitized keeps.
func FuzzEndpoints(f *testing.F) {
	for _, seed := range []string{
		fmt.Sprintf(endpoints, ", {addresses: [fd00::1]}, {addresses: [10.2.0.3], conditions: {terminating: true}}"),
		`{metadata: {name: web.shop.x-0}, spec: {serviceNamespace: shop, serviceName: web, addressType: IPv6, external: true, behind: 3, endpoints: [{addresses: ["fd00::1", "::ffff:10.0.0.1"], zone: ""}]}}`,
		`null`,
	} {
		text, err := yaml.YAMLToJSON([]byte(seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var record clustersetv1alpha1.ExportedEndpoints
		if json.Unmarshal(text, &record) != nil {
			return // the API server would reject it
		}
		record.Namespace = "clusterset-member-a"
		clean, left := record.Sanitized()
		e := CompactEndpoints(&record)
		if e.Usable != (clean != nil) || e.Left.Count != left.Count {
			t.Fatalf("%+v of %+v, %v", e, clean, left)
		}
		if clean == nil {
			return
		}
		clean.ObjectMeta = record.ObjectMeta
		if got := expanded(e); !equality.Semantic.DeepEqual(got, clean.Spec) {
			t.Errorf("%+v of %+v", got, clean.Spec)
		}
		if !e.Equal(CompactEndpoints(clean)) && left.Count == 0 {
			t.Error("what is sanitized reads differently")
		}
	})
}

// expanded returns the spec of a record that reads as e.
func expanded(e *Endpoints) clustersetv1alpha1.ExportedEndpointsSpec {
	s := clustersetv1alpha1.ExportedEndpointsSpec{
		ServiceNamespace: e.Key.Namespace, ServiceName: e.Key.Name, AddressType: e.AddressType, External: e.External, Behind: e.Behind,
	}
	for i := range e.Ports {
		p := &e.Ports[i]
		port := clustersetv1alpha1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Number}
		if p.AppProtocol != "" {
			port.AppProtocol = &p.AppProtocol
		}
		s.Ports = append(s.Ports, port)
	}
	for i := range e.Endpoints {
		endpoint := clustersetv1alpha1.Endpoint{Conditions: e.Endpoints[i].Conditions}
		for _, a := range e.Endpoints[i].Addresses() {
			endpoint.Addresses = append(endpoint.Addresses, a.String())
		}
		if name := e.Endpoints[i].Hostname; name != "" {
			endpoint.Hostname = &name
		}
		if zone := e.Endpoints[i].Zone; zone != "" {
			endpoint.Zone = &zone
		}
		s.Endpoints = append(s.Endpoints, endpoint)
	}
	return s
}

// Ten endpoints take less than one and a half kilobytes, which is about what they count.
func TestValuesAreSmall(t *testing.T) {
	var more strings.Builder
	for i := range 9 {
		fmt.Fprintf(&more, ", {addresses: [10.2.1.%d], zone: cn-hangzhou-h, conditions: {ready: true}}", i)
	}
	record := decoded[clustersetv1alpha1.ExportedEndpoints](t, strings.Replace(fmt.Sprintf(endpoints, more.String()), "10.2.0.1, ", "", 1))
	const n = 10_000
	all := make([]*Endpoints, 0, n)
	before := inUse()
	for range n {
		all = append(all, CompactEndpoints(record.DeepCopy()))
	}
	each := (inUse() - before) / n
	if each > 1500 || all[0].Size < int(each)/2 || all[0].Size > int(each)*2 {
		t.Errorf("%d bytes each, and counted as %d", each, all[0].Size)
	}
	t.Log(each, all[0].Size)
	runtime.KeepAlive(all)
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
