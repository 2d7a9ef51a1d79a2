package chart

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// dashboard is the part of Grafana's dashboard JSON that these tests check
// (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/).
type dashboard struct {
	UID         string
	Annotations struct{ List []struct{ Name, Expr string } }
	Templating  struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		Type, Title string
		Datasource  *struct{ UID string }
		Targets     []struct{ Expr string }
		Panels      []struct{}
	}
}

// shippedDashboards returns the dashboards in the chart's ConfigMaps with the label that Grafana's sidecar looks for.
func shippedDashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	rendered := objects(t, render(t, Options{"clusterset", "clusterset-system", "metrics: {dashboards: {enabled: true}}", newest}).Manifests)
	for _, o := range only(rendered, "ConfigMap") {
		if o.GetLabels()["grafana_dashboard"] != "1" {
			continue
		}
		for name, content := range as[corev1.ConfigMap](t, o).Data {
			var d dashboard
			if err := json.Unmarshal([]byte(content), &d); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all = append(all, d)
		}
	}
	return all
}

// Every panel asks the chosen data source for the chosen cluster. Grafana would show another's without an error.
func TestDashboardsAskWhatIsChosen(t *testing.T) {
	all := shippedDashboards(t)
	if len(all) != 3 {
		t.Errorf("%d dashboards", len(all))
	}
	for _, d := range all {
		for _, p := range d.Panels {
			if len(p.Panels) > 0 || p.Type != "row" && (p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0) {
				t.Errorf("%s: %s has %d queries of %v, and hides %d panels from these tests", d.UID, p.Title, len(p.Targets), p.Datasource, len(p.Panels))
			}
			for _, target := range p.Targets {
				if !strings.Contains(target.Expr, `cluster=~"$cluster"`) {
					t.Errorf("%s: %s asks %s", d.UID, p.Title, target.Expr)
				}
			}
		}
	}
}
