package preview

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/internal/merge"
)

// Result is what changes: what `clusterset preview -o json` prints. Fields are only ever added.
type Result struct {
	Summary Summary `json:"summary"`
	// Services are those of which something changes, the worst first.
	Services []Service `json:"services"`
	Notes    []string  `json:"notes,omitempty"`
}

// Summary counts.
type Summary struct {
	// Text says all that in a line.
	Text string `json:"text"`
	// Services is how many were looked at, Changed for how many something changes.
	Services int `json:"services"`
	Changed  int `json:"changed"`
	// Effects says for how many services each of them comes about anywhere.
	Effects map[Effect]int `json:"effects"`
}

// Loses reports whether a name or a ClusterSetIP would lose its last endpoint in some place.
func (r *Result) Loses() bool { return r.Summary.Effects[Lost] > 0 }

// Service is a service of which something changes.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Effects are all that come about in some place, the worst first.
	Effects   []Effect   `json:"effects"`
	Cells     []Cell     `json:"cells,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// Key returns the service's namespace and name.
func (s *Service) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// Cell is what a service is, before and after, to places for which that is the same.
type Cell struct {
	Places []Place  `json:"places"`
	Before *Answers `json:"before"`
	After  *Answers `json:"after"`
	// Effects are what becomes of each Answer.
	Effects Effects `json:"effects"`
}

// Effects are those on each of the Answers, empty where it stays as it is.
type Effects struct {
	DNS          []Effect `json:"dns,omitempty"`
	Global       []Effect `json:"global,omitempty"`
	ClusterSetIP []Effect `json:"clusterSetIP,omitempty"`
}

// All returns them together, the worst first.
func (e Effects) All() []Effect { return united(e.DNS, e.Global, e.ClusterSetIP) }

// Conflict is a field over which clusters come to disagree, or no longer do.
type Conflict struct {
	// Field is in people's words, Reason that of the ServiceExport's condition.
	Field  string `json:"field"`
	Reason string `json:"reason"`
	// Winner is the cluster whose export is the oldest, Clusters are those that disagree with it.
	Winner   string   `json:"winner"`
	Clusters []string `json:"clusters"`
	// Message is the condition's.
	Message string `json:"message"`
	// Ends says that it is there now, and won't be.
	Ends bool `json:"ends,omitempty"`
}

func conflictOf(c *merge.Conflict, ends bool) Conflict {
	return Conflict{Field: c.Field, Reason: string(c.Reason), Winner: c.Winner, Clusters: c.Clusters, Message: c.String(), Ends: ends}
}
