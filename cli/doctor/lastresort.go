package doctor

import (
	"fmt"

	"github.com/clusterset/clusterset/cli/screen"
)

// shownServices is how many services a finding names.
const shownServices = 3

// checkLastResort finds services that lead only to silent, drained or unreachable clusters: if those fail too, the services are gone.
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
	lead := "services lead"
	if len(f.Set.Services.LastResort) == 1 {
		lead = "service leads"
	}
	return []Finding{problem(fmt.Sprintf("%d %s only to clusters that are silent, drained or unreachable: %s", len(f.Set.Services.LastResort), lead, screen.Several(services, shownServices, "; ")),
		"clusterset status -o wide lists them: undrain a cluster (clusterset undrain CLUSTER), find out why a silent one's agent doesn't reach the hub,\n"+
			"or export the service from one more cluster; run clusterset leave for one that is gone for good")}
}
