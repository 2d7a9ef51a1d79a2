package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/clusterset/clusterset/api"
)

// decode decodes a GlobalService, and rejects unknown and duplicate fields like a strict API server.
func decode(t *testing.T, data []byte) *GlobalService {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*GlobalService)
}

func TestSamplesDecodeStrictlyAndServeWhole(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			g := decode(t, data)
			if errs := g.Validate(); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			// An object written by FabDNS encodes to the same JSON: no field is renamed or added.
			in, err := yaml.ToJSON(data)
			if err != nil {
				t.Fatal(err)
			}
			var want, got map[string]any
			out, err := json.Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(in, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(got["spec"], want["spec"]) {
				t.Errorf("spec came back as\n%v\nwant\n%v", got["spec"], want["spec"])
			}
		})
	}
}

// service returns a valid GlobalService, changed by f.
func service(f func(*GlobalService)) *GlobalService {
	hostname := "web-0"
	g := &GlobalService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: GlobalServiceSpec{
			Type:  Headless,
			Ports: []ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			Endpoints: []Endpoint{
				{Addresses: []string{"10.1.0.1"}, Hostname: &hostname, Cluster: "chaoyang", Zone: "beijing", Region: "north"},
				{Addresses: []string{"10.2.0.1", "fd00:2::1"}, Cluster: "minhang"},
			},
		},
	}
	if f != nil {
		f(g)
	}
	return g
}

