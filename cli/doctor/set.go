package doctor

import (
	"fmt"

	"github.com/clusterset/clusterset/cli/screen"
)

// shownServices is how many services a finding names.
const shownServices = 3

// checkSet reports what is known of the set to be wrong: silent clusters, a missing namespace, exports and imports that fail.
func checkSet(f *Facts) []Finding {
	switch {
	case f.Cluster.Err != nil:
		return nil
	case f.SetErr != nil:
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
