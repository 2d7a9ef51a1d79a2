package importer

import (
	"context"
	"time"

	"github.com/clusterset/clusterset/api"
)

// Facts are what the importer says in its cluster's heartbeat, for others to know. The zero value is ready to use, and says nothing yet.
type Facts struct {
	following  following
	namespaces present
}

// Notes returns the annotations of the Lease. What isn't known is left out.
func (f *Facts) Notes(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // it reads caches
	defer cancel()
	notes := map[string]string{}
	if digest := f.following.digest(ctx); digest != "" {
		notes[api.AnnotationFollows] = digest
	}
	if digest, known := f.namespaces.digest(ctx, time.Now()); known {
		notes[api.AnnotationNamespaces] = digest
	}
	if cluster := f.following.cant(); cluster != "" {
		notes[api.AnnotationCantFollow] = cluster
	}
	return notes
}
