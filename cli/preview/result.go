package preview

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/merge"
)

// Result is the output of `clusterset preview -o json`. Fields are added, but never removed or changed.
type Result struct {
	Summary Summary `json:"summary"`
	// Services are the services that change, the worst effect first.
	Services []Service `json:"services"`
	Notes    []string  `json:"notes,omitempty"`
}

// Summary has the totals.
type Summary struct {
	// Text is the summary in one line.
	Text string `json:"text"`
	// Services is the number of services that were compared, Changed the number of those that change.
	Services int `json:"services"`
	Changed  int `json:"changed"`
	// Effects is, for each effect, the number of services that have it in some place.
	Effects map[Effect]int `json:"effects"`
}

// Loses reports whether a name or a ClusterSetIP would lose its last endpoint in some place.
func (r *Result) Loses() bool { return r.Summary.Effects[Lost] > 0 }

// Service is a service that changes.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Effects are the service's effects in any place, the worst first.
	Effects   []Effect   `json:"effects"`
	Cells     []Cell     `json:"cells,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// Key returns the service's namespace and name.
func (s *Service) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// Cell is a change of a service's Answers, with the places for which it is the same.
type Cell struct {
	Places []place.Place `json:"places"`
	Before *Answers      `json:"before"`
	After  *Answers      `json:"after"`
	// Effects are the effects on each Answer.
	Effects Effects `json:"effects"`
}

// Effects are the effects on each of the Answers, empty if it doesn't change.
type Effects struct {
	DNS          []Effect `json:"dns,omitempty"`
	Global       []Effect `json:"global,omitempty"`
	ClusterSetIP []Effect `json:"clusterSetIP,omitempty"`
}

// All returns all effects, the worst first.
func (e Effects) All() []Effect { return united(e.DNS, e.Global, e.ClusterSetIP) }

// Conflict is a field in which the clusters' exports come into conflict, or no longer conflict.
type Conflict struct {
	// Field is the field's name for people. Reason is the reason of the ServiceExport's condition.
	Field  string `json:"field"`
	Reason string `json:"reason"`
	// Winner is the cluster with the oldest export. Clusters are the clusters whose exports differ from it.
	Winner   string   `json:"winner"`
	Clusters []string `json:"clusters"`
	// Message is the condition's message.
	Message string `json:"message"`
	// Ends says that the conflict exists now and would end.
	Ends bool `json:"ends,omitempty"`
}

// ConflictOf returns a conflict of the exports.
func ConflictOf(c *merge.Conflict) Conflict {
	return Conflict{Field: c.Field, Reason: string(c.Reason), Winner: c.Winner, Clusters: c.Clusters, Message: c.String()}
}
