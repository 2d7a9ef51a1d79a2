package clusterset

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/internal/index"
)

// namespaceFile is where a pod finds its namespace; a variable for tests.
var namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// selfTries is how often this pod looks for the Service in front of it. The pod is no endpoint before it is ready, so the Service
// can't be found before the first sync.
const selfTries = 12

// selfAgain is how often it looks after that: a Service that is deleted and created again has another address. A variable for tests.
var selfAgain = 5 * time.Minute

// selfGlue is the glue of a server block's NS records, to be found, the port that the block listens on, and its index.
type selfGlue struct {
	addrs *selfAddrs
	port  string
	index *index.Index
}

// findSelf replaces the bound addresses in the NS records' glue with those of the Services that lead to this pod. Pods come and
// go, and clients are configured with a Service's address. Outside a cluster it does nothing.
func (f *kubernetesFeed) findSelf(ctx context.Context) {
	b, err := os.ReadFile(namespaceFile)
	if err != nil {
		return
	}
	namespace := strings.TrimSpace(string(b))
	delay := newDelay()
	for try := 1; ctx.Err() == nil; try++ {
		fronts, err := f.fronts(ctx, namespace)
		if err != nil && ctx.Err() == nil {
			log.Debugf("kubernetes: look for the Service of this pod: %v", err)
		}
		missing := findGlue(f.self, fronts)
		if try == selfTries {
			for _, self := range missing {
				log.Infof("kubernetes: no Service in namespace %s leads from port 53/UDP to this pod's port %s: the zones' NS records name the bound addresses",
					namespace, self.port)
			}
		}
		if len(missing) == 0 || try >= selfTries {
			pause(ctx, selfAgain)
		} else {
			pause(ctx, delay())
		}
	}
}

// findGlue gives each block the addresses of the Services that lead to it, and returns the blocks without one.
func findGlue(blocks []selfGlue, fronts []front) (missing []selfGlue) {
	for _, self := range blocks {
		var addrs []netip.Addr
		for i := range fronts {
			if fronts[i].leadsTo(self.port) {
				addrs = append(addrs, clusterIPs(fronts[i].service)...)
			}
		}
		if len(addrs) == 0 {
			missing = append(missing, self)
			continue
		}
		if self.addrs.store(addrs) {
			self.index.Renumber()
		}
	}
	return missing
}

// front is a Service that has this pod as an endpoint, and the slice that lists it.
type front struct {
	service *corev1.Service
	slice   *discoveryv1.EndpointSlice
}

// leadsTo reports whether the Service forwards port 53 over UDP, which resolvers use for name servers, to that port.
func (f *front) leadsTo(port string) bool {
	for i := range f.service.Spec.Ports {
		p := &f.service.Spec.Ports[i]
		if p.Port != 53 || p.Protocol != corev1.ProtocolUDP {
			continue
		}
		for j := range f.slice.Ports {
			to := &f.slice.Ports[j]
			if ptr.Deref(to.Name, "") == p.Name && ptr.Deref(to.Protocol, corev1.ProtocolTCP) == corev1.ProtocolUDP &&
				(to.Port == nil || strconv.Itoa(int(*to.Port)) == port) {
				return true
			}
		}
	}
	return false
}

// fronts returns the Services that have one of this machine's addresses as an endpoint.
func (f *kubernetesFeed) fronts(ctx context.Context, namespace string) ([]front, error) {
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
	var fronts []front
	for i := range endpointSlices.Items {
		slice := &endpointSlices.Items[i]
		if slice.Labels[discoveryv1.LabelServiceName] == "" || !hasEndpoint(slice, mine) {
			continue
		}
		svc, err := core.Services(namespace).Get(ctx, slice.Labels[discoveryv1.LabelServiceName], metav1.GetOptions{ResourceVersion: "0"})
		switch {
		case apierrors.IsNotFound(err): // it is gone, or an imported slice names none
			continue
		case err != nil:
			return nil, fmt.Errorf("get Service: %w", err)
		}
		fronts = append(fronts, front{svc, slice})
	}
	return fronts, nil
}

// clusterIPs returns a Service's cluster IPs. A headless Service has none: its pods' addresses aren't fixed.
func clusterIPs(svc *corev1.Service) []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range svc.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
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
