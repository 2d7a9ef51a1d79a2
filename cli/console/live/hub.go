package live

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
)

// Intervals of a Hub and a Member.
const (
	// settle is how long changes of records are collected before the console gets them.
	settle = 500 * time.Millisecond
	// ask is the time between two requests that read the heartbeats and show whether the hub answers.
	ask = 5 * time.Second
)

// Hub follows the hub's records.
type Hub struct {
	console *console.Server
	cluster *objects.Cluster
	config  *rest.Config
	source  source
	asks    *doctor.Gatherer

	mu      sync.Mutex
	objects map[objectKey]runtime.Object
	reports []runtime.Object // see reach
	changed chan struct{}    // has an element if objects have changed
}

type objectKey struct {
	kind reflect.Type
	client.ObjectKey
}

// NewHub returns a Hub for the kubeconfig context of that name. It sends no request yet, so the hub may be down.
func NewHub(config *rest.Config, name, flags string, to *Sources) (*Hub, error) {
	c, err := objects.Open(config, "hub", flags)
	if err != nil {
		return nil, err
	}
	return &Hub{
		console: to.console, cluster: c, config: config, source: to.add(console.Source{Role: console.RoleHub, Context: name, Server: c.Server}),
		asks:    &doctor.Gatherer{Hub: config, HubFlags: flags},
		objects: map[objectKey]runtime.Object{}, changed: make(chan struct{}, 1),
	}, nil
}

// Run follows the hub until the context is done.
func (h *Hub) Run(ctx context.Context) {
	if err := h.run(ctx); err != nil {
		h.source.set(console.Away, err, nil)
	}
}

func (h *Hub) run(ctx context.Context) error {
	config := rest.CopyConfig(h.config)
	config.Timeout = 0 // it would end the watches
	config.WarningHandler = rest.NoWarnings{}
	hub, err := cache.New(config, cache.Options{Scheme: connect.NewScheme(), Mapper: connect.HubMapper(), NewInformer: store.NewInformer, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("the hub: %w", err)
	}
	var synced []toolscache.InformerSynced
	for _, o := range []client.Object{&clustersetv1alpha1.MemberCluster{}, &clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
		informer, err := hub.GetInformer(ctx, o)
		if err != nil {
			return fmt.Errorf("the hub: %w", err)
		}
		registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { h.put(o, true) }, UpdateFunc: func(_, o any) { h.put(o, true) }, DeleteFunc: func(o any) { h.put(o, false) },
		})
		if err != nil {
			return fmt.Errorf("the hub: %w", err)
		}
		synced = append(synced, registered.HasSynced)
	}
	var workers sync.WaitGroup
	workers.Go(func() { h.pass(ctx, synced) })
	workers.Go(func() { wait.UntilWithContext(ctx, func(ctx context.Context) { h.ask(ctx, synced) }, ask) })
	workers.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) { h.source.tell(ctx, h.cluster, ofHub) }, look)
	})
	workers.Go(func() { h.source.checkUps(ctx, h.asks.Ask) })
	err = hub.Start(ctx)
	workers.Wait()
	return err
}

func all(synced []toolscache.InformerSynced) bool {
	return !slices.ContainsFunc(synced, func(done toolscache.InformerSynced) bool { return !done() })
}

// put keeps an object as long as it is there.
func (h *Hub) put(o any, there bool) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	key := objectKey{reflect.TypeOf(object), client.ObjectKeyFromObject(object)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if there {
		h.objects[key] = object
	} else {
		delete(h.objects, key)
	}
	h.notify()
}

// pass passes the objects on when they have changed. At first it waits until all are there, unless some can't be read: half of the
// records would look like services without endpoints.
func (h *Hub) pass(ctx context.Context, synced []toolscache.InformerSynced) {
	for !all(synced) && h.source.get().State == console.Loading {
		if !sleep(ctx, settle/10) {
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
		}
		h.mu.Lock()
		records := append(slices.Collect(maps.Values(h.objects)), h.reports...)
		h.mu.Unlock()
		h.console.SetRecords(records)
		if !sleep(ctx, settle) {
			return
		}
	}
}

// ask reads the heartbeats, and finds out whether the hub answers. A watch doesn't show that: it is silent as long as nothing changes.
func (h *Hub) ask(ctx context.Context, synced []toolscache.InformerSynced) {
	err := h.readable(ctx)
	var heard map[string]view.Heartbeat
	var process time.Time
	if err == nil {
		heard, err = view.Heartbeats(ctx, h.cluster)
	}
	if err == nil {
		process, err = view.HubProcess(ctx, h.cluster)
	}
	if ctx.Err() != nil {
		return
	}
	state := console.Live
	if !all(synced) {
		state = console.Loading
	}
	h.source.set(state, err, nil)
	if err == nil {
		h.console.SetHeard(heard, process)
		h.reach(heard)
	}
}

// reach keeps which clusters each can't reach as the reports in which it says so: preview reads these.
func (h *Hub) reach(heard map[string]view.Heartbeat) {
	now := view.Unreachable(heard)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !reflect.DeepEqual(h.reports, now) {
		h.reports = now
		h.notify()
	}
}

// notify wakes pass.
func (h *Hub) notify() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// readable returns an error unless all of the hub's kinds can be listed.
func (h *Hub) readable(ctx context.Context) error {
	if _, err := h.cluster.HubMembers(ctx); err != nil {
		return err
	}
	for _, list := range []client.ObjectList{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}} {
		if err := h.cluster.List(ctx, list, client.Limit(1)); err != nil {
			return h.cluster.Words(err)
		}
	}
	return nil
}
