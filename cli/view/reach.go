package view

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/verdict"
)

// Reach is what the local cluster's agent has measured of the way to a cluster.
type Reach struct {
	// State is True, False or Unknown, and Reason a word for why, as in the object Reachability.
	State  metav1.ConditionStatus `json:"state"`
	Reason string                 `json:"reason"`
	// Since is when State last changed.
	Since time.Time `json:"since"`
	// RoundTripMicroseconds is how long the last connection took to be made, 0 if unknown.
	RoundTripMicroseconds int64 `json:"roundTripMicroseconds,omitempty"`
	// Beacons are the addresses that are dialled, and IgnoredBeacons how many others the cluster states.
	Beacons        []string `json:"beacons,omitempty"`
	IgnoredBeacons int32    `json:"ignoredBeacons,omitempty"`
}

// allUnreachable is the reason of verdicts that stay, because nothing can be reached.
const allUnreachable = string(verdict.AllUnreachable)

// reach adds what is measured: by this cluster, and as all say on the hub.
func (r *Report) reach(f Facts) {
	if f.Local != nil && f.Local.Reach != nil && f.Local.reachAge(f.Now) <= objects.ReachabilityAge {
		r.Measured = &f.Local.Reach.Stamp.Time
		for i := range f.Local.Reach.Clusters {
			m := &f.Local.Reach.Clusters[i]
			for j := range r.Clusters {
				if c := &r.Clusters[j]; c.Name == m.Name && !c.Local {
					c.Reach = &Reach{
						State: m.Reachable, Reason: m.Reason, Since: m.Since.Time, RoundTripMicroseconds: m.RoundTripMicroseconds,
						Beacons: m.Beacons, IgnoredBeacons: m.IgnoredBeacons,
					}
				}
			}
		}
	}
	if f.Hub == nil {
		return
	}
	for i := range r.Clusters {
		c := &r.Clusters[i]
		said, ok := f.Hub.Heard[c.Name]
		// What a silent cluster said last is no longer so: the hub may have seen it fall silent, or, without a hub process, nobody has.
		if ok && c.Phase == string(clustersetv1alpha1.MemberReady) && f.hubNow().Sub(said.Renewed) <= Overdue {
			c.CantReach, c.Unmeasured, c.Measures, c.cantFollow = said.CantReach, said.Unmeasured, said.Measures, said.CantFollow
		}
	}
}

// reachAge is how long ago the agent wrote its verdicts, 0 if there are none.
func (l *LocalFacts) reachAge(now time.Time) time.Duration {
	if l.Reach == nil {
		return 0
	}
	return now.Sub(l.Reach.Stamp.Time)
}

// reachProblems finds clusters that can't be reached, from here or from each other. That nothing is measured is no problem.
func reachProblems(r *Report) (all []Problem) {
	add := func(name, reason, message, cure string) {
		all = append(all, Problem{Name: name, What: "MemberCluster", Reason: reason, Message: message, Cure: cure})
	}
	cutOff := false
	for i := range r.Clusters {
		c := &r.Clusters[i]
		if c.Reach != nil && c.Reach.Reason == allUnreachable && !cutOff {
			cutOff = true
			add(r.Cluster, allUnreachable, "its agent can reach no other cluster, so it is more likely cut off itself; what it found before stays",
				"check the network of the pods of clusterset-member: what they may connect to (NetworkPolicy, firewall), and their routes to other clusters")
		}
		if c.Reach != nil && c.Reach.State == metav1.ConditionFalse && c.Reach.Reason != allUnreachable {
			message, cure := c.Reach.unreachable(r.Time)
			add(c.Name, "Unreachable", message, cure+c.Reach.at())
		}
		if len(c.CantReach) > 0 && !c.Local {
			add(c.Name, "CannotReach", "its agent can't reach "+screen.Several(c.CantReach, shownServices, ", ")+", so it uses their endpoints last",
				"check the network between them; clusterset status and clusterset doctor there say more")
		}
	}
	return all
}

// unreachable says why a cluster can't be reached, and what to do about it.
func (c *Reach) unreachable(now time.Time) (message, cure string) {
	used := "; its endpoints are used only if no others are left"
	switch verdict.Reason(c.Reason) {
	case verdict.WrongCluster:
		return "another cluster answers at its agent's address: their networks overlap" + used, "give the clusters different networks, or correct their spec.cidrs; what answers is at"
	case verdict.Returning:
		return "it answers again, and is used once it has done so for long enough" + used, "wait; if it comes and goes, look for what breaks connections to"
	case verdict.Refused:
		return fmt.Sprintf("connections to its agent are refused since %s", screen.Age(now.Sub(c.Since))) + used, "check that its agent runs, and what refuses connections to"
	}
	return fmt.Sprintf("its agent hasn't answered this cluster's for %s, though the hub may hear both", screen.Age(now.Sub(c.Since))) + used,
		"check routes and firewalls on the way to"
}

// at names the addresses that are dialled.
func (c *Reach) at() string {
	if len(c.Beacons) == 0 {
		return ""
	}
	return " " + strings.Join(c.Beacons, ", ")
}

// reached is the cell of the column REACH.
func reached(c *Cluster, now time.Time) screen.Cell {
	switch {
	case c.Local || c.Reach == nil:
		return screen.Cell{Text: "-"}
	case c.Reach.State == metav1.ConditionFalse:
		return screen.Cell{Text: "NO, for " + screen.Age(now.Sub(c.Reach.Since)), Colour: screen.Bad}
	case c.Reach.State == metav1.ConditionUnknown:
		return screen.Cell{Text: "not measured", Colour: screen.Faint}
	}
	return screen.Cell{Text: (time.Duration(c.Reach.RoundTripMicroseconds) * time.Microsecond).Round(100 * time.Microsecond).String(), Colour: screen.Good}
}
