package prober

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all discoveryv1.EndpointSliceList
	svc := &corev1.Service{}
	err := a.Here.List(ctx, &all, client.InNamespace(a.Service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: a.Service.Name}, client.UnsafeDisableDeepCopy)
	if err == nil {
		err = a.Here.Get(ctx, a.Service, svc, client.UnsafeDisableDeepCopy)
	}
	ready := readyBeacons(all.Items)
	if err != nil || len(ready) == 0 { // if none is ready, those known before may be again
		return
	}
	var ips []netip.AddrPort
	for _, p := range svc.Spec.Ports {
		for _, s := range svc.Spec.ClusterIPs {
			if ip, err := netip.ParseAddr(s); err == nil && p.Name == PortName {
				ips = append(ips, netip.AddrPortFrom(ip, uint16(p.Port))) //nolint:gosec // a port number
			}
		}
	}
	report.Beacons, report.BeaconServices = beacon.Format(ready), beacon.Format(ips)
}

func readyBeacons(all []discoveryv1.EndpointSlice) (ready []netip.AddrPort) {
	for i := range all {
		for _, p := range all[i].Ports {
			if p.Port == nil || p.Name == nil || *p.Name != PortName {
				continue
			}
			for _, e := range all[i].Endpoints {
				if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
					continue
				}
				if ip, err := netip.ParseAddr(e.Addresses[0]); err == nil {
					ready = append(ready, netip.AddrPortFrom(ip, uint16(*p.Port))) //nolint:gosec // a port number
				}
			}
		}
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
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

// Avoid returns a function for Options: the addresses of API servers, given their URLs, and those of this cluster's Service kubernetes.
// Names are resolved every few minutes; the last answer stays if that fails. A name without one is resolved again soon.
func Avoid(here client.Reader, servers ...string) func(context.Context) []netip.Addr {
	return avoid(net.DefaultResolver.LookupNetIP, here, servers...)
}

func avoid(
	lookup func(context.Context, string, string) ([]netip.Addr, error), here client.Reader, servers ...string,
) func(context.Context) []netip.Addr {
	var mu sync.Mutex
	resolved := map[string][]netip.Addr{}
	var next time.Time
	return func(ctx context.Context) (all []netip.Addr) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		again := !now.Before(next)
		if again {
			next = now.Add(5 * time.Minute)
		}
		for _, server := range servers {
			host := server
			if u, err := url.Parse(server); err == nil {
				host = cmp.Or(u.Hostname(), server)
			}
			if ip, err := netip.ParseAddr(host); err == nil {
				all = append(all, ip)
				continue
			}
			if again {
				asking, cancel := context.WithTimeout(ctx, 2*time.Second)
				if ips, err := lookup(asking, "ip", host); err == nil {
					resolved[host] = ips
				} else if resolved[host] == nil {
					next = now.Add(10 * time.Second)
				}
				cancel()
			}
			all = append(all, resolved[host]...)
		}
		return append(all, ownAPIServer(ctx, here)...)
	}
}

func ownAPIServer(ctx context.Context, here client.Reader) (all []netip.Addr) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	add := func(s string) {
		if ip, err := netip.ParseAddr(s); err == nil {
			all = append(all, ip)
		}
	}
	var found discoveryv1.EndpointSliceList
	if here.List(ctx, &found, client.InNamespace(corev1.NamespaceDefault), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"},
		client.UnsafeDisableDeepCopy) == nil {
		for i := range found.Items {
			for _, e := range found.Items[i].Endpoints {
				for _, s := range e.Addresses {
					add(s)
				}
			}
		}
	}
	svc := &corev1.Service{}
	if here.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}, svc, client.UnsafeDisableDeepCopy) == nil {
		for _, s := range svc.Spec.ClusterIPs {
			add(s)
		}
	}
	return all
}
