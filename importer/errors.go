package importer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// foreignRetry is when to check whether a foreign object is out of the way. Usually its own event triggers that, but the name
// of a derived Service that isn't ours doesn't say which service it blocks. And when to check whether the definition of ServiceImport was upgraded.
const foreignRetry = 5 * time.Minute

// staleRetry is when to retry after a write conflict. By then the cache has the other write.
const staleRetry = 200 * time.Millisecond

// foreignError is returned for an object with the name of one of ours that isn't ours. It isn't retried: the object's next
// event enqueues the service again.
type foreignError struct {
	kind   string
	object client.Object
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %s exists and isn't the importer's; delete or rename it", e.kind, client.ObjectKeyFromObject(e.object))
}

// joined returns the errors that are joined in err.
func joined(err error) (all []error) {
	if of, is := err.(interface{ Unwrap() []error }); is {
		for _, e := range of.Unwrap() {
			all = append(all, joined(e)...)
		}
	} else if err != nil {
		all = append(all, err)
	}
	return all
}

// foreignErrors returns the foreignErrors among joined errors, and whether there are no others.
func foreignErrors(err error) (foreign []*foreignError, only bool) {
	all := joined(err)
	for _, e := range all {
		var f *foreignError
		if errors.As(e, &f) {
			foreign = append(foreign, f)
		}
	}
	return foreign, len(foreign) == len(all)
}

// isStale reports whether everything that failed did so because the cache was behind.
func isStale(err error) bool {
	return err != nil && !slices.ContainsFunc(joined(err), func(e error) bool {
		var foreign *foreignError
		return !apierrors.IsConflict(e) && !errors.As(e, &foreign)
	})
}
