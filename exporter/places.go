package exporter

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// places limits how many services of one namespace are exported, so that a tenant who may write ServiceExports in it can't use up what the
// hub and the other members take from the whole cluster. Those that are exported keep their places; others get one when it is free. Rule
// C60 of docs/spec/control-plane.md.
type places struct {
	most int

	mu sync.Mutex
	of map[string]sets.Set[string] // by namespace; nil until it is known what is on the hub
}

// seed gives places in this order.
func (p *places) seed(order []types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of = map[string]sets.Set[string]{}
	for _, key := range order {
		p.give(key)
	}
}

func (p *places) seeded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of != nil
}

// take reports whether a service has a place, or gets one now.
func (p *places) take(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.give(key)
}

// give is take for a caller that holds the lock.
func (p *places) give(key types.NamespacedName) bool {
	of := p.of[key.Namespace]
	if of == nil {
		of = sets.New[string]()
		p.of[key.Namespace] = of
	}
	if !of.Has(key.Name) && of.Len() >= p.most {
		return false
	}
	of.Insert(key.Name)
	return true
}

// leave frees the place of a service that isn't exported any more. others means that others may have waited for it.
func (p *places) leave(key types.NamespacedName) (others bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of[key.Namespace]
	others = of.Has(key.Name) && of.Len() >= p.most
	of.Delete(key.Name)
	if of.Len() == 0 {
		delete(p.of, key.Namespace)
	}
	return others
}

// giveFirstPlaces gives places to the services that are on the hub, and then to those with the oldest ServiceExports.
func (r *reconciler) giveFirstPlaces(ctx context.Context) error {
	records, _ := r.onHub.OwnRecords()
	slices.SortFunc(records, func(a, b *clustersetv1alpha1.ExportedService) int { return cmp.Compare(a.Name, b.Name) })
	waiting, err := r.exports.list(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(waiting, func(a, b client.Object) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	var order []types.NamespacedName
	for _, s := range records {
		if s.Exports() {
			order = append(order, keyOfService(s))
		}
	}
	for _, export := range waiting {
		order = append(order, client.ObjectKeyFromObject(export))
	}
	r.places.seed(order)
	return nil
}

// hasPlace reports whether a service may be exported, and frees the place of one that isn't.
func (r *reconciler) hasPlace(ctx context.Context, src Source, have Records) bool {
	switch {
	case src.Export != nil && src.Export.DeletionTimestamp == nil && !src.Excluded:
		return r.places.take(src.Key)
	case !have.Service.Exports():
		if r.places.leave(src.Key) {
			go r.reportIn(ctx, func(namespace string) bool { return namespace == src.Key.Namespace })
		}
	}
	return true
}
