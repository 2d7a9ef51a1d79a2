package preview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/hub/liveness"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/merge"
)

type down []string

func (d down) String() string { return "taking " + screen.And(d) + " down" }

// apply marks clusters as down, all at the same time. Their phase is decided by the hub's own code: the clock advances with heartbeats
// from all other clusters that are Ready.
func (d down) apply(a *after) error {
	if err := a.each(d, func(m *clustersetv1alpha1.MemberCluster) { a.down[m.Name] = true }); err != nil {
		return err
	}
	thresholds := liveness.DefaultThresholds
	l, now := liveness.New(thresholds), time.Time{}.Add(thresholds.Forget) // any time but the zero time
	for name, m := range a.members {
		l.Know(name, m.Status.Phase, now, now)
	}
	var decisions map[string]liveness.Decision
	const ticks = 8 // in the time after which a cluster is Suspect
	for tick := range ticks * int(2+thresholds.Expire/thresholds.Suspect) {
		for name, m := range a.members {
			if m.Status.Phase == clustersetv1alpha1.MemberReady && !a.down[name] {
				l.Observe(name, strconv.Itoa(tick), now)
			}
		}
		decisions = l.Decide(now)
		now = now.Add(thresholds.Suspect / ticks)
	}
	var kept []string
	for _, name := range d {
		phase := decisions[name].Phase
		if a.members[name].Status.Phase = phase; phase != clustersetv1alpha1.MemberExpired {
			kept = append(kept, name+" stays "+cmp.Or(string(phase), "without a phase"))
		}
	}
	if len(kept) > 0 {
		a.note("The hub expires no cluster that never sent a heartbeat, and none while most are silent, because it may be cut off: %s, and is answered", strings.Join(kept, ", "))
	}
	return nil
}

type drain []string

func (d drain) String() string       { return "draining " + screen.And(d) }
func (d drain) apply(a *after) error { return a.drain(d, true, "%s is drained already") }

type undrain []string

func (u undrain) String() string       { return "undraining " + screen.And(u) }
func (u undrain) apply(a *after) error { return a.drain(u, false, "%s isn't drained") }

func (a *after) drain(clusters []string, drain bool, already string) error {
	return a.each(clusters, func(m *clustersetv1alpha1.MemberCluster) {
		if m.Spec.Drain == drain {
			a.note(already, m.Name)
		}
		m.Spec.Drain = drain
	})
}

type leave []string

func (l leave) String() string { return "taking " + screen.And(l) + " out of the set" }

func (l leave) apply(a *after) error {
	return a.each(l, func(m *clustersetv1alpha1.MemberCluster) {
		for key := range a.services {
			a.withdraw(key, m.Name)
		}
		delete(a.members, m.Name)
	})
}

// Unreachable are clusters that other clusters can't reach.
type Unreachable struct {
	Clusters []string `json:"clusters"`
	// From are the clusters that can't reach them. Empty: all others.
	From []string `json:"from,omitempty"`
}

func (u *Unreachable) String() string {
	from := "other clusters"
	if len(u.From) > 0 {
		from = screen.And(u.From)
	}
	return "cutting " + from + " off from " + screen.And(u.Clusters)
}

func (u *Unreachable) apply(a *after) error {
	if len(u.Clusters) == 0 {
		return errors.New("unreachable: clusters is missing: want names of clusters")
	}
	if err := a.each(slices.Concat(u.Clusters, u.From), func(*clustersetv1alpha1.MemberCluster) {}); err != nil {
		return err
	}
	from := u.From
	if len(from) == 0 {
		from = a.Clusters()
	}
	for _, cluster := range from {
		others := slices.DeleteFunc(slices.Clone(u.Clusters), func(name string) bool { return name == cluster })
		a.unreachable[cluster] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.unreachable[cluster], others))))
	}
	return nil
}

// Move changes the zones or the region in a cluster's MemberCluster. Empty fields are unchanged; "-" means unknown.
type Move struct {
	Cluster string   `json:"cluster"`
	Zones   []string `json:"zones,omitempty"`
	Region  string   `json:"region,omitempty"`
}

func (m *Move) String() string {
	var to []string
	if len(m.Zones) > 0 {
		to = append(to, "zone "+screen.And(m.Zones))
	}
	if m.Region != "" {
		to = append(to, "region "+m.Region)
	}
	return "moving " + m.Cluster + " to " + strings.Join(to, ", ")
}

