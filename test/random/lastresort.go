package random

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
)

// extendsLabel is on the EndpointSlices that extend a cluster's own Service to other clusters.
const extendsLabel = "clusterset.dev/extends"

// Nothing is the text of a Service without endpoints of last resort.
const Nothing = "none"

// Extended returns a cluster's Services that ask for endpoints of other clusters.
func (c *View) Extended() (keys []types.NamespacedName) {
	for key, s := range c.services {
		if s.Annotations["clusterset.dev/extend"] == "true" {
			keys = append(keys, key)
		}
	}
	return keys
}

// LastResort returns the endpoints of last resort that a cluster's own Service must have (D60 to D65 of docs/spec/data-path.md), as text. The
// clusters in returning were silent a while ago, so they may count as Suspect (D5). Where that makes a difference, the texts of all
// possibilities are returned, separated by " or ".
func (w *World) LastResort(c *View, key types.NamespacedName, returning map[string]bool) string {
	texts := map[string]bool{w.lastResort(c, key): true}
	for _, other := range w.Clusters {
		if returning[other.Name] && !other.Drained {
			other.Drained = true
			for _, text := range Possibilities(w.LastResort(c, key, returning)) {
				texts[text] = true
			}
			other.Drained = false
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(texts)), orElse)
}

const orElse = " or "

// Possibilities returns the single texts of one that LastResort returned.
func Possibilities(text string) []string { return strings.Split(text, orElse) }

func (w *World) lastResort(c *View, key types.NamespacedName) string {
	svc := c.services[key]
	if svc == nil || !c.open[key.Namespace] || svc.Spec.ClusterIP == corev1.ClusterIPNone || len(svc.Spec.Selector) == 0 { // D61, D62
		return Nothing // services of type ExternalName have no selector here
	}
	parts := w.visible(c, key)
	others := slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return p.View == c })
	if len(others) == 0 || parts[0].headless() {
		return Nothing
	}
	z := &Zone{at: fleet.Location{Cluster: c.Name, Zone: c.Zone, Region: c.Region}, member: c}
	found := map[string]bool{}
	for _, q := range svc.Spec.Ports {
		port, ok := counterpart(q, mergedPorts(parts))
		for _, family := range svc.Spec.IPFamilies {
			for _, b := range z.lastResort(others, port, family) {
				if ok {
					found[endpointText(q.Name, q.Protocol, b.address, b.ports[port])] = true
				}
			}
		}
	}
	return textOf(found)
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

