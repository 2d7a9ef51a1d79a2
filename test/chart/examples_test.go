package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	root     = "../.."
	chartDir = root + "/charts/clusterset"

	// newest is the version of Kubernetes that test/kube runs by default.
	newest = "v1.37.0"
)

// example is a set of values that the chart documents. Its first line has the command that uses it.
type example struct {
	name string
	Options
}

var commandRE = regexp.MustCompile(`^# helm install (\S+) charts/clusterset -n (\S+)(?: --create-namespace)?(?: -f charts/clusterset/examples/(\S+)\.yaml)?$`)

// examples returns the files of charts/clusterset/examples, and the chart's defaults for three versions of Kubernetes.
func examples(t *testing.T) []example {
	t.Helper()
	all := []example{
		{"defaults", Options{"clusterset", "clusterset-system", "", newest}},
		{"defaults-1.33", Options{"clusterset", "clusterset-system", "", "v1.33.5-gke.1162000"}},
		{"defaults-1.30", Options{"names", "clusterset-system", "", "v1.30.0"}},
	}
	paths, err := filepath.Glob(filepath.Join(chartDir, "examples", "*.yaml"))
	if err != nil || len(paths) < 5 {
		t.Fatalf("examples of the chart: %v, %v", paths, err)
	}
	for _, path := range paths {
		text := read(t, path)
		first, _, _ := strings.Cut(text, "\n")
		m := commandRE.FindStringSubmatch(first)
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if len(m) != 4 || m[3] != name {
			t.Fatalf("%s: the first line is %q; want the command that uses the file", path, first)
		}
		all = append(all, example{name, Options{m[1], m[2], text, newest}})
	}
	return all
}

func render(t testing.TB, o Options) *Rendered {
	t.Helper()
	r, err := Render(chartDir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
