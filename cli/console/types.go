package console

import (
	"cmp"
	"time"

	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// Map is the answer of /api/map: the clusters, and the sources that the console reads.
type Map struct {
	Time     time.Time     `json:"time"` // now
	Sources  []Source      `json:"sources"`
	Clusters []Cluster     `json:"clusters"`
	Services ServiceCounts `json:"services"`
	// NotEnforced is why all clusters can read all exports although MemberClusters name communities, as in a view.Report.
	NotEnforced string `json:"notEnforced,omitempty"`
	// Notes are about the changes, and Changes are these in words.
	Notes   []string `json:"notes,omitempty"`
	Changes []string `json:"changes,omitempty"`
}

// ServiceCounts are the numbers of exported services, and of those whose exports conflict.
type ServiceCounts struct {
	Total     int `json:"total"`
	Conflicts int `json:"conflicts"`
}

// State is the state of a source.
type State string

// The States.
const (
	// Loading: it hasn't answered yet.
	Loading State = "Loading"
	// Live: it answers, and its changes are followed.
	Live State = "Live"
	// Away: it doesn't answer. The console shows its last answer.
	Away State = "Away"
	// Refused: it answers, but rights are missing.
	Refused State = "Refused"
)

// The roles of a Source.
const (
	RoleHub    = "hub"
	RoleMember = "member"
	RoleFiles  = "files" // instead of a hub
)

// Source is an API server that the console reads, or the files in its place.
type Source struct {
	Role    string `json:"role"`
	Context string `json:"context,omitempty"`
	Server  string `json:"server,omitempty"`
	// Cluster is a member's name in the set, if it is known.
	Cluster string `json:"cluster,omitempty"`
	State   State  `json:"state"`
	// Since is the time since when it is in that state. LastAnswer is the last time when all of it could be read.
	Since      time.Time `json:"since"`
	LastAnswer time.Time `json:"lastAnswer,omitzero"`
	// Error says what is wrong, and what to do about it.
	Error string `json:"error,omitempty"`
	// ExpiryPaused says that the hub lets no cluster expire, because most are silent.
	ExpiryPaused bool `json:"expiryPaused,omitempty"`
	// Services are the numbers for a member.
	Services *MemberCounts `json:"services,omitempty"`

	// Local is what was read of a member, and Report what `clusterset status` says of that alone.
	Local  *view.LocalFacts `json:"-"`
	Report *view.Report     `json:"-"`
	// Asked is what only `clusterset doctor` asks of it, as of its Now. Nil: it hasn't been asked.
	Asked *doctor.Facts `json:"-"`
}

// lost reports whether it can't be read.
func (s *Source) lost() bool { return s.State == Away || s.State == Refused }

// asOf is the time as of which it is known: time has gone on since it was lost, and it may have changed.
func (s *Source) asOf(now time.Time) time.Time {
	if s.lost() && !s.LastAnswer.IsZero() {
		return s.LastAnswer
	}
	return now
}

// name is what it is called.
func (s *Source) name() string { return cmp.Or(s.Cluster, s.Context, s.Role) }

// MemberCounts are numbers of a member's services, as in the Report of `clusterset status`.
type MemberCounts struct {
	Imported   int `json:"imported"`
	Exported   int `json:"exported"`
	Conflicts  int `json:"conflicts"`
	LastResort int `json:"lastResort"`
	Problems   int `json:"problems"`
}

// Cluster is a cluster of the set.
type Cluster struct {
	view.Cluster
	Weight int      `json:"weight,omitempty"`
	CIDRs  []string `json:"cidrs,omitempty"`
	// ExternalCIDRs are where its external addresses are, which clusters of other networks use.
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
	// Places are the zones with clients, "" if none is known.
	Places []string `json:"places"`
	// After is the cluster after the changes, if it differs. Down and Leaves say that it fails or leaves in the changes.
	After  *Cluster `json:"after,omitempty"`
	Down   bool     `json:"down,omitempty"`
	Leaves bool     `json:"leaves,omitempty"`
}

// Services is the answer of /api/services: one page of the services that match.
type Services struct {
	Total   int     `json:"total"`
	Matched int     `json:"matched"`
	Offset  int     `json:"offset"`
	Items   []*Item `json:"items"`
}

// Item is a service in the list of services.
type Item struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Clusters  []Exporter `json:"clusters"`
	// Winner is the cluster whose export decides where exports differ.
	Winner string `json:"winner"`
	preview.Readiness
	Ports []string `json:"ports,omitempty"`
	// Policy is what the service states.
	Policy string `json:"policy,omitempty"`
	// Conflicts is the number of fields in which exports differ that some cluster sees.
	Conflicts  int       `json:"conflicts,omitempty"`
	ExportedAt time.Time `json:"exportedAt"`
	// Extended are the clusters, of those that the console reads, whose own Service leads to other clusters when it has no ready endpoint.
	Extended []string `json:"extended,omitempty"`
}