// lastResort returns the endpoints of other clusters that a port leads to in a family (D6). Those of Expired clusters count if no other is
// ready (D4).
func (z *Zone) lastResort(others []Part, port mergedPort, family corev1.IPFamily) []backend {
	for _, expired := range []bool{false, true} {
		var all []backend
		for _, p := range others {
			if p.Expired != expired {
				continue
			}
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
		if len(all) > 0 {
			return z.best(all)
		}
	}
	return nil
}

// mayLeadBack reports whether a backend is another cluster's Service, which may lead back because that cluster isn't well (D66).
func (z *Zone) mayLeadBack(b backend) bool {
	return b.part.apart(z.member) && (b.part.Drained || b.part.Expired || z.member.Unreachable[b.part.Name])
}

func endpointText(port string, protocol corev1.Protocol, address string, number int32) string {
	return fmt.Sprintf("%s/%s %s %d", port, protocol, netip.MustParseAddr(address), number)
}

func textOf(found map[string]bool) string {
	if len(found) == 0 {
		return Nothing
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

// LastResortOf returns the endpoints of last resort that a Service has, as text. It returns an error if one of them is anything else than
// serving, terminating and not ready.
func LastResortOf(all []discoveryv1.EndpointSlice) (string, error) {
	found := map[string]bool{}
	for _, s := range all {
		for _, q := range s.Ports {
			for _, e := range s.Endpoints {
				if c := e.Conditions; c.Ready == nil || *c.Ready || !deref(c.Serving) || !deref(c.Terminating) {
					return "", fmt.Errorf("EndpointSlice %s: %v has other conditions than an endpoint of last resort: %+v", s.Name, e.Addresses, c)
				}
				for _, a := range e.Addresses {
					found[endpointText(deref(q.Name), cmp.Or(deref(q.Protocol), corev1.ProtocolTCP), a, deref(q.Port))] = true
				}
			}
		}
	}
	return textOf(found), nil
}

// ReadLastResort reads the slices that extend a member's Service.
func ReadLastResort(ctx context.Context, m *fleettest.Member, key types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := m.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingLabels{extendsLabel: key.Name, discoveryv1.LabelServiceName: key.Name})
	return list.Items, err
}

// Extending returns an error if a cluster's own Services have other endpoints of last resort than they must have, or if such slices are left
// of a Service that has none.
func (w *World) Extending(returning map[string]bool) error {
	var errs []error
	for _, c := range w.Clusters {
		keys := c.Extended()
		for key := range c.extending {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			want := w.LastResort(c, key, returning)
			got, err := LastResortOf(c.extending[key])
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
			} else if !slices.Contains(Possibilities(want), got) {
				errs = append(errs, fmt.Errorf("%s: endpoints of last resort of Service %s:\n  got  %s\n  want %s\n%s",
					c.Name, key, got, want, w.describe(fmt.Sprintf("%s.%s.svc.", key.Name, key.Namespace))))
			}
		}
	}
	return errors.Join(errs...)
}

// Leads checks the answers that a server must give by what they are for, not by how they come about: none has an address of a pod, or a
// ClusterIP, of another network, and a service of which something is ready that the server's cluster can reach has an address.
func (w *World) Leads(s Server) error { return w.leads(w.Zone("global", s)) }

func (w *World) leads(z *Zone) error {
	own := map[string]bool{}
	foreign := map[string]string{} // the cluster of each address of another network
	for _, key := range w.Keys() {
		for _, p := range w.Parts(key) {
			for _, a := range p.inside() {
				if p.apart(z.member) {
					foreign[a] = p.Name
				} else {
					own[a] = true
				}
			}
		}
	}
	var errs []error
	for name, records := range z.Names {
		for _, a := range slices.Concat(records["A"], records["AAAA"]) {
			if of := foreign[a]; of != "" && !own[a] {
				errs = append(errs, fmt.Errorf("%s is asked at %s: %s is a pod or ClusterIP of %s, in another network", name, z.member.Name, a, of))
			}
		}
	}
	for _, key := range w.Keys() {
		name := fmt.Sprintf("%s.%s.svc.global", key.Name, key.Namespace)
		if from := w.reaches(z.member, key); from != "" && len(z.Names[name]["A"])+len(z.Names[name]["AAAA"]) == 0 {
			errs = append(errs, fmt.Errorf("%s is asked at %s: no address, and %s has a ready one that can be reached", name, z.member.Name, from))
		}
	}
	return errors.Join(errs...)
}

// inside returns the addresses of a part that only its own network reaches.
func (p Part) inside() (all []string) {
	for _, b := range p.backends(nil) {
		all = append(all, netip.MustParseAddr(b.address).String())
	}
	if !p.headless() {
		all = append(all, p.service.Spec.ClusterIPs...)
	}
	return all
}

// reaches names a cluster whose part of a service is ready, hasn't expired, has the service's type and all its ports, and can be reached
// by a viewer. It returns nothing if there is none.
func (w *World) reaches(viewer *View, key types.NamespacedName) string {
	parts := w.visible(viewer, key)
	if len(parts) == 0 || !viewer.namespaces[key.Namespace] {
		return ""
	}
	ports := mergedPorts(parts)
	for _, p := range parts {
		ready := slices.ContainsFunc(p.backends(nil), func(b backend) bool { return b.ready })
		whole := !slices.ContainsFunc(ports, func(port mergedPort) bool { return !p.has(port) })
		if !ready || p.Expired || !whole || p.headless() != parts[0].headless() {
			continue
		}
		if !p.apart(viewer) {
			return p.Name
		}
		if _, exported := p.external(); len(exported) > 0 && len(p.External) > 0 {
			return p.Name + " (" + strings.Join(exported, ", ") + ")"
		}
	}
	return ""
}
