package importer

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/labels"
	"github.com/clusterset/clusterset/internal/policy"
)

// smallGlobal is how many endpoints a GlobalService may have for each change to be written at once.
const smallGlobal = 256

// globalEvery is the least time between two writes of a GlobalService for changed endpoints: a millisecond per endpoint. Each
// write contains all endpoints, and a rollout changes them one after another.
func globalEvery(endpoints int) time.Duration {
	if endpoints <= smallGlobal {
		return 0
	}
	return time.Duration(endpoints) * time.Millisecond
}

// applyGlobal writes the GlobalService if it differs, or returns when to write it. It may have thousands of endpoints, so it is
// copied and compared in full only if it differs.
func (r *reconciler) applyGlobal(ctx context.Context, out desired.Output, cur desired.Current) (again time.Duration, _ error) {
	if out.Global == nil {
		return 0, nil
	}
	want, g := out.Global, cur.Global
	key := client.ObjectKeyFromObject(want)
	memory := r.memories.get(key)
	if memory.HasFoundGlobal(want, g) {
		return 0, nil
	}
	if g == nil || !isGlobal(g, want) {
		if wait := globalEvery(len(want.Spec.Endpoints)) - r.hold.Clock.Since(memory.globalWrote); wait > 0 && g != nil && isButForEndpoints(g, want) {
			return wait, nil
		}
		var err error
		fresh := &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
		change := func(g *fabedgev1alpha1.GlobalService) {
			g.Labels = labels.Merge(g.Labels, want.Labels, nil)
			g.Annotations = labels.Merge(g.Annotations, want.Annotations, policy.Keys)
			g.Spec = *want.Spec.DeepCopy()
		}
		if g == nil {
			g, err = ensure(ctx, r.local, nil, fresh, change)
		} else {
			g, err = overwrite(ctx, r.local, g, change)
		}
		if err != nil {
			return 0, err
		}
		memory.globalWrote = r.hold.Clock.Now()
	}
	r.report.truncated(key, int(want.Status.TruncatedEndpoints))
	if equality.Semantic.DeepEqual(g.Status, globalStatus(g, want)) {
		if g == cur.Global {
			memory.FoundGlobal(want, g)
		}
		return 0, nil
	}
	return 0, ensureStatus(ctx, r.local, g, func(g *fabedgev1alpha1.GlobalService) { g.Status = globalStatus(g, want) })
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

// isGlobal reports whether an object of ours is as wanted, apart from its status.
func isGlobal(is, want *fabedgev1alpha1.GlobalService) bool {
	return isButForEndpoints(is, want) && slices.EqualFunc(is.Spec.Endpoints, want.Spec.Endpoints, sameEndpoint)
}

// isButForEndpoints reports whether an object is as wanted, apart from its endpoints and status.
func isButForEndpoints(is, want *fabedgev1alpha1.GlobalService) bool {
	return desired.Owned(is) &&
		maps.Equal(is.Labels, labels.Merge(is.Labels, want.Labels, nil)) &&
		maps.Equal(is.Annotations, labels.Merge(is.Annotations, want.Annotations, policy.Keys)) &&
		is.Spec.Type == want.Spec.Type && equality.Semantic.DeepEqual(is.Spec.Ports, want.Spec.Ports)
}

func sameEndpoint(a, b fabedgev1alpha1.Endpoint) bool {
	return a.Cluster == b.Cluster && a.Zone == b.Zone && a.Region == b.Region && slices.Equal(a.Addresses, b.Addresses) &&
		same(a.Hostname, b.Hostname) && same(a.Ready, b.Ready) && slices.Equal(a.Ports, b.Ports) && a.TargetRef == nil && b.TargetRef == nil
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
