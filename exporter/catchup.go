package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// errBehind is why a heartbeat is delayed for a moment.
var errBehind = errors.New("the hub doesn't have all changes made while it was unreachable")

// catchUp brings this cluster's records on the hub up to date: it waits until the cache matches the hub, which may have been
// restored from a backup, and reconciles all services. If ctx ends before that is done, the error is errBehind.
func (r *reconciler) catchUp(ctx context.Context, live client.Reader) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		missed, err := r.missed(ctx, live)
		if err != nil {
			return err
		}
		if missed == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d records differ from what was last read from it", errBehind, missed)
		case <-tick.C:
		}
	}
	keys, err := collect(ctx, r.cluster, r.exports, r.hub)
	if err != nil {
		return err
	}
	return r.pass.again(ctx, keys)
}

// missed counts our records that differ between the cache and the hub.
func (r *reconciler) missed(ctx context.Context, live client.Reader) (n int, err error) {
	in := client.InNamespace(api.MemberNamespace(r.cluster))
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	if err := errors.Join(r.hub.List(ctx, &services, in, client.UnsafeDisableDeepCopy), r.hub.List(ctx, &endpoints, in, client.UnsafeDisableDeepCopy)); err != nil {
		return 0, fmt.Errorf("list records: %w", err)
	}
	known := make(map[string]types.UID, len(services.Items)+len(endpoints.Items))
	version := func(kind string, m *metav1.ObjectMeta) string { return kind + " " + m.Name + " " + m.ResourceVersion }
	for i := range services.Items {
		known[version(kindService, &services.Items[i].ObjectMeta)] = services.Items[i].UID
	}
	for i := range endpoints.Items {
		known[version(kindEndpoints, &endpoints.Items[i].ObjectMeta)] = endpoints.Items[i].UID
	}
	for _, kind := range []string{kindService, kindEndpoints} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := live.List(ctx, &list, in); err != nil {
			return 0, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			at := version(kind, &list.Items[i].ObjectMeta)
			if uid, ok := known[at]; !ok || uid != list.Items[i].UID {
				n++
			}
			delete(known, at)
		}
	}
	return n + len(known), nil
}
