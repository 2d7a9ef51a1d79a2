package preview

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/near"
)

// Change is one change, as a file of changes states it. Exactly one field is set.
type Change struct {
	// Down are clusters that fail together, long enough for the hub to mark them as it would.
	Down []string `json:"down,omitempty"`
	// Unreachable is a path that breaks between clusters that the hub goes on hearing.
	Unreachable *Unreachable `json:"unreachable,omitempty"`
	// Drain and Undrain are clusters whose MemberCluster gets or loses spec.drain.
	Drain   []string `json:"drain,omitempty"`
	Undrain []string `json:"undrain,omitempty"`
	// Leave are clusters that leave the set.
	Leave    []string     `json:"leave,omitempty"`
	Export   *Export      `json:"export,omitempty"`
	Unexport *Export      `json:"unexport,omitempty"`
	Share    *ExportShare `json:"share,omitempty"`
	Place    *Place       `json:"place,omitempty"`
	Policy   *Policy      `json:"policy,omitempty"`
}

// Kinds lists the kinds of changes, for error messages.
const Kinds = "down, unreachable, drain, undrain, leave, export, unexport, share, place and policy"

// kind is a change of some kind. String says what it does, as the subject of a sentence.
type kind interface {
	apply(*after) error
	String() string
}

// edit is a kind of change that is the same for each of its clusters.
type edit struct {
	clusters []string
	what     string // with %s for the clusters
	change   func(*after, *clustersetv1alpha1.MemberCluster)
}

func (e edit) String() string { return fmt.Sprintf(e.what, screen.And(e.clusters)) }

func (e edit) apply(a *after) error {
	return a.each(e.clusters, func(m *clustersetv1alpha1.MemberCluster) { e.change(a, m) })
}

// kind returns the one that is stated.
func (c *Change) kind() (kind, error) {
	var all []kind
	add := func(stated bool, k kind) {
		if stated {
			all = append(all, k)
		}
	}
	add(len(c.Down) > 0, down(c.Down))
	add(c.Unreachable != nil, c.Unreachable)
	add(len(c.Drain) > 0, edit{c.Drain, "draining %s", func(_ *after, m *clustersetv1alpha1.MemberCluster) { m.Spec.Drain = true }})
	add(len(c.Undrain) > 0, edit{c.Undrain, "undraining %s", func(_ *after, m *clustersetv1alpha1.MemberCluster) { m.Spec.Drain = false }})
	add(len(c.Leave) > 0, edit{c.Leave, "taking %s out of the set", (*after).leave})
	add(c.Export != nil, c.Export)
	add(c.Unexport != nil, (*unexport)(c.Unexport))
	add(c.Share != nil, c.Share)
	add(c.Place != nil, c.Place)
	add(c.Policy != nil, c.Policy)
	if len(all) != 1 {
		return nil, fmt.Errorf("it has %d of %s; want one", len(all), Kinds)
	}
	return all[0], nil
}

// String says what the change does, as the subject of a sentence.
func (c *Change) String() string {
	k, err := c.kind()
	if err != nil {
		return "nothing"
	}
	return k.String()
}

// after is a State to which changes are being applied, and notes about them.
type after struct {
	*State
	notes []string
}

// Apply returns the State after the changes, applied in order, and notes about them.
func (s *State) Apply(changes ...Change) (*State, []string, error) {
	a := &after{State: s.copy()}
	for i := range changes {
		k, err := changes[i].kind()
		if err == nil {
			err = k.apply(a)
		}
		if err != nil && len(changes) > 1 {
			err = fmt.Errorf("change %d: %w", i+1, err)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return a.known(), a.notes, nil
}

func (a *after) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// each replaces clusters' MemberClusters in the State by copies, which it changes.
func (a *after) each(clusters []string, change func(*clustersetv1alpha1.MemberCluster)) error {
	for _, name := range clusters {
		m := a.members[name]
		if m == nil {
			return near.Unknown("cluster", name, a.Clusters())
		}
		a.members[name] = m.DeepCopy()
		change(a.members[name])
	}
	return nil
}

// ParseService parses namespace/name.
func ParseService(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q isn't a service: want NAMESPACE/NAME", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
