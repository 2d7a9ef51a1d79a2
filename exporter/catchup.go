package exporter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// errBehind is why a heartbeat is delayed for a moment.
var errBehind = errors.New("the hub doesn't have all changes made while it was unreachable")

const (
	// lookAgain is how often the cache is compared with what the hub had.
	lookAgain = 100 * time.Millisecond
	// listAgain is when the hub is asked again for what it has if the cache still differs, plus up to half of that at random. Each time it
	// is twice as long.
	listAgain = time.Second
)

// catchUp brings this cluster's records on the hub up to date: it reconciles all services. If ctx ends before that is done, the error is
// errBehind.
func (r *reconciler) catchUp(ctx context.Context) error {
	keys, err := r.collect(ctx)
	if err != nil {
		return err
	}
	return r.pass.again(ctx, keys)
}

// current returns once the cache has the same records of ours as the hub, which may have been restored from a backup. It seldom asks the hub, which all clusters ask at the same time
// (rule C70 of docs/spec/control-plane.md): usually the watch brings what the first list has. What we write meanwhile differs from that
// list, and may need another one. If ctx ends before, the error is errBehind.
func (r *reconciler) current(ctx context.Context) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for pause := listAgain; ; pause *= 2 {
		there, err := r.there(ctx, &metav1.ListOptions{})
		if err != nil {
			return err
		}
		for until := time.Now().Add(pause + rand.N(pause/2)); time.Now().Before(until); {
			missed, err := r.missed(ctx, there)
			if err != nil || missed == 0 {
				return err
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w: %d records differ from what was last read from it", errBehind, missed)
			case <-tick.C:
			}
		}
		if err := r.reveal(ctx, there); err != nil {
			return err
		}
	}
}

// version identifies the content of a record.
type version struct {
	kind, name, version string
	uid                 types.UID
	namespace           string // in its label, by which watches select records
}

func versionIs(kind string, m metav1.Object) version {
	return version{kind, m.GetName(), m.GetResourceVersion(), m.GetUID(), m.GetLabels()[api.LabelExportedNamespace]}
}

// there lists our records on the hub.
func (r *reconciler) there(ctx context.Context, how *metav1.ListOptions) (sets.Set[version], error) {
	there := sets.New[version]()
	for _, kind := range []string{kindService, kindEndpoints} {
		list, err := r.listLive(ctx, kind, how)
		if err != nil {
			return nil, err
		}
		for i := range list {
			there.Insert(versionIs(kind, &list[i]))
		}
	}
	return there, nil
}

// listLive lists our records of a kind on the hub.
func (r *reconciler) listLive(ctx context.Context, kind string, how *metav1.ListOptions) ([]metav1.PartialObjectMetadata, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind + "List"))
	if err := r.live.List(ctx, &list, &client.ListOptions{Namespace: api.MemberNamespace(r.cluster), Raw: how}); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	return list.Items, nil
}

// cached lists our records of a kind in the cache of the hub. They must not be changed.
func (r *reconciler) cached(ctx context.Context, list client.ObjectList) error {
	if err := r.hub.List(ctx, list, client.InNamespace(api.MemberNamespace(r.cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list records: %w", err)
	}
	return nil
}

// missed counts our records that differ between the cache and the hub.
func (r *reconciler) missed(ctx context.Context, there sets.Set[version]) (int, error) {
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	err := errors.Join(r.cached(ctx, &services), r.cached(ctx, &endpoints))
	known := sets.New[version]()
	for i := range services.Items {
		known.Insert(versionIs(kindService, &services.Items[i]))
	}
	for i := range endpoints.Items {
		known.Insert(versionIs(kindEndpoints, &endpoints.Items[i]))
	}
	return there.SymmetricDifference(known).Len(), err
}
