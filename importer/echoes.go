package importer

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// echoes are what the last reconcile of each service wrote. An event that shows such an object says nothing new of its service, unless the
// service is being reconciled again, with what the cache had before.
type echoes struct {
	mu sync.Mutex
	of map[types.NamespacedName][]echo
}

// echo is an object as it was written.
type echo struct {
	uid     types.UID
	version string
}

func newEchoes() *echoes { return &echoes{of: map[types.NamespacedName][]echo{}} }

// begin forgets what a service's last reconcile wrote: the service is being reconciled.
func (e *echoes) begin(service types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, service)
}

// expect records that an object was written.
func (e *echoes) expect(o client.Object) {
	switch o.(type) {
	case *discoveryv1.EndpointSlice, *mcsv1beta1.ServiceImport, *corev1.Service, *fabedgev1alpha1.GlobalService:
	default:
		return // it belongs to no service
	}
	service, ok := desired.ServiceOf(o)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of[service] = append(e.of[service], echo{o.GetUID(), o.GetResourceVersion()})
}

// heard reports whether the cache shows an object for the first time as the service's last reconcile wrote it.
func (e *echoes) heard(o client.Object) bool {
	service, ok := desired.ServiceOf(o)
	if !ok {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	expected := e.of[service]
	i := slices.Index(expected, echo{o.GetUID(), o.GetResourceVersion()})
	if i < 0 {
		return false
	}
	if expected = slices.Delete(expected, i, i+1); len(expected) > 0 {
		e.of[service] = expected
	} else {
		delete(e.of, service)
	}
	return true
}

// unheard leaves out the events of our own writes.
type unheard struct {
	handler.EventHandler
	*echoes
}

// Create implements handler.EventHandler.
func (u unheard) Create(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if !u.heard(e.Object) {
		u.EventHandler.Create(ctx, e, q)
	}
}

// Update implements handler.EventHandler.
func (u unheard) Update(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if !u.heard(e.ObjectNew) {
		u.EventHandler.Update(ctx, e, q)
	}
}
