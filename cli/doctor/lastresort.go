package doctor

import (
	"fmt"

	"github.com/clusterset/clusterset/cli/screen"
)

// shownServices is how many services a finding names.
const shownServices = 3

// checkLastResort finds services that lead only to silent, drained or unreachable clusters. They are answered; what is wrong with a cluster is a problem
// of its own.
func checkLastResort(f *Facts) []Finding {
	switch {
	case f.Cluster.Err != nil:
		return nil
	case f.LastResortErr != nil:
		return []Finding{skipped("can't tell which services are at their last resort: %v", f.LastResortErr)}
	case len(f.Set.Services.LastResort) == 0:
		return []Finding{ok("no service leads only to clusters that are silent, drained or unreachable")}
	}
	var services []string
	for _, p := range f.Set.Services.LastResort {
		services = append(services, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, p.Message))
	}
	return []Finding{ok("only clusters that are silent, drained or unreachable have ready endpoints of %s: %s; clusterset status -o wide lists all",
		screen.Counted(len(services), "service"), screen.Several(services, shownServices, "; "))}
}
