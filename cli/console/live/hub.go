package live

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
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

const (
	// settle is how long changes of records are collected before the console gets them.
	settle = time.Second
	// ask is the time between two requests that read the heartbeats and show whether the hub answers.
	ask = 5 * time.Second
)

// Hub follows the hub's records.
type Hub struct {
	*source
	config  *rest.Config
	kinds   []toolscache.SharedIndexInformer
	reports []runtime.Object // see reach
	changed atomic.Bool      // whether records or reports have, since the console got them
	heard   time.Time        // when the heartbeats were read
}

// NewHub returns a Hub for the kubeconfig context of that name. It sends no request yet, so the hub may be down.
func NewHub(config *rest.Config, name, flags string, to *console.Server) (*Hub, error) {
	c, err := objects.Open(config, "hub", flags)
	if err != nil {
		return nil, err
	}
	h := &Hub{source: add(to, console.Source{Role: console.RoleHub, Context: name, Server: c.Server}), config: config}
	h.cluster, h.controllers, h.asks = c, []string{"clusterset-hub"}, (&doctor.Gatherer{Hub: config, HubFlags: flags}).Ask
	return h, nil
}

// Run follows the hub until the context is done.
func (h *Hub) Run(ctx context.Context) {
	if err := h.run(ctx); err != nil {
		h.set(console.Away, fmt.Errorf("the hub: %w", err), nil)
	}
}

func (h *Hub) run(ctx context.Context) error {
	config := rest.CopyConfig(h.config)
	config.Timeout = 0 // it would end the watches
	config.WarningHandler = rest.NoWarnings{}
	hub, err := cache.New(config, cache.Options{Scheme: connect.NewScheme(), Mapper: connect.HubMapper(), NewInformer: store.NewInformer, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	change := func(any) { h.changed.Store(true) }
	for _, o := range []client.Object{&clustersetv1alpha1.MemberCluster{}, &clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
		informer, err := hub.GetInformer(ctx, o)
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: change, UpdateFunc: func(any, any) { change(nil) }, DeleteFunc: change}); err != nil {
			return err
		}
		h.kinds = append(h.kinds, informer.(toolscache.SharedIndexInformer)) //nolint:forcetypeassert // as store.NewInformer made it
	}
	var workers sync.WaitGroup
	workers.Go(func() { wait.UntilWithContext(ctx, h.more, look) })
	workers.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if time.Since(h.heard) >= ask {
				h.ask(ctx)
				h.heard = time.Now()
			}
			h.pass()
		}, settle)
	})
	err = hub.Start(ctx)
	workers.Wait()
	return err
}

// synced reports whether all records are there.
func (h *Hub) synced() bool {
	for _, kind := range h.kinds {
		if !kind.HasSynced() {
			return false
		}
	}
	return true
}

// pass passes the objects on if they have changed. At first it waits until all are there, unless some can't be read: half of the
// records would look like services without endpoints.
func (h *Hub) pass() {
	if !h.synced() && h.get().State == console.Loading || !h.changed.Swap(false) {
		return
	}
	var records []runtime.Object
	for _, kind := range h.kinds {
		for _, o := range kind.GetStore().List() {
			records = append(records, o.(runtime.Object)) //nolint:forcetypeassert // it holds nothing else
		}
	}
	h.console.SetRecords(append(records, h.reports...))
}

// ask reads the heartbeats, and finds out whether the hub answers. A watch doesn't show that: it is silent as long as nothing changes.
func (h *Hub) ask(ctx context.Context) {
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
	if !h.synced() {
		state = console.Loading
	}
	h.set(state, err, nil)
	if err == nil {
		h.console.SetHeard(heard, process)
		h.reach(heard)
	}
}

// reach keeps which clusters each can't reach as the reports in which it says so: preview reads these.
func (h *Hub) reach(heard map[string]view.Heartbeat) {
	if now := view.Unreachable(heard); !reflect.DeepEqual(h.reports, now) {
		h.reports = now
		h.changed.Store(true)
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
