package chart

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/test/chart/dashboards"
)

func TestDashboardsAreFresh(t *testing.T) {
	files := dashboards.All()
	if there := slices.Sorted(maps.Keys(shippedDashboards(t))); !slices.Equal(there, slices.Sorted(maps.Keys(files))) {
		t.Errorf("the chart carries %q: run go generate in test/chart", there)
	}
	for name, content := range files {
		if read(t, filepath.Join(chartDir, "files", "dashboards", name)) != string(content) {
			t.Errorf("%s in the chart is old: run go generate in test/chart", name)
		}
	}
}

// The chart puts each file as it is into a ConfigMap with the label that Grafana's sidecar looks for.
func TestDashboardsAreShipped(t *testing.T) {
	files := dashboards.All()
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", "metrics: {dashboards: {enabled: true}}", newest}).Manifests)
	for _, o := range only(all, "ConfigMap") {
		if o.GetLabels()["grafana_dashboard"] != "1" {
			continue
		}
		for name, content := range as[corev1.ConfigMap](t, o).Data {
			if strings.TrimSpace(content) != strings.TrimSpace(string(files[name])) {
				t.Errorf("ConfigMap %s holds another %s than the file", o.GetName(), name)
			}
			delete(files, name)
		}
	}
	if len(files) > 0 {
		t.Errorf("no ConfigMap holds %q", slices.Sorted(maps.Keys(files)))
	}
}

// units are those of Grafana's that are in use (its @grafana/data, valueFormats/categories). A unit that it doesn't know is
// shown as text behind the number.
var units = []string{"none", "short", "s", "percentunit", "reqps", "ops", "bytes"}

// What Grafana would not complain of but show wrongly.
func TestDashboardsAreSound(t *testing.T) {
	for name, d := range shippedDashboards(t) {
		if len(d.UID) > 40 || d.UID+".json" != name || d.Title == "" || d.Description == "" || d.SchemaVersion < 39 {
			t.Errorf("%s: uid %q, title %q, description %q, schema %d", name, d.UID, d.Title, d.Description, d.SchemaVersion)
		}
		variables := map[string]bool{"__rate_interval": true, "__all": true}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
		}
		for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(read(t, filepath.Join(chartDir, "files", "dashboards", name)), -1) {
			if !variables[m[1]] {
				t.Errorf("%s has no variable %s", name, m[1])
			}
		}
		for _, v := range []string{"datasource", "cluster", "job", "instance"} {
			if !variables[v] {
				t.Errorf("%s has no variable %s", name, v)
			}
		}
		ids := make(map[int]bool)
		for i, p := range d.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: %s has id %d, as another", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			soundPanel(t, name, p)
			for _, other := range d.Panels[:i] {
				if a, b := p.GridPos, other.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Errorf("%s: %s lies over %s", name, p.Title, other.Title)
				}
			}
		}
	}
}

func soundPanel(t *testing.T, dashboard string, p *dashboards.Panel) {
	t.Helper()
	if g := p.GridPos; g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 || p.Title == "" {
		t.Errorf("%s: %q lies at %+v", dashboard, p.Title, g)
	}
	if p.Type == "row" {
		return
	}
	if p.Description == "" || p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 || !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
		t.Errorf("%s: %s has description %q, data source %v, %d queries, unit %q",
			dashboard, p.Title, p.Description, p.Datasource, len(p.Targets), p.FieldConfig.Defaults.Unit)
	}
	last := -1.0e300
	for i, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if (i == 0) != (step.Value == nil) || step.Value != nil && *step.Value <= last {
			t.Errorf("%s: %s has thresholds out of order", dashboard, p.Title)
		}
		if step.Value != nil {
			last = *step.Value
		}
	}
	for _, target := range p.Targets {
		if target.LegendFormat == "" && p.Type != "stat" || !strings.Contains(target.Expr, `cluster=~"$cluster"`) {
			t.Errorf("%s: %s has the legend %q and the query %s", dashboard, p.Title, target.LegendFormat, target.Expr)
		}
	}
}
