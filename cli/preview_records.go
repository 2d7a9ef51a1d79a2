package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/manifests"
)

// state reads the hub's records. found are the objects of --manifests, which may contain others.
func (p *previewCommand) state(ctx context.Context) (state *preview.State, found []runtime.Object, err error) {
	if p.manifests != "" {
		return p.readState()
	}
	hub, err := p.openHub()
	if err != nil {
		return nil, nil, err
	}
	if hub == nil {
		return nil, nil, usagef("--hub-kubeconfig, --hub-context or --manifests is required: a preview needs the hub's records")
	}
	state, err = fetchState(ctx, hub)
	return state, nil, err
}

// readState reads a hub's records from files.
func (p *previewCommand) readState() (*preview.State, []runtime.Object, error) {
	if p.hasHub() {
		return nil, nil, usagef("--manifests and %s can't be used together", hubFlags)
	}
	scheme := connect.NewScheme()
	utilruntime.Must(mcsv1beta1.Install(scheme))
	found, _, err := manifests.Objects(p.manifests, scheme)
	if err != nil {
		return nil, nil, usagef("--manifests: %w", err)
	}
	state := preview.NewState(found)
	if len(state.Services()) == 0 && len(state.Clusters()) == 0 {
		return nil, nil, usagef("--manifests %s: there is no ExportedService and no MemberCluster: want a hub's records, as %s writes them there", p.manifests, recordsCommand)
	}
	return state, found, nil
}

// fetchState reads the hub's records.
func fetchState(ctx context.Context, hub *objects.Cluster) (*preview.State, error) {
	if _, err := hub.HubMembers(ctx); err != nil {
		return nil, err
	}
	f := view.FetchHub(ctx, hub)
	return f.State, f.Err
}

// read fills in the records that a Service would have if it were exported. It returns further notes.
func (p *previewCommand) read(ctx context.Context, e *preview.Export, found []runtime.Object) (notes []string, err error) {
	key, err := preview.ParseService(e.Service)
	if err != nil {
		return nil, usageError{err}
	}
	src := exporter.Source{Cluster: e.From, Key: key}
	if p.manifests == "" {
		if found, err = p.fetched(ctx, e, key.Namespace); err != nil {
			return nil, err
		}
	}
	takeFrom(found, &src)
	src.External.Resolve = func(string) []netip.Addr { return nil } // only the cluster's agent resolves names
	records, left, err := exporter.Exported(src, metav1.NewTime(time.Now()))
	if err != nil {
		return nil, fmt.Errorf("%s can't be exported from %s: %w", e.Service, e.From, err)
	}
	e.Records = &preview.Records{Service: records.Service}
	for i := range records.Endpoints {
		e.Records.Endpoints = append(e.Records.Endpoints, &records.Endpoints[i])
	}
	for _, err := range left {
		notes = append(notes, fmt.Sprintf("of %s in %s is left out: %v", e.Service, e.From, err))
	}
	return notes, nil
}

// takeFrom finds a Service and the objects that belong to it.
func takeFrom(found []runtime.Object, src *exporter.Source) {
	for _, o := range found {
		switch o := o.(type) {
		case *corev1.Service:
			if client.ObjectKeyFromObject(o) == src.Key {
				src.Service = o
			}
		case *mcsv1beta1.ServiceExport:
			if client.ObjectKeyFromObject(o) == src.Key {
				src.Export = o
			}
		case *discoveryv1.EndpointSlice:
			if o.Namespace == src.Key.Namespace && o.Labels[discoveryv1.LabelServiceName] == src.Key.Name {
				src.Slices = append(src.Slices, *o)
			}
		}
	}
}

// fetched reads what may belong to a Service from its cluster.
func (p *previewCommand) fetched(ctx context.Context, e *preview.Export, namespace string) (found []runtime.Object, err error) {
	c, err := p.in(cmp.Or(e.Context, p.context)).openLocal()
	if err != nil {
		return nil, err
	}
	if name := c.Name(ctx); name != "" && name != e.From {
		return nil, usagef("the cluster at %s is %s, not %s; %s say where %s is read", c.Server, name, e.From, localFlags, e.Service)
	}
	for _, list := range []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, c.Words(err)
		}
		items, _ := meta.ExtractList(list)
		found = append(found, items...)
	}
	exports, err := c.ServiceExports(ctx, client.InNamespace(namespace))
	for i := range exports {
		found = append(found, &exports[i])
	}
	return found, err
}
