package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/place"
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
	own.Cluster, own.Slices = c.Name(ctx), all.Items
	return own, nil
}

// because says whether the Service is extended, and what to do if it isn't.
func (o *Own) because() string {
	key := o.Service.Namespace + " " + o.Service.Name
	switch {
	case desired.Named(o.Service):
		return "made by the agent, as the namespace's label " + api.KeyOwnNames + " says: it leads to what the ClusterSetIP leads to"
	case !desired.AsksToBeExtended(o.Service):
		return fmt.Sprintf("a Service of this cluster alone; to let its clients reach other clusters while it has no ready endpoint, kubectl annotate service -n %s %s=%s", key, api.KeyExtend, api.ExtendTrue)
	case !slices.ContainsFunc(o.Slices, func(s discoveryv1.EndpointSlice) bool { return desired.Extends(&s) }):
		return "it asks to be extended, and no other cluster has a ready endpoint for it; kubectl describe service -n " + key + " has an Event if there is another reason"
	}
	return "extended to other clusters"
}

// Explain says which endpoints the Service's address leads to, as kube-proxy chooses them.
func (o *Own) Explain() *Explanation {
	e := &Explanation{
		Name: o.Service.Name + "." + o.Service.Namespace + ".svc." + OwnZone + ".", Result: Answer, Addresses: desired.ClusterIPs(o.Service),
		Source: "Service " + o.Service.Namespace + "/" + o.Service.Name, Because: o.because(),
	}
	if len(e.Addresses) == 0 {
		e.Result = NoData
	}
	ready := map[discoveryv1.AddressType]bool{}
	for i := range o.Slices {
		s := &o.Slices[i]
		ready[s.AddressType] = ready[s.AddressType] || slices.ContainsFunc(s.Endpoints, isReady)
	}
	for i := range o.Slices {
		s := &o.Slices[i]
		for j := range s.Endpoints {
			e.Endpoints = append(e.Endpoints, o.endpoint(s, &s.Endpoints[j], ready[s.AddressType]))
		}
	}
	slices.SortStableFunc(e.Endpoints, func(a, b Endpoint) int { // the cluster's own first
		return boolean(b.Cluster == o.Cluster) - boolean(a.Cluster == o.Cluster)
	})
	return e
}

func isReady(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) }

// endpoint says whether kube-proxy uses an endpoint. It does if the endpoint is ready, or if none of its family is and it serves while it
// terminates, as those of last resort say of themselves.
func (o *Own) endpoint(s *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint, anyReady bool) Endpoint {
	at := Endpoint{Place: place.Place{Cluster: o.Cluster, Zone: ptr.Deref(e.Zone, "")}, Address: e.Addresses[0], Reason: "not ready"}
	if other := record.OtherSystem(s.Labels); other != "" || desired.Extends(s) {
		at.Cluster = cmp.Or(s.Labels[api.LabelSourceCluster], other)
	}
	switch {
	case isReady(*e) && e.Hints != nil && slices.Contains(e.Hints.ForZones, discoveryv1.ForZone{Name: api.HintNone}):
		at.Reason = "ready, and others come first for every zone of this cluster"
	case isReady(*e):
		at.Used, at.Reason = true, "ready"
	case !ptr.Deref(e.Conditions.Serving, false) || !ptr.Deref(e.Conditions.Terminating, false):
	case anyReady:
		at.Reason = "of last resort: used when no other is ready"
	default:
		at.Used, at.Reason = true, "of last resort: no other is ready"
	}
	return at
}
