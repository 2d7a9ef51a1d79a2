package status

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/cli/objects"
)

// FetchLocal reads the local cluster.
func FetchLocal(ctx context.Context, c *objects.Cluster) (*LocalFacts, error) {
	f := &LocalFacts{}
	var err error
	if f.Members, err = c.MemberClusters(ctx); err != nil {
		return nil, err
	}
	if f.Imports, err = c.ServiceImports(ctx); err != nil {
		return nil, err
	}
	if f.Exports, err = c.ServiceExports(ctx); err != nil {
		return nil, err
	}
	f.Cluster = c.Name(ctx)
	if anyAiling(f.Members) {
		f.RoutesErr = f.fetchRoutes(ctx, c)
	}
	return f, nil
}

// fetchRoutes reads the objects that show where services lead.
func (f *LocalFacts) fetchRoutes(ctx context.Context, c *objects.Cluster) error {
	var globals fabedgev1alpha1.GlobalServiceList
	if err := c.List(ctx, &globals); err != nil && !objects.NotServed(err) {
		return c.Words(err)
	}
	var slices discoveryv1.EndpointSliceList
	if err := c.List(ctx, &slices, client.HasLabels{api.LabelSourceCluster}); err != nil {
		return c.Words(err)
	}
	f.Globals, f.Slices = globals.Items, slices.Items
	return nil
}

// FetchHub reads the hub. If it can't, that is one of the facts.
func FetchHub(ctx context.Context, c *objects.Cluster) *HubFacts {
	f := &HubFacts{Server: c.Server}
	began := time.Now()
	if f.Members, f.Err = c.MemberClusters(ctx); f.Err != nil {
		return f
	}
	f.Latency = time.Since(began)
	var exports clustersetv1alpha1.ExportedServiceList
	if err := c.List(ctx, &exports); err != nil {
		f.Err = c.Words(err)
		return f
	}
	f.Exports = exports.Items
	f.Renewed, f.Err = Renewed(ctx, c)
	return f
}

// Renewed reads the hub's heartbeats: when each cluster renewed its Lease, by its own clock. Members may not read each other's, so
// a refusal isn't a failure: the MemberClusters have much the same information.
func Renewed(ctx context.Context, c *objects.Cluster) (map[string]time.Time, error) {
	var leases coordinationv1.LeaseList
	err := c.List(ctx, &leases, client.MatchingFields{"metadata.name": api.HeartbeatLease})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, c.Words(err)
	}
	times := make(map[string]time.Time, len(leases.Items))
	for i := range leases.Items {
		cluster, ok := api.ClusterOfNamespace(leases.Items[i].Namespace)
		if t := leases.Items[i].Spec.RenewTime; ok && t != nil {
			times[cluster] = t.Time
		}
	}
	return times, nil
}
