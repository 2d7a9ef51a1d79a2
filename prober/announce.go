package prober

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/verdict"
)

// PortName is the name of the beacons' port in their Service.
const PortName = "beacon"

// Announcer finds this cluster's own beacons, for its MemberReport (D42).
type Announcer struct {
	// Here reads this cluster's Services and EndpointSlices from a cache.
	Here client.Reader
	// Service is the one in front of the agents. Empty: none.
	Service types.NamespacedName
	// Addresses replace it. Without them and a Service the cluster has no beacons.
	Addresses []netip.AddrPort
}

// Report fills in the beacons. If they aren't known, they are left out.
func (a *Announcer) Report(ctx context.Context, report *clustersetv1alpha1.MemberReportSpec) {
	if len(a.Addresses) > 0 || a.Service.Name == "" { // that there are none is said, so that nobody goes on dialling those that there were before
		report.Beacons = beacon.Format(a.Addresses)
		return
	}
	ready, ips, err := find(ctx, a.Here, a.Service, PortName)
	if err != nil || len(ready) == 0 { // if none is ready, those known before may be again
		return
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	report.Beacons, report.BeaconServices = beacon.Format(slices.Compact(ready)), beacon.Format(ips)
}

// Report fills in what the cluster can't reach, and what it hasn't measured (D52), once something has been measured.
func (p *Prober) Report(report *clustersetv1alpha1.MemberReportSpec) {
	all := p.verdicts.Load()
	if all == nil {
		return
	}
	const most = clustersetv1alpha1.MaxReportedClusters
	named := func(is verdict.Reachable) []string {
		names := []string{}
		for _, cluster := range slices.Sorted(maps.Keys(*all)) {
			if (*all)[cluster].Reachable == is {
				names = append(names, cluster)
			}
		}
		report.Truncated = report.Truncated || len(names) > most
		return names[:min(len(names), most)]
	}
	report.Unreachable, report.Unmeasured = named(verdict.False), named(verdict.Unknown)
}
