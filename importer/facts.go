package importer

import (
	"context"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Facts are what the importer says in its cluster's MemberReport, for others to know. The zero value is ready to use, and says nothing yet.
type Facts struct {
	following  following
	namespaces present
}

// Report fills them in. What isn't known is left out.
func (f *Facts) Report(ctx context.Context, report *clustersetv1alpha1.MemberReportSpec) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // it reads caches
	defer cancel()
	report.Follows = f.following.digest(ctx)
	report.CantFollow = f.following.cant()
	if digest, known := f.namespaces.digest(ctx, time.Now()); known {
		report.Namespaces = &digest
	}
}
