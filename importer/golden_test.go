package importer

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

var update = flag.Bool("update", false, "write what compute returns into testdata")

// TestGolden runs each testdata/*.txtar: the records of service shop/web on the hub, and the derived Service as it is, if
// there is one, under "hub.yaml"; the data path under "datapath"; what comes out under "want.yaml".
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			section := func(name string) *txtar.File {
				for i := range archive.Files {
					if archive.Files[i].Name == name {
						return &archive.Files[i]
					}
				}
				archive.Files = append(archive.Files, txtar.File{Name: name})
				return &archive.Files[len(archive.Files)-1]
			}
			in := readInput(t, section("hub.yaml").Data)
			in.dataPath = DataPath(strings.TrimSpace(string(section("datapath").Data)))
			out := compute(in)
			got := writeOutput(t, out)
			if *update {
				section("want.yaml").Data = got
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := section("want.yaml").Data; !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s\n(go test -run TestGolden -update writes it)", got, want)
			}

			rng := rand.New(rand.NewPCG(1, 2))
			rng.Shuffle(len(in.services), func(i, j int) { in.services[i], in.services[j] = in.services[j], in.services[i] })
			rng.Shuffle(len(in.endpoints), func(i, j int) { in.endpoints[i], in.endpoints[j] = in.endpoints[j], in.endpoints[i] })
			if again := compute(in); !reflect.DeepEqual(out, again) {
				t.Errorf("the order of the records matters:\n%s", writeOutput(t, again))
			}
		})
	}
}

func readInput(t *testing.T, manifests []byte) input {
	t.Helper()
	in := input{
		key:     types.NamespacedName{Namespace: "shop", Name: "web"},
		members: map[string]*clustersetv1alpha1.MemberCluster{},
	}
	for _, o := range decode(t, manifests) {
		switch o := o.(type) {
		case *clustersetv1alpha1.ExportedService:
			in.services = append(in.services, o)
		case *clustersetv1alpha1.ExportedEndpoints:
			in.endpoints = append(in.endpoints, o)
		case *clustersetv1alpha1.MemberCluster:
			in.members[o.Name] = o
		case *corev1.Service:
			in.derived = o
		default:
			t.Fatalf("%T is no input", o)
		}
	}
	return in
}

func writeOutput(t *testing.T, out output) []byte {
	t.Helper()
	var b bytes.Buffer
	put := func(o client.Object) {
		gvk, err := apiutil.GVKForObject(o, testScheme)
		if err != nil {
			t.Fatal(err)
		}
		o = o.DeepCopyObject().(client.Object)
		o.GetObjectKind().SetGroupVersionKind(gvk)
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n")
		for line := range strings.Lines(string(text)) {
			if s := strings.TrimSpace(line); s != "creationTimestamp: null" && s != "lastTransitionTime: null" && s != "status: {}" {
				b.WriteString(line)
			}
		}
	}
	if out.serviceImport != nil {
		put(out.serviceImport)
	}
	if out.derived != nil {
		put(out.derived)
	}
	for _, s := range out.slices {
		put(s)
	}
	if out.global != nil {
		put(out.global)
	}
	for _, d := range out.drops {
		b.WriteString("# dropped: " + d.String() + "\n")
	}
	for _, c := range out.resolved.Conflicts {
		b.WriteString("# conflict: " + c.String() + "\n")
	}
	return b.Bytes()
}

var testScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

func decode(t *testing.T, manifests []byte) []client.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(testScheme).UniversalDeserializer()
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	var all []client.Object
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		o, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("decode: %v\n%s", err, doc)
		}
		all = append(all, o.(client.Object))
	}
}
