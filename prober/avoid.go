package prober

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resolveEvery is how often names of API servers are resolved.
const resolveEvery = time.Minute

var ownAPIServer = types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}

// lookup is that of a net.Resolver.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// Avoid returns a function for Options: the addresses of API servers, given their URLs, and those of this cluster's Service kubernetes.
// The last addresses of a name stay while it can't be resolved.
func Avoid(here client.Reader, servers ...string) func(context.Context) []netip.Addr {
	return avoid(net.DefaultResolver.LookupNetIP, here, servers...)
}

func avoid(resolve lookup, here client.Reader, servers ...string) func(context.Context) []netip.Addr {
	var mu sync.Mutex
	var asked time.Time
	resolved := make([][]netip.Addr, len(servers))
	return func(ctx context.Context) (all []netip.Addr) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) >= resolveEvery {
			asked = time.Now()
			for i, server := range servers {
				if ips, err := resolve.server(ctx, server); err == nil {
					resolved[i] = ips
				}
			}
		}
		ready, ips, _ := find(ctx, here, ownAPIServer, "")
		for _, a := range append(ready, ips...) {
			all = append(all, a.Addr())
		}
		return append(all, slices.Concat(resolved...)...)
	}
}

// server returns the addresses of a server, given its URL.
func (l lookup) server(ctx context.Context, server string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if u, err := url.Parse(server); err == nil {
		server = cmp.Or(u.Hostname(), server)
	}
	return l(ctx, "ip", server) // an address is its own
}

// find returns the addresses of a Service's ready endpoints, and its ClusterIPs, with the port of that name, with all ports if it is empty.
func find(ctx context.Context, here client.Reader, of types.NamespacedName, port string) (ready, ips []netip.AddrPort, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var found discoveryv1.EndpointSliceList
	svc := &corev1.Service{}
	err = errors.Join(
		here.List(ctx, &found, client.InNamespace(of.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: of.Name}, client.UnsafeDisableDeepCopy),
		here.Get(ctx, of, svc, client.UnsafeDisableDeepCopy),
	)
	add := func(to *[]netip.AddrPort, addresses []string, name string, number int32) {
		for _, s := range addresses {
			if ip, err := netip.ParseAddr(s); err == nil && (name == port || port == "") {
				*to = append(*to, netip.AddrPortFrom(ip, uint16(number))) //nolint:gosec // a port number
			}
		}
	}
	for i := range found.Items {
		for _, p := range found.Items[i].Ports {
			for _, e := range found.Items[i].Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					add(&ready, e.Addresses, ptr.Deref(p.Name, ""), ptr.Deref(p.Port, 0))
				}
			}
		}
	}
	for _, p := range svc.Spec.Ports {
		add(&ips, svc.Spec.ClusterIPs, p.Name, p.Port)
	}
	return ready, ips, err
}
