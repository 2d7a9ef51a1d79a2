package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const first = `# only a comment
---
apiVersion: v1
kind: List
items:
  - apiVersion: clusterset.dev/v1alpha1
    kind: MemberCluster
    metadata: {name: beijing}
    spec: {zone: a, colour: red}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web}
spec: {type: ClusterSetIP, ips: [10.0.0.1, junk], ports: []}
---
apiVersion: v1
kind: Secret
metadata: {name: web}
`

// A directory is read as a server reads it. Errors are reported with their place, and everything else is used.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"1.yaml":      first,
		"2.json":      `{"apiVersion": "clusterset.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "beijing"}}` + "\n\n" + `{"apiVersion": "clusterset.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "shanghai"}}`,
		"3.yml":       "apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: half}\n---\n\ta: tab\n",
		".4.yaml":     "hidden: and no object",
		"README.txt":  "no manifest",
		"5.yaml/file": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, notes, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		id := o.Object.ID()
		got = append(got, o.Place+" "+o.Object.Kind().String()+" "+id.Namespace+"/"+id.Name)
	}
	if want := []string{"1.yaml:3: items[0] MemberCluster /beijing", "1.yaml:11 ServiceImport default/web", "2.json:3 MemberCluster /shanghai"}; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	want := []string{
		`1.yaml:3: items[0]: strict decoding error: unknown field "spec.colour"`,
		`1.yaml:11: ServiceImport: spec.ips[1]: Invalid value: "junk"`,
		`1.yaml:16: Secret of v1 is ignored`,
		`2.json:1: MemberCluster /beijing is already defined at 1.yaml:3: items[0], which is used`,
		`3.yml: nothing of it is read: 3.yml:`,
		`5.yaml: ` + filepath.Join(dir, "5.yaml") + `: not a regular file`,
	}
	for i, n := range notes {
		if i >= len(want) || !strings.HasPrefix(n.String(), want[i]) {
			t.Errorf("note %d is %q", i, n)
		}
	}
	if len(notes) != len(want) {
		t.Errorf("%d notes, want %d", len(notes), len(want))
	}
}

// Lines of 4,096 and 8,192 bytes exactly fill a reader's buffer.
func TestALastLineWithoutEndIsRead(t *testing.T) {
	for _, size := range []int{4095, 4096, 4097, 8192} {
		half := `{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "` + strings.Repeat("a", size)
		objects, _, err := Decode("a.json", []byte(half[:size]))
		if err == nil {
			t.Errorf("%d bytes of a longer file give %d objects and no error", size, len(objects))
		}
	}
}