func TestSanitizedDropsWhatIsWrongAndKeepsTheRest(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, tc := range []struct {
		name   string
		change func(*GlobalService)
		want   func(*GlobalService) // makes the expected result from a valid object; nil if the object is dropped
		errs   []string             // path and part of the message of each error, in order
	}{
		{"nothing wrong", nil, func(*GlobalService) {}, nil},
		{
			"a name that is no label",
			func(g *GlobalService) { g.Name = "a.b" },
			nil,
			[]string{"metadata.name: Invalid value: \"a.b\": must be a DNS label"},
		},
		{
			"no namespace",
			func(g *GlobalService) { g.Namespace = "" },
			nil,
			[]string{"metadata.namespace: Invalid value: \"\": must be a DNS label"},
		},
		{
			"an unknown type",
			func(g *GlobalService) { g.Spec.Type = "ExternalName" },
			nil,
			[]string{"spec.type: Unsupported value: \"ExternalName\": supported values: \"ClusterIP\", \"Headless\""},
		},
		{
			"no type is ClusterIP",
			func(g *GlobalService) { g.Spec.Type = "" },
			func(g *GlobalService) { g.Spec.Type = ClusterIP },
			nil,
		},
		{
			"no protocol is TCP",
			func(g *GlobalService) {
				g.Spec.Ports[0].Protocol = ""
				g.Spec.Endpoints[0].Ports = []EndpointPort{{Port: 1}}
			},
			func(g *GlobalService) {
				g.Spec.Endpoints[0].Ports = []EndpointPort{{Protocol: corev1.ProtocolTCP, Port: 1}}
			},
			nil,
		},
		{
			"bad ports",
			func(g *GlobalService) {
				g.Spec.Ports = []ServicePort{
					{Name: "none"},
					{Name: "high", Port: 65536},
					{Name: "negative", Port: -1},
					{Name: "quic", Protocol: "QUIC", Port: 1},
					{Name: "under_score", Port: 2},
					{Name: "http", Port: 80},
					{Name: "http", Port: 81},
					{Name: "web", Port: 80},
					{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 80},
					{Port: 7},
					{Port: 8},
				}
			},
			func(g *GlobalService) {
				g.Spec.Ports = []ServicePort{
					{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80},
					{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 80},
					{Protocol: corev1.ProtocolTCP, Port: 7},
					{Protocol: corev1.ProtocolTCP, Port: 8},
				}
			},
			[]string{
				"spec.ports[0].port: Invalid value: 0: must be a port number, 1 to 65535",
				"spec.ports[1].port: Invalid value: 65536",
				"spec.ports[2].port: Invalid value: -1",
				"spec.ports[3].protocol: Unsupported value: \"QUIC\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
				"spec.ports[4].name: Invalid value: \"under_score\": must be a DNS label",
				"spec.ports[6].name: Duplicate value: \"http\"",
				"spec.ports[7].port: Duplicate value: 80",
			},
		},
		{
			"bad addresses",
			func(g *GlobalService) {
				g.Spec.Endpoints[1].Addresses = []string{"127.0.0.1", "10.2.0.1", "nonsense", "FD00:2::0:1", "::ffff:10.2.0.1", long}
			},
			func(*GlobalService) {},
			[]string{
				"spec.endpoints[1].addresses[0]: Invalid value: \"127.0.0.1\": must be an address that other machines can reach, not a loopback",
				"spec.endpoints[1].addresses[2]: Invalid value: \"nonsense\": must be an IPv4 or IPv6 address",
				"spec.endpoints[1].addresses[5]: Invalid value: \"" + long[:80] + "…\"",
			},
		},
		{
			"endpoints without an address left",
			func(g *GlobalService) {
				g.Spec.Endpoints[0].Addresses = []string{"0.0.0.0"}
				g.Spec.Endpoints = append(g.Spec.Endpoints, Endpoint{Cluster: "minhang"})
			},
			func(g *GlobalService) { g.Spec.Endpoints = g.Spec.Endpoints[1:] },
			[]string{
				"spec.endpoints[0].addresses[0]: Invalid value: \"0.0.0.0\"",
				"spec.endpoints[2].addresses: Required value",
			},
		},
		{
			"a cluster name that can't be",
			func(g *GlobalService) { g.Spec.Endpoints[0].Cluster = "a.b.c" },
			func(g *GlobalService) { g.Spec.Endpoints = g.Spec.Endpoints[1:] },
			[]string{"spec.endpoints[0].cluster: Invalid value: \"a.b.c\": must be a cluster name"},
		},
		{
			"a cluster name with a dot, and none",
			func(g *GlobalService) { g.Spec.Endpoints[0].Cluster, g.Spec.Endpoints[1].Cluster = "name.context", "" },
			func(g *GlobalService) { g.Spec.Endpoints[0].Cluster, g.Spec.Endpoints[1].Cluster = "name.context", "" },
			nil,
		},
		{
			"upper case",
			func(g *GlobalService) {
				g.Spec.Endpoints[0].Cluster, *g.Spec.Endpoints[0].Hostname = "Chaoyang", "WEB-0"
				g.Spec.Ports[0].Name = strings.ToUpper(g.Spec.Ports[0].Name)
			},
			func(*GlobalService) {},
			nil,
		},
		{
			"a bad hostname costs only the hostname",
			func(g *GlobalService) { *g.Spec.Endpoints[0].Hostname = "web_0" },
			func(g *GlobalService) { g.Spec.Endpoints[0].Hostname = nil },
			[]string{"spec.endpoints[0].hostname: Invalid value: \"web_0\": must be a DNS label"},
		},
		{
			"an empty hostname is none",
			func(g *GlobalService) { *g.Spec.Endpoints[0].Hostname = "" },
			func(g *GlobalService) { g.Spec.Endpoints[0].Hostname = nil },
			nil,
		},
		{
			"a bad place is unknown",
			func(g *GlobalService) { g.Spec.Endpoints[0].Zone, g.Spec.Endpoints[0].Region = "beijing ", "north\n" },
			func(g *GlobalService) { g.Spec.Endpoints[0].Zone, g.Spec.Endpoints[0].Region = "", "" },
			[]string{"spec.endpoints[0].zone: Invalid value", "spec.endpoints[0].region: Invalid value"},
		},
		{
			"endpoint ports may share a number but no name",
			func(g *GlobalService) {
				g.Spec.Endpoints[0].Ports = []EndpointPort{{Name: "a", Port: 1}, {Name: "b", Port: 1}, {Name: "b", Port: 2}, {Name: "c"}}
			},
			func(g *GlobalService) {
				g.Spec.Endpoints[0].Ports = []EndpointPort{
					{Name: "a", Protocol: corev1.ProtocolTCP, Port: 1},
					{Name: "b", Protocol: corev1.ProtocolTCP, Port: 1},
				}
			},
			[]string{"spec.endpoints[0].ports[2].name: Duplicate value: \"b\"", "spec.endpoints[0].ports[3].port: Invalid value: 0"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := service(tc.change)
			before := g.DeepCopy()
			got, errs := g.Sanitized()
			if !equality.Semantic.DeepEqual(g, before) {
				t.Error("the object itself was changed")
			}
			if len(errs) != len(tc.errs) {
				t.Errorf("%d errors; want %d: %v", len(errs), len(tc.errs), errs.ToAggregate())
			}
			for i := range min(len(errs), len(tc.errs)) {
				if !strings.HasPrefix(errs[i].Error(), tc.errs[i]) {
					t.Errorf("error %d is\n%s\nwant\n%s…", i, errs[i], tc.errs[i])
				}
			}
			if tc.want == nil {
				if got != nil {
					t.Error("something was kept")
				}
				return
			}
			if want := service(tc.want); !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, want)
			}
		})
	}
}

