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
	"github.com/clusterset/clusterset/test/cases"
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
	for _, c := range cases.Read(t, "testdata/cases/sanitized.yaml").Cases {
		t.Run(c.Name, func(t *testing.T) {
			g := cases.Object[GlobalService](t, service(nil), c.Change)
			before := g.DeepCopy()
			got, errs := g.Sanitized()
			if !equality.Semantic.DeepEqual(g, before) {
				t.Error("the object itself was changed")
			}
			if len(errs) != len(c.Errors) {
				t.Errorf("%d errors; want %d: %v", len(errs), len(c.Errors), errs.ToAggregate())
			}
			for i := range min(len(errs), len(c.Errors)) {
				if !strings.HasPrefix(errs[i].Error(), c.Errors[i]) {
					t.Errorf("error %d is\n%s\nwant\n%s…", i, errs[i], c.Errors[i])
				}
			}
			var want *GlobalService
			if !c.Dropped {
				want = cases.Object[GlobalService](t, service(nil), c.Left)
			}
			if !equality.Semantic.DeepEqual(got, want) {
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
