package doctor

import (
	"github.com/clusterset/clusterset/cli/screen"
)

// checkExtended reports what in the Services that are extended to other clusters keeps their clients here. That a Service asks to be extended
// and isn't is a problem of the set, which checkSet reports.
func checkExtended(f *Facts) []Finding {
	if f.Cluster.Err != nil || f.SetErr != nil || f.Set.Services.Extended == 0 {
		return nil
	}
	all := []Finding{ok("%s fail over to other clusters by their own names", screen.Counted(f.Set.Services.Extended, "Service"))}
	for _, p := range f.Set.Services.Limited {
		all = append(all, ok("Service %s fails over only in part: %s", p.About(), p.Message)) // it may be meant so
	}
	return all
}
