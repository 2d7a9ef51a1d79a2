package random

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/test/fleet"
)

// extendsLabel is on the EndpointSlices that extend a cluster's own Service to other clusters.
const extendsLabel = "clusterset.dev/extends"

// extended returns an error if a cluster's own Services that ask for endpoints of other clusters have other endpoints of last resort than they
// must have, or if such slices are left of a Service that has none. No cluster was silent, so none is Expired, or counts as Suspect (D5).
func (w *World) extended() error {
	var errs []error
	for _, c := range w.Clusters {
		keys := maps.Clone(c.extending)
		for key, s := range c.services {
			if s.Annotations["clusterset.dev/extend"] == "true" {
				keys[key] = c.extending[key]
			}
		}
		for key, held := range keys {
			got, err := lastResortIn(held)
			if want := w.lastResort(c, key); err == nil && got != want {
				err = fmt.Errorf("got  %s\n  want %s\n%s", got, want, w.describe(fmt.Sprintf("%s.%s.svc.", key.Name, key.Namespace)))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: endpoints of last resort of Service %s:\n  %w", c.Name, key, err))
			}
		}
	}
	return errors.Join(errs...)
}

// lastResort returns the endpoints of last resort that a cluster's own Service must have (D60 to D65 of docs/spec/data-path.md), as text.
func (w *World) lastResort(c *View, key types.NamespacedName) string {
	svc := c.services[key]
	if svc == nil || svc.Annotations["clusterset.dev/extend"] != "true" || !c.open[key.Namespace] || svc.Spec.ClusterIP == corev1.ClusterIPNone || len(svc.Spec.Selector) == 0 { // D61, D62
		return "" // services of type ExternalName have no selector here
	}
	parts := w.visible(c, key)
	others := slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return p.View == c })
	if len(others) == 0 || parts[0].headless() {
		return ""
	}
	z := &Zone{at: fleet.Location{Cluster: c.Name, Zone: c.Zone, Region: c.Region}, member: c}
	var found []string
	for _, q := range svc.Spec.Ports {
		port, ok := counterpart(q, mergedPorts(parts))
		for _, family := range svc.Spec.IPFamilies {
			for _, b := range z.lastResort(others, port, family) {
				if ok {
					found = append(found, endpointText(q.Name, q.Protocol, b.address, b.ports[port]))
				}
			}
		}
	}
	return strings.Join(sortedSet(found), ", ")
}

// counterpart returns the merged port that a port of a Service stands for (D63).
func counterpart(q corev1.ServicePort, merged []mergedPort) (mergedPort, bool) {
	for _, m := range merged {
		unnamed := q.Name == "" || m.original == ""
		if m.protocol == q.Protocol && (!unnamed && m.original == q.Name || unnamed && m.number == q.Port) {
			return m, true
		}
	}
	return mergedPort{}, false
}

// lastResort returns the endpoints of other clusters that a port leads to in a family (D6).
func (z *Zone) lastResort(others []Part, port mergedPort, family corev1.IPFamily) []backend {
	var all []backend
	for _, p := range others {
		candidates := p.backends([]mergedPort{port})
		if p.apart(z.member) { // D85
			candidates = p.externals([]mergedPort{port})
		}
		for _, b := range candidates {
			if b.ready && !z.mayLeadBack(b) && b.ports[port] != 0 && netip.MustParseAddr(b.address).Is4() == (family == corev1.IPv4Protocol) {
				all = append(all, b)
			}
		}
	}
	return z.best(all)
}

// mayLeadBack reports whether a backend is another cluster's Service, which may lead back because that cluster isn't well (D66).
func (z *Zone) mayLeadBack(b backend) bool {
	return b.part.apart(z.member) && (b.part.Drained || b.part.share == 0 || z.member.Unreachable[b.part.Name])
}

func endpointText(port string, protocol corev1.Protocol, address string, number int32) string {
	return fmt.Sprintf("%s/%s %s %d", port, protocol, netip.MustParseAddr(address), number)
}

// lastResortIn returns the endpoints of last resort that a Service has, as text. It returns an error if one of them is anything else than
// serving, terminating and not ready.
func lastResortIn(all []discoveryv1.EndpointSlice) (string, error) {
	var found []string
	for _, s := range all {
		for _, q := range s.Ports {
			for _, e := range s.Endpoints {
				if c := e.Conditions; c.Ready == nil || *c.Ready || !deref(c.Serving) || !deref(c.Terminating) {
					return "", fmt.Errorf("EndpointSlice %s: %v has other conditions than an endpoint of last resort: %+v", s.Name, e.Addresses, c)
				}
				for _, a := range e.Addresses {
					found = append(found, endpointText(deref(q.Name), cmp.Or(deref(q.Protocol), corev1.ProtocolTCP), a, deref(q.Port)))
				}
			}
		}
	}
	return strings.Join(sortedSet(found), ", "), nil
}
