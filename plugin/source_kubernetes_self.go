package clusterset

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/clusterset/clusterset/internal/index"
)

// namespaceFile is where a pod finds its namespace; a variable for tests.
var namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// selfTries is how often the Service in front of this pod is looked for. Endpoints follow readiness, so that it can't be
// found before the first sync.
const selfTries = 12

// findSelf replaces the bound addresses in the NS record's glue by those of the Service that has this pod as an endpoint:
// pods come and go, the Service's address is what clients were told. Outside of a cluster there is none.
func (f *kubernetesFeed) findSelf(ctx context.Context) {
	b, err := os.ReadFile(namespaceFile)
	if err != nil {
		return
	}
	namespace := strings.TrimSpace(string(b))
	delay := newDelay()
	for range selfTries {
		addrs, err := f.serviceAddrs(ctx, namespace)
		if err == nil && len(addrs) > 0 {
			for _, self := range f.self {
				self.store(slices.Clone(addrs))
			}
			return
		}
		if err != nil && ctx.Err() == nil {
			log.Debugf("kubernetes: look for the Service of this pod: %v", err)
		}
		pause(ctx, delay())
		if ctx.Err() != nil {
			return
		}
	}
	log.Infof("kubernetes: no Service in namespace %s has this pod as an endpoint: the zones' NS records name the bound addresses", namespace)
}

// serviceAddrs returns the ClusterIPs of the Services that have one of this machine's addresses as an endpoint.
func (f *kubernetesFeed) serviceAddrs(ctx context.Context, namespace string) ([]netip.Addr, error) {
	discovery, err := discoveryv1client.NewForConfigAndClient(f.config, f.client)
	if err != nil {
		return nil, err
	}
	core, err := corev1client.NewForConfigAndClient(f.config, f.client)
	if err != nil {
		return nil, err
	}
	endpointSlices, err := discovery.EndpointSlices(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list EndpointSlices: %w", err)
	}
	mine := interfaceAddrs()
	var addrs []netip.Addr
	for i := range endpointSlices.Items {
		slice := &endpointSlices.Items[i]
		if slice.Labels[discoveryv1.LabelServiceName] == "" || !hasEndpoint(slice, mine) {
			continue
		}
		svc, err := core.Services(namespace).Get(ctx, slice.Labels[discoveryv1.LabelServiceName], metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, fmt.Errorf("get Service: %w", err)
		}
		for _, ip := range svc.Spec.ClusterIPs {
			if addr, err := netip.ParseAddr(ip); err == nil { // "None" for a headless Service, whose pods are no fixed address
				addrs = append(addrs, addr)
			}
		}
	}
	return index.SortAddrs(addrs), nil
}

func hasEndpoint(slice *discoveryv1.EndpointSlice, mine []netip.Addr) bool {
	for i := range slice.Endpoints {
		for _, s := range slice.Endpoints[i].Addresses {
			if addr, err := netip.ParseAddr(s); err == nil && slices.Contains(mine, addr) {
				return true
			}
		}
	}
	return false
}