// Exporter is a cluster that exports a service.
type Exporter struct {
	Name      string `json:"name"`
	Ready     int    `json:"ready"`
	Endpoints int    `json:"endpoints"`
	// Conflicts says that its export differs from the winner's.
	Conflicts bool `json:"conflicts,omitempty"`
}

// Service is the answer of /api/service: what each place uses of one service, and what would change.
type Service struct {
	// Item is nil if no cluster exports the service now. ItemAfter is set with changes, unless none exports it after them.
	Item      *Item `json:"item"`
	ItemAfter *Item `json:"itemAfter,omitempty"`
	// Access is how clients use it.
	Access  Access   `json:"access"`
	Columns []Column `json:"columns"`
	// Networks are those of all clusters if there are several, and NetworksAfter those after the changes. "" is the one without a name.
	Networks      map[string]string `json:"networks,omitempty"`
	NetworksAfter map[string]string `json:"networksAfter,omitempty"`
	Effects       []preview.Effect  `json:"effects"`
	Rows          []Row             `json:"rows"`
	Conflicts     []Conflict        `json:"conflicts"`
	Problems      []Problem         `json:"problems,omitempty"`
	Notes         []string          `json:"notes,omitempty"`
	Changes       []string          `json:"changes,omitempty"`
}

// Access are the names and addresses of a service, and commands that ask for them.
type Access struct {
	Names    []string `json:"names"`
	Members  []Member `json:"members,omitempty"`
	Commands []string `json:"commands"`
}

// Member is what a member that the console reads has of a service.
type Member struct {
	Cluster       string   `json:"cluster"`
	Context       string   `json:"context"`
	ClusterSetIPs []string `json:"clusterSetIPs,omitempty"`
	// Extended says that its own Service leads to other clusters while it has no ready endpoint. Asks says that it asks for that, and Refused
	// is why it can't be.
	Asks     bool   `json:"asks,omitempty"`
	Extended bool   `json:"extended,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

// Column is a cluster that exports the service before or after the changes.
type Column struct {
	Exporter
	Winner     bool       `json:"winner,omitempty"`
	ExportedAt *time.Time `json:"exportedAt,omitempty"`
	ClusterIPs []string   `json:"clusterIPs,omitempty"`
	Phase      string     `json:"phase"`
	Drain      bool       `json:"drain,omitempty"`
	Down       bool       `json:"down,omitempty"`
	Zones      []string   `json:"zones,omitempty"`
	Region     string     `json:"region,omitempty"`
	// ExportTo are the clusters and communities that its export is for. Empty: all.
	ExportTo []string `json:"exportTo,omitempty"`
	// Unseen are the clusters that don't see its export.
	Unseen []Unseen `json:"unseen,omitempty"`
	// After is the column after the changes, if it differs. Joins and Leaves say that only one of them exports the service.
	After  *Column `json:"after,omitempty"`
	Joins  bool    `json:"joins,omitempty"`
	Leaves bool    `json:"leaves,omitempty"`
}

// Unseen has the clusters that don't see an export for one reason.
type Unseen struct {
	// Why is the sentence that `clusterset explain` has, with {exporter} and {viewer} for the names of the two clusters.
	Why string `json:"why"`
	// From are the clusters that don't see it, sorted.
	From []string `json:"from"`
}

// Row has the places with the same Answers. After is nil if they don't change.
type Row struct {
	Places  []place.Place    `json:"places"`
	Before  *preview.Answers `json:"before"`
	After   *preview.Answers `json:"after,omitempty"`
	Effects *preview.Effects `json:"effects,omitempty"`
}

// Conflict is a field in which the exports differ. Begins and Ends say what the changes do to it.
type Conflict struct {
	preview.Conflict
	Begins bool `json:"begins,omitempty"`
}

// Problem is a problem in a member, as `clusterset status` lists it.
type Problem struct {
	Context string `json:"context"`
	Cluster string `json:"cluster,omitempty"`
	view.Problem
}

// Endpoints is the answer of /api/endpoints: explanations for one place. They are nil if the name doesn't exist there.
type Endpoints struct {
	Before *explain.Explanation `json:"before"`
	After  *explain.Explanation `json:"after,omitempty"`
}

// WhatIf is the answer of /api/whatif: what the changes do in the whole set.
type WhatIf struct {
	Summary  preview.Summary `json:"summary"`
	Services []Changed       `json:"services"`
	Notes    []string        `json:"notes,omitempty"`
	Changes  []string        `json:"changes"`
	// Command does the same in a shell.
	Command string `json:"command"`
}

// Changed is a service that changes.
type Changed struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Effects   []preview.Effect `json:"effects"`
	Conflicts int              `json:"conflicts,omitempty"`
	// Places is the number of places where it changes.
	Places int `json:"places,omitempty"`
}
