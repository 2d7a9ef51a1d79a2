package dashboards

// schemaVersion is that of Grafana 12.0. Later versions bring a dashboard up to date as they load it, earlier ones ignore what
// they don't know.
const schemaVersion = 41

// The types below are the parts of Grafana's dashboard JSON that are used here
// (https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/).

// Dashboard is one.
type Dashboard struct {
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Version       int         `json:"version"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: one cross hair in all panels
	Refresh       string      `json:"refresh"`
	Timezone      string      `json:"timezone"`
	Time          TimeRange   `json:"time"`
	Links         []Link      `json:"links"`
	Annotations   Annotations `json:"annotations"`
	Templating    Templating  `json:"templating"`
	Panels        []*Panel    `json:"panels"`
}

// TimeRange is what is shown at first.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Link leads to the dashboards of the same tags, with the time range and the variables taken along.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	KeepTime    bool     `json:"keepTime"`
	IncludeVars bool     `json:"includeVars"`
}

// Annotations are marks over the time axis of all panels.
type Annotations struct {
	List []Annotation `json:"list"`
}

// Annotation is one kind of mark.
type Annotation struct {
	Name        string     `json:"name"`
	Datasource  Datasource `json:"datasource"`
	Enable      bool       `json:"enable"`
	IconColor   string     `json:"iconColor"`
	Expr        string     `json:"expr"`
	Step        string     `json:"step"`
	TitleFormat string     `json:"titleFormat"`
	TextFormat  string     `json:"textFormat"`
}

// Templating holds the variables at the top.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is one of them.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      any         `json:"query"`
	Definition string      `json:"definition,omitempty"`
	Datasource *Datasource `json:"datasource,omitempty"`
	Current    Current     `json:"current"`
	Refresh    int         `json:"refresh,omitempty"` // 2: when the time range changes
	Sort       int         `json:"sort,omitempty"`    // 1: by the alphabet
	IncludeAll bool        `json:"includeAll"`
	AllValue   string      `json:"allValue,omitempty"`
	Multi      bool        `json:"multi"`
}

// VariableQuery asks Prometheus for a variable's values.
type VariableQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

// Current is what a variable is set to at first.
type Current struct {
	Selected bool `json:"selected"`
	Text     any  `json:"text,omitempty"`
	Value    any  `json:"value,omitempty"`
}

// Datasource names where queries go.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a panel or, of the type row, the title of those below it.
type Panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	GridPos         GridPos          `json:"gridPos"`
	Datasource      *Datasource      `json:"datasource,omitempty"`
	Targets         []Target         `json:"targets,omitempty"`
	FieldConfig     *FieldConfig     `json:"fieldConfig,omitempty"`
	Options         map[string]any   `json:"options,omitempty"`
	Transformations []Transformation `json:"transformations,omitempty"`
	Collapsed       *bool            `json:"collapsed,omitempty"`
	Panels          []*Panel         `json:"panels,omitempty"`
}

// GridPos is a panel's place on a grid of 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query.
type Target struct {
	RefID        string     `json:"refId"`
	Datasource   Datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	EditorMode   string     `json:"editorMode"`
	Range        bool       `json:"range"`
	Instant      bool       `json:"instant"`
	Format       string     `json:"format,omitempty"`
}

// FieldConfig says how values look.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []Override    `json:"overrides"`
}

// FieldDefaults apply to every series.
type FieldDefaults struct {
	Unit       string         `json:"unit"`
	Decimals   *int           `json:"decimals,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	Max        *float64       `json:"max,omitempty"`
	NoValue    string         `json:"noValue,omitempty"`
	Color      map[string]any `json:"color"`
	Thresholds Thresholds     `json:"thresholds"`
	Mappings   []Mapping      `json:"mappings"`
	Custom     map[string]any `json:"custom,omitempty"`
}

// Override changes the looks of some series.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher says which series.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property says what is different.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// Thresholds colour values from a number up.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is a threshold. The first has none and colours what is below the second.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping gives numbers words.
type Mapping struct {
	Type    string          `json:"type"`
	Options map[string]Word `json:"options"`
}

// Word is what stands for a number.
type Word struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// Transformation changes a table's columns.
type Transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}
