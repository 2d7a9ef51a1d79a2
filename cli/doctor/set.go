package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/verdict"
)

// shownServices is how many services a finding names.
const shownServices = 3

// checkSet reports what is known of the set to be wrong: silent clusters, a missing namespace, exports and imports that fail.
func checkSet(f *Facts) []Finding {
	if f.SetErr != nil {
		return []Finding{skipped("can't tell how the set is: %v", f.SetErr)}
	}
	var all []Finding
	for _, p := range f.Set.All() {
		all = append(all, problem(fmt.Sprintf("%s %s: %s: %s", p.What, p.About(), p.Reason, p.Message), p.Cure))
	}
	if len(all) == 0 {
		all = append(all, ok("%s of the set, none silent; every export and import is as it should be", screen.Counted(len(f.Set.Clusters), "cluster")))
	}
	for _, note := range f.Set.Notes {
		all = append(all, skipped("%s", note))
	}
	return all
}

// unmeasured says what each reason for an unknown verdict means, and what to do to have one.
var unmeasured = map[string]string{
	string(verdict.NoBeacon):     "no agent there names a beacon: set member.beacon.enabled in the chart, or --beacon-service",
	string(verdict.NotAllowed):   "the beacons there are outside their MemberCluster's spec.cidrs, or inside this cluster's",
	string(verdict.NeverReached): "the beacons there never answered: allow TCP connections from this cluster's agents to them",
	string(verdict.WrongCluster): "another cluster answers at the beacons' addresses: networks overlap",
}

// checkReach reports which ways to other clusters aren't measured. Those that are broken are problems of the set, which checkSet reports.
func checkReach(f *Facts) (all []Finding) {
	if f.SetErr != nil || len(f.Set.Clusters) < 2 {
		return nil
	}
	unknown := map[string][]string{}
	for i := range f.Set.Clusters {
		c := &f.Set.Clusters[i]
		switch {
		case c.Local:
		case c.Reach == nil:
			unknown[""] = append(unknown[""], c.Name)
		case c.Reach.Reachable == metav1.ConditionUnknown:
			name := c.Name
			if len(c.Reach.Beacons) > 0 {
				name += " (at " + strings.Join(c.Reach.Beacons, ", ") + ")"
			}
			unknown[c.Reach.Reason] = append(unknown[c.Reach.Reason], name)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(unknown)) {
		why := cmp.Or(unmeasured[reason], "this cluster's agent has said nothing about that for ten minutes, or never has")
		all = append(all, skipped("it isn't known whether this cluster reaches %s: %s", screen.Several(unknown[reason], shownServices, ", "), why))
	}
	if len(all) == 0 {
		all = append(all, ok("the ways to all other clusters are measured"))
	}
	return all
}
