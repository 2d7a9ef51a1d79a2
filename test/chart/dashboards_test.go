package chart

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// dashboard is the part of Grafana's dashboard JSON that these tests check
// (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/).
type dashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Annotations             struct{ List []struct{ Name, Expr string } }
	Templating              struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel

	text string // the file
}

// panel is a panel, or the title of the panels below it if its type is row.
type panel struct {
	Type, Title, Description string
	Datasource               *struct{ UID string }
	Targets                  []struct{ Expr, LegendFormat string }
	Panels                   []panel
}

func shippedDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := make(map[string]dashboard)
	paths, err := filepath.Glob(filepath.Join(chartDir, "files", "dashboards", "*"))
	if err != nil || len(paths) < 3 {
		t.Fatalf("dashboards: %v, %v", paths, err)
	}
	for _, path := range paths {
		d := dashboard{text: read(t, path)}
		if err := json.Unmarshal([]byte(d.text), &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[filepath.Base(path)] = d
	}
	return all
}

// The chart puts each file unchanged into a ConfigMap with the label that Grafana's sidecar looks for.
func TestDashboardsAreShipped(t *testing.T) {
	files := shippedDashboards(t)
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", "metrics: {dashboards: {enabled: true}}", newest}).Manifests)
	for _, o := range only(all, "ConfigMap") {
		if o.GetLabels()["grafana_dashboard"] != "1" {
			continue
		}
		for name, content := range as[corev1.ConfigMap](t, o).Data {
			if strings.TrimSpace(content) != strings.TrimSpace(files[name].text) {
				t.Errorf("ConfigMap %s holds another %s than the file", o.GetName(), name)
			}
			delete(files, name)
		}
	}
	if len(files) > 0 {
		t.Errorf("no ConfigMap holds %q", slices.Sorted(maps.Keys(files)))
	}
}

// The dashboards are free of mistakes that Grafana would display wrongly without an error.
func TestDashboardsAreSound(t *testing.T) {
	for name, d := range shippedDashboards(t) {
		if len(d.UID) > 40 || d.UID+".json" != name || d.Title == "" || d.Description == "" || d.SchemaVersion < 39 {
			t.Errorf("%s: uid %q, title %q, description %q, schema %d", name, d.UID, d.Title, d.Description, d.SchemaVersion)
		}
		variables := map[string]bool{"__rate_interval": true, "__all": true}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
		}
		for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(d.text, -1) {
			if !variables[m[1]] {
				t.Errorf("%s has no variable %s", name, m[1])
			}
		}
		for _, v := range []string{"datasource", "cluster", "job", "instance"} {
			if !variables[v] {
				t.Errorf("%s has no variable %s", name, v)
			}
		}
		for _, p := range d.Panels {
			soundPanel(t, name, p)
		}
	}
}

func soundPanel(t *testing.T, dashboard string, p panel) {
	t.Helper()
	if len(p.Panels) > 0 {
		t.Errorf("%s: the row %s is collapsed and hides panels from these tests: expand it before it is saved", dashboard, p.Title)
	}
	if p.Type == "row" {
		return
	}
	if p.Title == "" || p.Description == "" || p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
		t.Errorf("%s: %q has description %q, data source %v, %d queries", dashboard, p.Title, p.Description, p.Datasource, len(p.Targets))
	}
	for _, target := range p.Targets {
		if target.LegendFormat == "" && p.Type != "stat" || !strings.Contains(target.Expr, `cluster=~"$cluster"`) {
			t.Errorf("%s: %s has the legend %q and the query %s", dashboard, p.Title, target.LegendFormat, target.Expr)
		}
	}
}
