package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// All returns the files by name.
func All() map[string][]byte {
	files := make(map[string][]byte)
	for _, d := range []*Dashboard{dns(), member(), hub()} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // < and > stand in queries, which people read
		e.SetIndent("", "  ")
		if err := e.Encode(d); err != nil {
			panic(fmt.Sprintf("encode dashboard %s: %v", d.UID, err)) // the types above can all be encoded
		}
		files[d.UID+".json"] = b.Bytes()
	}
	return files
}

var prometheus = Datasource{"prometheus", "${datasource}"}

// newDashboard returns a dashboard with the variables that all have. of is a metric that every process it is about exports.
func newDashboard(uid, title, description, of string) *Dashboard {
	return &Dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"clusterset"},
		SchemaVersion: schemaVersion, Version: 1, Editable: true, GraphTooltip: 1, Refresh: "30s", Timezone: "browser",
		Time:  TimeRange{"now-3h", "now"},
		Links: []Link{{Title: "clusterset", Type: "dashboards", Tags: []string{"clusterset"}, KeepTime: true, IncludeVars: true}},
		Annotations: Annotations{[]Annotation{{
			Name: "Alerts", Datasource: prometheus, Enable: true, IconColor: "red", Step: "60s",
			Expr:        `max by (alertname, severity) (ALERTS{alertname=~"Clusterset.*", alertstate="firing", cluster=~"$cluster"})`,
			TitleFormat: "{{alertname}}", TextFormat: "{{severity}}",
		}}},
		Templating: Templating{[]Variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"},
			// Of one Prometheus for one cluster nothing has the label cluster: there is only All then, and that matches.
			values("cluster", "Cluster", of),
			values("job", "Job", of+`{cluster=~"$cluster"}`),
			values("instance", "Instance", of+`{cluster=~"$cluster", job=~"$job"}`),
		}},
	}
}

// values is a variable with all values that a label has in a selection of series.
func values(name, label, selector string) Variable {
	query := fmt.Sprintf("label_values(%s, %s)", selector, name)
	return Variable{
		Name: name, Label: label, Type: "query", Datasource: &prometheus, Definition: query,
		Query: VariableQuery{query, "PrometheusVariableQueryEditor-VariableQuery"}, Refresh: 2, Sort: 1,
		IncludeAll: true, AllValue: ".*", Multi: true, Current: Current{true, []string{"All"}, []string{"$__all"}},
	}
}

// row begins a new row with a title.
func (d *Dashboard) row(title string, panels ...*Panel) {
	collapsed := false
	d.place(&Panel{Type: "row", Title: title, GridPos: GridPos{H: 1, W: 24}, Collapsed: &collapsed})
	for _, p := range panels {
		d.place(p)
	}
}

// place puts a panel to the right of the last one, or below where there is no room.
func (d *Dashboard) place(p *Panel) {
	p.ID = len(d.Panels) + 1
	bottom, right := 0, 0
	for _, other := range d.Panels {
		bottom = max(bottom, other.GridPos.Y+other.GridPos.H)
	}
	if n := len(d.Panels); n > 0 {
		if last := d.Panels[n-1]; last.Type != "row" && last.GridPos.X+last.GridPos.W+p.GridPos.W <= 24 {
			bottom, right = last.GridPos.Y, last.GridPos.X+last.GridPos.W
		}
	}
	p.GridPos.X, p.GridPos.Y = right, bottom
	d.Panels = append(d.Panels, p)
}

// query is one line of a panel.
type query struct{ legend, expr string }

// q returns a query. In expr, SEL stands for the labels that the variables select, RATE for an interval that always has two
// samples.
func q(legend, expr string) query {
	expr = strings.ReplaceAll(expr, "SEL", `cluster=~"$cluster", job=~"$job", instance=~"$instance"`)
	return query{legend, strings.ReplaceAll(expr, "RATE", "$__rate_interval")}
}

func newPanel(kind, title, description, unit string, w, h int, queries []query) *Panel {
	p := &Panel{
		Type: kind, Title: title, Description: description, Datasource: &prometheus, GridPos: GridPos{W: w, H: h},
		FieldConfig: &FieldConfig{
			Defaults: FieldDefaults{
				Unit: unit, Mappings: []Mapping{}, Color: map[string]any{"mode": "palette-classic"},
				Thresholds: thresholds("green"),
			},
			Overrides: []Override{},
		},
	}
	for i, query := range queries {
		p.Targets = append(p.Targets, Target{
			RefID: string(rune('A' + i)), Datasource: prometheus, Expr: query.expr, LegendFormat: query.legend, EditorMode: "code", Range: true,
		})
	}
	return p
}

