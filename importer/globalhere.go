package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/packed"
)

// globalMetadata is what the cache has of a GlobalService.
func globalMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalService"))
	return m
}

// echoWithin is how long the cache may lag behind a write. To restore an API server from a backup takes longer.
const echoWithin = 5 * time.Second

// globalHere returns the GlobalService of a service, nil if there is none. The cache has only its metadata: a change of one endpoint writes all
// of them, and the watch would bring them a second time. The rest is what the API server answered when it was written or read last, unless
// somebody else has changed it since. Of one that isn't ours only the metadata is known. Callers must not change the result.
func (r *reconciler) globalHere(ctx context.Context, key types.NamespacedName) (*fabedgev1alpha1.GlobalService, error) {
	is, memory := globalMetadata(), r.memories.get(key)
	found, err := get(ctx, r.local, key.Namespace, key.Name, is, client.UnsafeDisableDeepCopy)
	fresh := r.clock.Since(memory.globalWrote) < echoWithin
	switch g := memory.globalHere.Get(); {
	case err != nil:
		return nil, err
	case !found && !fresh:
		memory.globalHere = packed.Object[*fabedgev1alpha1.GlobalService]{}
		return nil, nil
	case !found: // deleted, or just created
	case !desired.Owned(is):
		return &fabedgev1alpha1.GlobalService{ObjectMeta: is.ObjectMeta}, nil
	case g != nil && g.UID == is.UID && (g.ResourceVersion == is.ResourceVersion || fresh && lags(is, g)):
		return g, nil
	}
	g := &fabedgev1alpha1.GlobalService{}
	switch err := r.local.live.Get(ctx, key, g); {
	case apierrors.IsNotFound(err):
		memory.globalHere = packed.Object[*fabedgev1alpha1.GlobalService]{}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get GlobalService %s: %w", key, err)
	}
	memory.globalHere = packed.Of(g)
	return memory.globalHere.Get(), nil
}

// lags reports whether one version of an object is earlier than another.
func lags(is, other client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(is.GetResourceVersion(), other.GetResourceVersion())
	return err == nil && order < 0
}

// globalsPage is how many GlobalServices are read per request. Each may be a MiB, and a thief can make many of them that large.
const globalsPage = 20

// eachGlobal calls do for each GlobalService of ours, which it reads from the API server. There is none if the kind isn't installed. It stops
// after a page with errors, and returns them.
func eachGlobal(ctx context.Context, l *local, do func(*fabedgev1alpha1.GlobalService) error) error {
	for next := ""; ; {
		var page fabedgev1alpha1.GlobalServiceList
		err := l.live.List(ctx, &page, client.MatchingLabels(desired.Labels()), client.Limit(globalsPage), client.Continue(next))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list GlobalServices: %w", err)
		}
		var errs []error
		for i := range page.Items {
			errs = append(errs, do(&page.Items[i]))
		}
		if next = page.Continue; next == "" || errors.Join(errs...) != nil {
			return errors.Join(errs...)
		}
	}
}

// readGlobals reads all GlobalServices of ours, page by page: the importer is about to compare each with what it should be.
func readGlobals(ctx context.Context, l *local, memories *memories) error {
	return eachGlobal(ctx, l, func(g *fabedgev1alpha1.GlobalService) error {
		memories.get(client.ObjectKeyFromObject(g)).globalHere = packed.Of(g)
		return nil
	})
}

// removeGlobals deletes the GlobalServices written before --skip-global-services was set: nothing would update them, and
// DNS servers would keep serving them in both zones.
func removeGlobals(ctx context.Context, l *local) error {
	return eachGlobal(ctx, l, func(g *fabedgev1alpha1.GlobalService) error { return l.remove(ctx, g) })
}
