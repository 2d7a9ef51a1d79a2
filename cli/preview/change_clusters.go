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

// leave takes a cluster out of the set.
func (a *after) leave(m *clustersetv1alpha1.MemberCluster) {
	for key := range a.services {
		a.withdraw(key, m.Name)
	}
	delete(a.members, m.Name)
}

// Unreachable are clusters that other clusters can't reach.
type Unreachable struct {
	Clusters []string `json:"clusters"`
	// From are the clusters that can't reach them. Empty: all others.
	From []string `json:"from,omitempty"`
}

func (u *Unreachable) String() string {
	return "cutting " + cmp.Or(screen.And(u.From), "other clusters") + " off from " + screen.And(u.Clusters)
}

func (u *Unreachable) apply(a *after) error {
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

// Place changes a cluster's MemberCluster: where the cluster is, and which clusters it shares communities, a network and addresses with. Empty
// fields are unchanged; "-" means none.
type Place struct {
	Cluster       string   `json:"cluster"`
	Zones         []string `json:"zones,omitempty"`
	Region        string   `json:"region,omitempty"`
	Communities   []string `json:"communities,omitempty"`
	Network       string   `json:"network,omitempty"`
	CIDRs         []string `json:"cidrs,omitempty"`
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
}

func (p *Place) String() string {
	return "giving " + p.Cluster + " " + strings.Join(p.edit(&clustersetv1alpha1.MemberClusterSpec{}), ", ")
}

func (p *Place) apply(a *after) (err error) {
	unknown := a.each([]string{p.Cluster}, func(m *clustersetv1alpha1.MemberCluster) {
		if len(p.edit(&m.Spec)) == 0 {
			err = errors.New("place: nothing is given: want zones, region, communities, network, cidrs or externalCIDRs")
		} else if errs := m.Validate(); len(errs) > 0 {
			err = fmt.Errorf("place of %s: %w", m.Name, errs.ToAggregate())
		}
		if p.Network != "" && len(m.Spec.ExternalCIDRs) == 0 {
			a.note("%s has no spec.externalCIDRs, so clusters of other networks use nothing of it", m.Name)
		}
	})
	return cmp.Or(unknown, err)
}

// edit makes the changes, and says which they are.
func (p *Place) edit(spec *clustersetv1alpha1.MemberClusterSpec) (said []string) {
	if len(p.Zones) > 0 {
		spec.Zone = ""
	}
	list := func(field string, to []string, at *[]string) {
		if len(to) > 0 {
			*at, said = but(to), append(said, field+" "+screen.And(to))
		}
	}
	text := func(field, to string, at *string) {
		if to != "" {
			*at, said = strings.Join(but([]string{to}), ""), append(said, field+" "+to)
		}
	}
	list("zones", p.Zones, &spec.Zones)
	text("region", p.Region, &spec.Region)
	list("communities", p.Communities, &spec.Communities)
	text("network", p.Network, &spec.Network)
	list("cidrs", p.CIDRs, &spec.CIDRs)
	list("external cidrs", p.ExternalCIDRs, &spec.ExternalCIDRs)
	return said
}

// but returns the words without "-", which stands for none.
func but(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "-" })
}
