package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		if p.hasHub() {
			return nil, nil, usagef("--manifests and %s can't be used together", hubFlags)
		}
		return readState(p.manifests)
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
func readState(path string) (*preview.State, []runtime.Object, error) {
	scheme := connect.NewScheme()
	utilruntime.Must(mcsv1beta1.Install(scheme))
	found, _, err := manifests.Objects(path, scheme)
	if err != nil {
		return nil, nil, usagef("--manifests: %w", err)
	}
	state := preview.NewState(found)
	if len(state.Services()) == 0 && len(state.Clusters()) == 0 {
		return nil, nil, usagef("--manifests %s: %w", path, errNoRecords)
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

// read fills in the records that a Service would have if it were exported. It returns further notes. If there are several networks, the Service's
// external addresses matter.
func (p *previewCommand) read(ctx context.Context, e *preview.Export, networks bool, found []runtime.Object, now metav1.Time) (notes []string, err error) {
	key, err := preview.ParseService(e.Service)
	if err != nil {
		return nil, usageError{err}
	}
	src := exporter.Source{Cluster: e.From, Key: key}
	if p.manifests != "" {
		takeFrom(found, &src)
	} else if notes, err = p.fetchService(ctx, e, &src); err != nil {
		return nil, err
	}
	// The addresses of nodes and of names are known to the cluster's agent alone.
	unknown := src.Service != nil && slices.ContainsFunc(src.Service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort > 0 })
	src.External.Resolve = func(string) []netip.Addr {
		unknown = true
		return nil
	}
	records, left, err := exporter.Exported(src, now)
	if err != nil {
		return nil, fmt.Errorf("%s can't be exported from %s: %w", e.Service, e.From, err)
	}
	e.Records = &preview.Records{Service: records.Service}
	for i := range records.Endpoints {
		unknown = unknown && !records.Endpoints[i].Spec.External
		e.Records.Endpoints = append(e.Records.Endpoints, &records.Endpoints[i])
	}
	if networks && unknown {
		notes = append(notes, fmt.Sprintf("%s is reached from other networks at addresses that only the agent of %s knows, so what it does to their clusters isn't shown", e.Service, e.From))
	}
	for _, err := range left {
		notes = append(notes, fmt.Sprintf("of %s in %s is left out: %v", e.Service, e.From, err))
	}
	return notes, nil
}

// takeFrom finds a Service and the objects that belong to it among the objects of files.
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

// fetchService reads a Service and the objects that belong to it from its cluster.
func (p *previewCommand) fetchService(ctx context.Context, e *preview.Export, src *exporter.Source) (notes []string, err error) {
	c, err := p.in(cmp.Or(e.Context, p.context)).openLocal()
	if err != nil {
		return nil, err
	}
	if name := c.Name(ctx); name != "" && name != e.From {
		return nil, usagef("the cluster at %s is %s, not %s; %s say where %s is read", c.Server, name, e.From, localFlags, e.Service)
	} else if name == "" {
		notes = []string{fmt.Sprintf("%s is read at %s, which doesn't say that it is %s", e.Service, c.Server, e.From)}
	}
	svc := &corev1.Service{}
	switch err := c.Get(ctx, src.Key, svc); {
	case err == nil:
		src.Service = svc
	case !apierrors.IsNotFound(err):
		return nil, c.Words(err)
	}
	var endpoints discoveryv1.EndpointSliceList
	if err := c.List(ctx, &endpoints, client.InNamespace(src.Key.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: src.Key.Name}); err != nil {
		return nil, c.Words(err)
	}
	src.Slices = endpoints.Items
	exports, err := c.ServiceExports(ctx, client.InNamespace(src.Key.Namespace))
	if at := slices.IndexFunc(exports, func(e mcsv1beta1.ServiceExport) bool { return e.Name == src.Key.Name }); at >= 0 {
		src.Export = &exports[at]
	}
	return notes, err
}