func (m *Move) apply(a *after) error {
	to, err := a.member(m.Cluster)
	if err != nil {
		return err
	}
	if len(m.Zones) == 0 && m.Region == "" {
		return errors.New("place: zones and region are missing: want one or both")
	}
	if len(m.Zones) > 0 {
		to.Spec.Zone, to.Spec.Zones = "", but(m.Zones)
	}
	if m.Region != "" {
		to.Spec.Region = strings.Join(but([]string{m.Region}), "")
	}
	return valid("place", to)
}

// but returns the words without "-", which stands for none.
func but(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "-" })
}

// valid checks a changed MemberCluster.
func valid(what string, m *clustersetv1alpha1.MemberCluster) error {
	if errs := m.Validate(); len(errs) > 0 {
		return fmt.Errorf("%s of %s: %w", what, m.Name, errs.ToAggregate())
	}
	return nil
}

// Communities puts a cluster into communities, instead of those that its MemberCluster names.
type Communities struct {
	Cluster string `json:"cluster"`
	// To are the communities. A cluster that names none is in the community default.
	To []string `json:"to"`
}

func (c *Communities) String() string {
	return "putting " + c.Cluster + " into the communities " + screen.And(c.To)
}

func (c *Communities) apply(a *after) error {
	m, err := a.member(c.Cluster)
	if err != nil {
		return err
	}
	if len(c.To) == 0 {
		return fmt.Errorf("communities of %s: to is missing: want at least one; the community of clusters that name none is %s", c.Cluster, communities.Default)
	}
	m.Spec.Communities = c.To
	return valid("communities", m)
}

// Network puts a cluster into a network, instead of the one that its MemberCluster names, or gives it other addresses.
type Network struct {
	Cluster string `json:"cluster"`
	// To is the network. "-" means the one of clusters that name none. Empty: as now, if there are CIDRs.
	To string `json:"to,omitempty"`
	// CIDRs are those of its MemberCluster. Empty: as now; "-" means none.
	CIDRs []string `json:"cidrs,omitempty"`
	// ExternalCIDRs are those of its MemberCluster. Empty: as now; "-" means none.
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
}

func (n *Network) String() string {
	text := "putting " + n.Cluster + " into network " + n.To
	switch n.To {
	case "":
		text = "giving " + n.Cluster + " the cidrs " + screen.And(n.CIDRs)
	case "-":
		text = "putting " + n.Cluster + " into the network without a name"
	}
	switch {
	case len(n.ExternalCIDRs) == 0:
		return text
	case len(but(n.ExternalCIDRs)) == 0:
		return text + ", without external networks"
	}
	return text + ", with the external networks " + screen.And(n.ExternalCIDRs)
}

func (n *Network) apply(a *after) error {
	m, err := a.member(n.Cluster)
	if err != nil {
		return err
	}
	if n.To == "" && len(n.CIDRs) == 0 {
		return errors.New("network: to is missing: want the name of a network, or - for the one of clusters that name none")
	}
	if m.Spec.Network = cmp.Or(n.To, m.Spec.Network); n.To == "-" {
		m.Spec.Network = ""
	}
	if len(n.CIDRs) > 0 {
		m.Spec.CIDRs = but(n.CIDRs)
	}
	if len(n.ExternalCIDRs) > 0 {
		m.Spec.ExternalCIDRs = but(n.ExternalCIDRs)
	}
	if err := valid("network", m); err != nil {
		return err
	}
	if left := a.leftOut(m); left != "" && len(n.CIDRs) > 0 {
		a.note("%s: %s", n.Cluster, left)
	}
	if len(m.Spec.ExternalCIDRs) == 0 && n.To != "" {
		a.note("%s has no spec.externalCIDRs, so clusters of other networks use nothing of it", n.Cluster)
	}
	return nil
}

// leftOut says what the networks of a cluster leave out of what it exports, as the hub process says it once they are so.
func (s *State) leftOut(m *clustersetv1alpha1.MemberCluster) string {
	confined := merge.Confined{CIDRs: m.Spec.CIDRs}
	for _, key := range s.Services() {
		for _, r := range s.services[key].services {
			if of(r) == m.Name {
				confined.Add(r)
			}
		}
		for _, r := range s.services[key].endpoints {
			if of(r) == m.Name {
				confined.Add(r)
			}
		}
	}
	return confined.String()
}

// Networks reports whether the clusters are in several networks, or may be with the changes, so that external addresses matter.
func (s *State) Networks(changes ...Change) bool {
	names := s.Clusters()
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Network != nil }) ||
		slices.ContainsFunc(names, func(name string) bool { return s.Member(name).Apart(s.Member(names[0])) })
}
