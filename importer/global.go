package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/labels"
	"github.com/clusterset/clusterset/internal/policy"
)

// A change of one endpoint writes all of a GlobalService, and the watch would bring them a second time. So the cache has only its metadata, and
// what was written isn't kept.

// globalMetadata is what the cache has of a GlobalService.
func globalMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalService"))
	return m
}

// globalHere returns the metadata of the GlobalService of a service, nil if there is none.
func (r *reconciler) globalHere(ctx context.Context, key types.NamespacedName) (*fabedgev1alpha1.GlobalService, error) {
	is := globalMetadata()
	if found, err := get(ctx, r.local, key.Namespace, key.Name, is, client.UnsafeDisableDeepCopy); err != nil || !found {
		return nil, err
	}
	return &fabedgev1alpha1.GlobalService{ObjectMeta: is.ObjectMeta}, nil
}

// knownGlobal is what is remembered of a GlobalService of ours as it was written or read last. It is that until it has another version.
type knownGlobal struct {
	uid     types.UID
	version string
	hash    uint64 // see hashOfGlobal
	status  fabedgev1alpha1.GlobalServiceStatus
}

func knownOf(g *fabedgev1alpha1.GlobalService) knownGlobal {
	return knownGlobal{g.UID, g.ResourceVersion, hashOfGlobal(g), *g.Status.DeepCopy()}
}

var hashSeed = maphash.MakeSeed()

// hashOfGlobal identifies what the importer writes of a GlobalService, apart from the status.
func hashOfGlobal(g *fabedgev1alpha1.GlobalService) uint64 {
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	encoder := json.NewEncoder(&hash)
	for _, key := range policy.Keys {
		_ = encoder.Encode(g.Annotations[key]) // a string, and strings and numbers
	}
	_ = encoder.Encode(&g.Spec)
	return hash.Sum64()
}

// lastGlobal returns a GlobalService whose metadata the cache has, with the status that it has, or nil if it is gone. One that isn't as it was
// written last is read. memory.global has the hash of what it says.
func (r *reconciler) lastGlobal(ctx context.Context, is *fabedgev1alpha1.GlobalService, memory *memory) (*fabedgev1alpha1.GlobalService, error) {
	known := &memory.global
	switch {
	case is == nil || !desired.Owned(is):
		*known = knownGlobal{}
		return is, nil
	case known.uid == is.UID && known.version == is.ResourceVersion:
		return &fabedgev1alpha1.GlobalService{ObjectMeta: is.ObjectMeta, Status: known.status}, nil
	}
	g := &fabedgev1alpha1.GlobalService{}
	switch err := r.local.live.Get(ctx, client.ObjectKeyFromObject(is), g); {
	case apierrors.IsNotFound(err):
		*known = knownGlobal{}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get GlobalService %s/%s: %w", is.Namespace, is.Name, err)
	}
	*known = knownOf(g)
	return g, nil
}

// applyGlobal writes the GlobalService if it differs.
func (r *reconciler) applyGlobal(ctx context.Context, out desired.Output, cur desired.Current) error {
	service, want := client.ObjectKeyFromObject(out.ServiceImport), out.Global
	if want == nil {
		r.report.truncated(service, 0)
		return nil
	}
	memory := r.memories.get(service)
	g, err := r.lastGlobal(ctx, cur.Global, memory)
	if err != nil {
		return err
	}
	if g == nil || memory.global.hash != hashOfGlobal(want) {
		if g, err = r.writeGlobal(ctx, g, want); err != nil {
			return err
		}
		memory.global = knownOf(g)
	}
	r.report.truncated(service, int(want.Status.TruncatedEndpoints))
	if equality.Semantic.DeepEqual(g.Status, globalStatus(g, want)) {
		return nil
	}
	return ensureStatus(ctx, r.local, g, func(g *fabedgev1alpha1.GlobalService) { g.Status = globalStatus(g, want) })
}

// writeGlobal creates a GlobalService, or writes one that exists.
func (r *reconciler) writeGlobal(ctx context.Context, g, want *fabedgev1alpha1.GlobalService) (*fabedgev1alpha1.GlobalService, error) {
	change := func(g *fabedgev1alpha1.GlobalService) {
		g.Labels = labels.Merge(g.Labels, want.Labels, nil)
		g.Annotations = labels.Merge(g.Annotations, want.Annotations, policy.Keys)
		g.Spec = *want.Spec.DeepCopy()
	}
	if g == nil {
		return ensure(ctx, r.local, nil, &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}, change)
	}
	return overwrite(ctx, r.local, g, change)
}

// globalStatus returns the status to write.
func globalStatus(g, want *fabedgev1alpha1.GlobalService) fabedgev1alpha1.GlobalServiceStatus {
	status := *want.Status.DeepCopy()
	if len(status.Conditions) == 0 {
		return status
	}
	conditions := slices.Clone(g.Status.Conditions)
	for _, c := range status.Conditions {
		c.ObservedGeneration = g.Generation
		meta.SetStatusCondition(&conditions, c)
	}
	status.Conditions = conditions
	return status
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
		memories.get(client.ObjectKeyFromObject(g)).global = knownOf(g)
		return nil
	})
}

// removeGlobals deletes the GlobalServices written before --skip-global-services was set: nothing would update them, and
// DNS servers would keep serving them in both zones.
func removeGlobals(ctx context.Context, l *local) error {
	return eachGlobal(ctx, l, func(g *fabedgev1alpha1.GlobalService) error { return l.remove(ctx, g) })
}