func TestSanitizedCutsWhatIsTooLong(t *testing.T) {
	g := service(func(g *GlobalService) {
		g.Spec.Ports, g.Spec.Endpoints = nil, nil
		for i := range api.MaxPorts + 1 {
			g.Spec.Ports = append(g.Spec.Ports, ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
		}
		addresses := make([]string, api.MaxAddresses+1)
		for i := range addresses {
			addresses[i] = fmt.Sprintf("10.0.1.%d", i)
		}
		for range api.MaxGlobalServiceEndpoints + 1 {
			g.Spec.Endpoints = append(g.Spec.Endpoints, Endpoint{Addresses: []string{"10.0.0.1"}})
		}
		g.Spec.Endpoints[0].Addresses = addresses
	})
	got, errs := g.Sanitized()
	if len(errs) != 3 {
		t.Errorf("errors: %v", errs.ToAggregate())
	}
	if n := len(got.Spec.Ports); n != api.MaxPorts {
		t.Errorf("%d ports", n)
	}
	if n := len(got.Spec.Endpoints); n != api.MaxGlobalServiceEndpoints {
		t.Errorf("%d endpoints", n)
	}
	if n := len(got.Spec.Endpoints[0].Addresses); n != api.MaxAddresses {
		t.Errorf("%d addresses", n)
	}
}

func TestIsReady(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		ready *bool
		want  bool
	}{{nil, true}, {&yes, true}, {&no, false}} {
		if got := (&Endpoint{Ready: tc.ready}).IsReady(); got != tc.want {
			t.Errorf("ready %v: %t", tc.ready, got)
		}
	}
}

// FuzzSanitized checks what callers rely on for any object that parses: Sanitized doesn't panic, doesn't change the
// object, and returns a copy that is valid by its own rules and stays the same when sanitized again.
func FuzzSanitized(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		seed, err := yaml.ToJSON(data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add([]byte(`{"metadata":{"name":"a","namespace":"b"},"spec":{"ports":[{},{"port":-1},{"port":1,"protocol":"x"}],` +
		`"endpoints":[{"addresses":["127.0.0.1","fe80::1%a","::ffff:1.2.3.4","1.2.3.4"],"hostname":"","cluster":"A.b","zone":" ","ports":[{"port":70000},{"port":1},{"port":1}]},{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var g GlobalService
		if json.Unmarshal(data, &g) != nil {
			return // an API server would have rejected it
		}
		before := mustJSON(t, &g)
		out, errs := g.Sanitized()
		if !bytes.Equal(before, mustJSON(t, &g)) {
			t.Fatal("the object itself was changed")
		}
		if out == nil {
			if len(errs) == 0 {
				t.Fatal("nothing kept and nothing wrong")
			}
			return
		}
		again, errs := out.Sanitized()
		if len(errs) > 0 {
			t.Fatalf("the copy is wrong: %v", errs.ToAggregate())
		}
		if !bytes.Equal(mustJSON(t, out), mustJSON(t, again)) {
			t.Fatal("sanitizing again changes it")
		}
		for _, e := range out.Spec.Endpoints {
			for _, a := range e.Addresses {
				if addr, err := api.ParseAddress(a); err != nil || addr.String() != a {
					t.Fatalf("address %q was kept: %v", a, err)
				}
			}
		}
	})
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