// graph is lines over time.
func graph(title, description, unit string, w int, queries ...query) *Panel {
	p := newPanel("timeseries", title, description, unit, w, 8, queries)
	zero := 0.0
	p.FieldConfig.Defaults.Min = &zero
	p.FieldConfig.Defaults.Custom = map[string]any{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
		"stacking": map[string]any{"mode": "none", "group": "A"}, "thresholdsStyle": map[string]any{"mode": "off"},
	}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "table", "placement": "right", "showLegend": true, "calcs": []string{"mean", "max"}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// stacked has the lines of a graph add up: mode normal, or percent for shares.
func (p *Panel) stacked(mode string) *Panel {
	p.FieldConfig.Defaults.Custom["stacking"] = map[string]any{"mode": mode, "group": "A"}
	p.FieldConfig.Defaults.Custom["fillOpacity"] = 40
	return p
}

// stat is one number, its colour, and how it came about.
func stat(title, description, unit string, queries ...query) *Panel {
	p := newPanel("stat", title, description, unit, 4, 4, queries)
	p.FieldConfig.Defaults.Color = map[string]any{"mode": "thresholds"}
	p.FieldConfig.Defaults.NoValue = "–"
	p.Options = map[string]any{
		"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto", "wideLayout": true,
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
	return p
}

// timeline is a bar for each series, in the colours of its values' words.
func timeline(title, description string, w, h int, words map[string]Word, queries ...query) *Panel {
	p := newPanel("state-timeline", title, description, "none", w, h, queries)
	p.FieldConfig.Defaults.Color = map[string]any{"mode": "thresholds"}
	p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 80, "lineWidth": 0}
	p.FieldConfig.Defaults.Mappings = []Mapping{{"value", words}}
	p.Options = map[string]any{
		"mergeValues": true, "showValue": "auto", "alignValue": "left", "rowHeight": 0.85,
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "single", "sort": "none"},
	}
	return p
}

var yesNo = map[string]Word{"0": {"no", "red", 0}, "1": {"yes", "green", 1}}

// from colours values from numbers up: from("green", 40, "orange", 300, "red").
func (p *Panel) from(first string, steps ...any) *Panel {
	p.FieldConfig.Defaults.Thresholds = thresholds(first, steps...)
	if p.Type == "timeseries" {
		p.FieldConfig.Defaults.Custom["thresholdsStyle"] = map[string]any{"mode": "dashed"}
	}
	return p
}

func thresholds(first string, steps ...any) Thresholds {
	t := Thresholds{"absolute", []Step{{Color: first}}}
	for i := 0; i < len(steps); i += 2 {
		value := steps[i].(float64)
		t.Steps = append(t.Steps, Step{steps[i+1].(string), &value})
	}
	return t
}

// colour gives series that mean something good or bad a colour of their own, by name.
func (p *Panel) colour(names ...string) *Panel {
	for i := 0; i < len(names); i += 2 {
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{
			Matcher{"byName", names[i]}, []Property{{"color", map[string]any{"mode": "fixed", "fixedColor": names[i+1]}}},
		})
	}
	return p
}

// processes are what every process has.
func (d *Dashboard) processes() {
	d.row("Processes",
		graph("Memory", "Resident memory of each process.", "bytes", 8, q("{{instance}}", `process_resident_memory_bytes{SEL}`)),
		graph("CPU", "Processor time that each process uses; 1 is one core.", "short", 8,
			q("{{instance}}", `rate(process_cpu_seconds_total{SEL}[RATE])`)),
		graph("Goroutines", "One that only grows is a leak.", "short", 8, q("{{instance}}", `go_goroutines{SEL}`)),
	)
}

// controllers are what both agents' controllers have.
func (d *Dashboard) controllers(title string) {
	d.row(title,
		graph("Wait in the queue", "How long a key waits until a worker takes it: 99 of 100 wait less.", "s", 8,
			q("{{controller}}", `histogram_quantile(0.99, sum by (controller, le) (rate(workqueue_queue_duration_seconds_bucket{SEL}[RATE])))`)),
		graph("Work on a key", "How long a worker takes for one key, its API calls included: 99 of 100 take less.", "s", 8,
			q("{{controller}}", `histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{SEL}[RATE])))`)),
		graph("Keys waiting", "Length of each controller's queue. It is long for a moment after a start, and short otherwise.", "short", 8,
			q("{{controller}}", `max by (controller) (workqueue_depth{SEL})`)),
		graph("Failed work", "Keys whose work failed and is tried again.", "ops", 12,
			q("{{controller}}", `sum by (controller) (rate(controller_runtime_reconcile_errors_total{SEL}[RATE]))`)),
		graph("Requests to API servers", "Requests by server and status code. <error> is one that got no answer.", "reqps", 12,
			q("{{host}} {{code}}", `sum by (host, code) (rate(rest_client_requests_total{SEL}[RATE]))`)),
	)
}
