package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/record"
)

// OwnZone is the zone of the names of a cluster's own Services.
const OwnZone = "cluster.local"

// Own is a cluster's own Service, and what its address leads to.
type Own struct {
	Cluster string // the cluster's name in the set, empty if unknown
	Service *corev1.Service
	Slices  []discoveryv1.EndpointSlice
	// asks is what the agent makes of it if it asks to be extended.
	asks desired.Extended
}

// FetchOwn reads a Service of the cluster. It is nil if there is none.
func FetchOwn(ctx context.Context, c *objects.Cluster, n Name) (*Own, error) {
	own := &Own{Service: &corev1.Service{}}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: n.Key.Namespace(), Name: n.Key.Name()}, own.Service); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, c.Words(err)
	}
	var all discoveryv1.EndpointSliceList
	if err := c.List(ctx, &all, client.InNamespace(n.Key.Namespace()), client.MatchingLabels{discoveryv1.LabelServiceName: n.Key.Name()}); err != nil {
		return nil, c.Words(err)
	}
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: n.Key.Namespace()}, namespace); err != nil {
		return nil, c.Words(err)
	}
	own.Cluster, own.Slices = c.Name(ctx), all.Items
	pods, _ := view.Pods(ctx, c) // a right that only the agent's settings need
	own.asks = view.SettingsOf(pods).Extends(own.Service, namespace.Labels, own.extended())
	return own, nil
}

func (o *Own) extended() bool {
	return slices.ContainsFunc(o.Slices, func(s discoveryv1.EndpointSlice) bool { return desired.Extends(&s) })
}

// Asks reports whether the Service asks for endpoints of other clusters.
func (o *Own) Asks() bool { return o != nil && desired.AsksToBeExtended(o.Service) }

// Name returns the Service's own name.
func (o *Own) Name() string {
	return o.Service.Name + "." + o.Service.Namespace + ".svc." + OwnZone
}

func (o *Own) because() string {
	key := o.Service.Namespace + " " + o.Service.Name
	switch {
	case !o.Asks():
		return fmt.Sprintf("a Service of this cluster alone; to let its clients reach other clusters while it has no ready endpoint, kubectl annotate service -n %s %s=%s", key, api.KeyExtend, api.ExtendTrue)
	case o.asks.Refused() != "":
		return "not extended to other clusters: " + o.asks.Refused()
	case !o.extended():
		return "it asks to be extended, and no other cluster has a ready endpoint for it; kubectl describe service -n " + key + " has an Event if there is another reason"
	}
	return "extended to other clusters"
}

// Explain says which endpoints the Service's address leads to, as kube-proxy chooses them.
func (o *Own) Explain(now time.Time) *Explanation {
	e := &Explanation{
		Name: o.Name() + ".", Time: now, Result: Answer, Addresses: desired.ClusterIPs(o.Service),
		Source: "Service " + o.Service.Namespace + "/" + o.Service.Name, Because: o.because(),
	}
	if len(e.Addresses) == 0 {
		e.Result = NoData
	}
	ready := map[discoveryv1.AddressType]bool{}
	for i := range o.Slices {
		ready[o.Slices[i].AddressType] = ready[o.Slices[i].AddressType] || slices.ContainsFunc(o.Slices[i].Endpoints, isReady)
	}
	for i := range o.Slices {
		for _, behind := range o.Slices[i].Endpoints {
			e.Endpoints = append(e.Endpoints, o.endpoint(&o.Slices[i], behind, ready[o.Slices[i].AddressType]))
		}
	}
	slices.SortStableFunc(e.Endpoints, func(a, b Endpoint) int { // the cluster's own first
		return boolean(b.Cluster == o.Cluster) - boolean(a.Cluster == o.Cluster)
	})
	if o.Asks() {
		e.Notes = view.KeepsHere(o.Service)
	}
	return e
}

func isReady(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) }

// endpoint says whether kube-proxy uses an endpoint. In each family it uses the ready ones, or if there are none, those that serve while they
// terminate, as those of last resort say of themselves.
func (o *Own) endpoint(s *discoveryv1.EndpointSlice, e discoveryv1.Endpoint, otherReady bool) Endpoint {
	at := Endpoint{Place: place.Place{Cluster: o.Cluster, Zone: ptr.Deref(e.Zone, "")}, Address: e.Addresses[0], Reason: "not ready"}
	if other := record.OtherSystem(s.Labels); other != "" || desired.Extends(s) {
		at.Cluster = cmp.Or(s.Labels[api.LabelSourceCluster], other)
	}
	switch c := e.Conditions; {
	case isReady(e):
		at.Used, at.Reason = true, "ready"
	case !ptr.Deref(c.Serving, false) || !ptr.Deref(c.Terminating, false):
	case otherReady:
		at.Reason = "of last resort: used when no other is ready"
	default:
		at.Used, at.Reason = true, "of last resort: no other is ready"
	}
	return at
}
