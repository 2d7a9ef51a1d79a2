package desired_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
)

var update = flag.Bool("update", false, "write what desired.Compute returns into testdata")

// TestGolden runs each testdata/*.txtar. "hub.yaml" has the records of service shop/web on the hub, and the existing
// derived Service if there is one; "datapath" has the data path; "want.yaml" has the result. Rules C32 of
// docs/spec/control-plane.md, and D1, D7 and D26 of docs/spec/data-path.md.
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
			in := records.Input(t, desired.DataPath(strings.TrimSpace(string(section("datapath").Data))), string(section("hub.yaml").Data))
			out := in.Compute()
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
			rng.Shuffle(len(in.Services), func(i, j int) { in.Services[i], in.Services[j] = in.Services[j], in.Services[i] })
			rng.Shuffle(len(in.Endpoints), func(i, j int) { in.Endpoints[i], in.Endpoints[j] = in.Endpoints[j], in.Endpoints[i] })
			if again := writeOutput(t, in.Compute()); !bytes.Equal(again, got) {
				t.Errorf("the order of the records matters:\n%s", again)
			}
		})
	}
}

func writeOutput(t *testing.T, out desired.Output) []byte {
	t.Helper()
	var b bytes.Buffer
	put := func(o client.Object) {
		gvk, err := apiutil.GVKForObject(o, records.Scheme)
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
	if out.ServiceImport != nil {
		put(out.ServiceImport)
	}
	if out.Derived != nil {
		put(out.Derived)
	}
	for _, s := range out.Slices {
		put(s)
	}
	if out.Global != nil {
		put(out.Global)
	}
	for _, d := range out.Drops {
		b.WriteString("# dropped: " + d.String() + "\n")
	}
	for _, c := range out.Resolved.Conflicts {
		b.WriteString("# conflict: " + c.String() + "\n")
	}
	return b.Bytes()
}
