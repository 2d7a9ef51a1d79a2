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
	"github.com/clusterset/clusterset/internal/packed"
	"github.com/clusterset/clusterset/internal/policy"
)

// smallGlobal is how many bytes a GlobalService's endpoints may take for each change to be written at once: 256 usual ones.
const smallGlobal = 32 << 10

// globalEvery is the least time between two writes of a GlobalService for changed endpoints: a millisecond per 128 bytes, which is about
// an endpoint. Each write contains all endpoints, and a rollout changes them one after another.
func globalEvery(bytes int) time.Duration {
	if bytes <= smallGlobal {
		return 0
	}
	return time.Duration(bytes/128) * time.Millisecond
}

// applyGlobal writes the GlobalService if it differs, or returns when to write it. The clusters whose records changed pay for it: if it
// could have waited, from a budget of its own, so that others who share the service's name can't make them pay with the rest.
func (r *reconciler) applyGlobal(ctx context.Context, out desired.Output, cur desired.Current) (again time.Duration, _ error) {
	service := client.ObjectKeyFromObject(out.ServiceImport)
	memory := r.memories.get(service)
	if out.Global == nil {
		memory.globalFor, memory.globalNow, memory.globalWaits = nil, false, false
		r.globalBudget.done(service, nil)
		r.report.truncated(service, 0)
		return 0, nil
	}
	spent := &meterOf(ctx).globals
	before := spent.Load()
	again, err := r.writeGlobal(ctx, out, cur, memory)
	budget := r.globalBudget
	if memory.globalNow {
		budget = r.budget
	}
	bytes := float64(spent.Load() - before)
	for _, cluster := range memory.globalFor {
		budget.settle(cluster, bytes/float64(len(memory.globalFor)))
	}
	memory.globalWaits = again > 0
	if again == 0 && err == nil {
		memory.globalFor, memory.globalNow = nil, false
		r.globalBudget.done(service, nil)
	}
	return again, err
}

// globalWait returns how long a GlobalService for which only endpoints changed has to wait: all that changed it is in the next write.
func (r *reconciler) globalWait(ctx context.Context, want *fabedgev1alpha1.GlobalService, memory *memory) time.Duration {
	if wait := globalEvery(desired.SizeOfEndpoints(want)) - r.clock.Since(memory.globalWrote); wait > 0 {
		return wait
	}
	if memory.globalNow {
		return 0
	}
	service := client.ObjectKeyFromObject(want)
	wait := time.Duration(0)
	for _, cluster := range memory.globalFor {
		after := r.globalBudget.admit(ctx, cluster, service, 0)
		if after == 0 { // one that may is enough
			return 0
		}
		wait = sooner(wait, after)
	}
	return wait
}

// writeGlobal writes the GlobalService if it differs, or returns when to write it. It may have thousands of endpoints, so it is
// copied and compared in full only if it differs.
func (r *reconciler) writeGlobal(ctx context.Context, out desired.Output, cur desired.Current, memory *memory) (again time.Duration, _ error) {
	want, g := out.Global, cur.Global
	key := client.ObjectKeyFromObject(want)
	if memory.HasFoundGlobal(g) {
		return 0, nil
	}
	if g == nil || !isGlobal(g, want) {
		if g == nil || !isButForEndpoints(g, want) {
			memory.globalNow = true
		} else if wait := r.globalWait(ctx, want, memory); wait > 0 {
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
		memory.globalWrote = r.clock.Now()
		memory.globalHere = packed.Of(g)
		g = memory.globalHere.Get()
	}
	r.report.truncated(key, int(want.Status.TruncatedEndpoints))
	if equality.Semantic.DeepEqual(g.Status, globalStatus(g, want)) {
		memory.FoundGlobal(g)
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
