package exporter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	keys, err := collect(ctx, r.cluster, r.exports, r.hub)
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
		there, err := r.there(ctx)
		if err != nil {
			return err
		}
		for until := time.Now().Add(pause + rand.N(pause/2)); time.Now().Before(until); {
			missed, err := r.missed(ctx, there)
			if missed == 0 || err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w: %d records differ from what was last read from it", errBehind, missed)
			case <-tick.C:
			}
		}
	}
}

// version identifies the content of a record.
type version struct {
	kind, name, version string
	uid                 types.UID
}

func versionIs(kind string, m metav1.Object) version {
	return version{kind, m.GetName(), m.GetResourceVersion(), m.GetUID()}
}

// there lists our records on the hub.
func (r *reconciler) there(ctx context.Context) (map[version]bool, error) {
	there := map[version]bool{}
	for _, kind := range []string{kindService, kindEndpoints} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind + "List"))
		if err := r.live.List(ctx, &list, client.InNamespace(api.MemberNamespace(r.cluster))); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			there[versionIs(kind, &list.Items[i])] = true
		}
	}
	return there, nil
}

// missed counts our records that differ between the cache and the hub.
func (r *reconciler) missed(ctx context.Context, there map[version]bool) (n int, err error) {
	in := client.InNamespace(api.MemberNamespace(r.cluster))
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	if err := errors.Join(r.hub.List(ctx, &services, in, client.UnsafeDisableDeepCopy), r.hub.List(ctx, &endpoints, in, client.UnsafeDisableDeepCopy)); err != nil {
		return 0, fmt.Errorf("list records: %w", err)
	}
	same := 0
	count := func(known version) {
		if there[known] {
			same++
		} else {
			n++
		}
	}
	for i := range services.Items {
		count(versionIs(kindService, &services.Items[i]))
	}
	for i := range endpoints.Items {
		count(versionIs(kindEndpoints, &endpoints.Items[i]))
	}
	return n + len(there) - same, nil
}
