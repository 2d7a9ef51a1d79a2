package chart

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Options are the inputs of `helm template`.
type Options struct {
	Release, Namespace string

	// Values is the text of a values file.
	Values string

	// KubeVersion is the version of the cluster, such as v1.36.0.
	KubeVersion string
}

// Rendered is the result of rendering the chart.
type Rendered struct {
	// Manifests are the YAML documents in one text, CustomResourceDefinitions first.
	Manifests string

	// Notes are what Helm prints at the end of an install.
	Notes string
}

// Render renders the chart in a folder or an archive.
func Render(from string, o Options) (*Rendered, error) {
	chart, err := loader.Load(from)
	if err != nil {
		return nil, fmt.Errorf("load chart: %w", err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(o.Values), &values); err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	version, err := common.ParseKubeVersion(o.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("version of Kubernetes %q: %w", o.KubeVersion, err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	release := common.ReleaseOptions{Name: o.Release, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{}.RenderWithContext(context.Background(), chart, all)
	if err != nil {
		return nil, err
	}
	return assemble(files), nil
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

// assemble joins the documents of all templates into one text, in the order of their files' names, CustomResourceDefinitions first.
func assemble(files map[string]string) *Rendered {
	r := &Rendered{}
	var b strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(files), crdsFirst) {
		if path.Base(name) == "NOTES.txt" {
			r.Notes = strings.TrimSpace(files[name]) + "\n"
			continue
		}
		if path.Ext(name) != ".yaml" {
			continue
		}
		for _, document := range separator.Split(files[name], -1) {
			if document = strings.TrimSpace(document); document == "" {
				continue
			}
			fmt.Fprintf(&b, "---\n# %s\n%s\n", strings.TrimPrefix(name, "clusterset/"), document)
		}
	}
	r.Manifests = b.String()
	return r
}

func crdsFirst(a, b string) int {
	if first := path.Base(b) == "crds.yaml"; first != (path.Base(a) == "crds.yaml") {
		if first {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// Quiet suppresses Helm's log messages below the level of errors.
func Quiet() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
}
