package exporter

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/record"
	"github.com/clusterset/clusterset/internal/text"
)

// maxExternal is how many external addresses of each family a Service has: enough that some of them answer while a node or two fail, and
// few enough that a record doesn't change with each node of a large cluster.
const maxExternal = 8

// reachability is where clusters of other networks reach a Service.
type reachability struct {
	at      []zonedAddress
	ports   []clustersetv1alpha1.EndpointPort // there
	unknown bool                              // at the moment, whether there are more addresses, or others
	wrong   field.ErrorList
	// outside are addresses that are in none of the cluster's externalCIDRs.
	outside []netip.Addr
	// from says in words where the addresses come from, or why there are none.
	from string
}

// zonedAddress is an external address, and the zone of the node that has it.
type zonedAddress struct {
	netip.Addr
	zone string
}

// externalAddresses returns the external addresses of a Service (D90 to D93 of docs/spec/data-path.md).
func externalAddresses(src *Source) reachability {
	r := firstSource(src)
	if r.unknown {
		r.stay(src.External.Last)
	}
	inside, seen := src.External.inside(), map[netip.Addr]bool{}
	r.at = slices.DeleteFunc(r.at, func(a zonedAddress) bool {
		twice := seen[a.Addr]
		seen[a.Addr] = true
		if !twice && !inside(a.Addr) {
			r.outside = append(r.outside, a.Addr)
		}
		return twice || !inside(a.Addr)
	})
	return r
}

// stay adds the addresses of the last records, unless the ports are others now.
func (r *reachability) stay(last []clustersetv1alpha1.ExportedEndpoints) {
	for i := range last {
		spec := &last[i].Spec
		if !spec.External || r.ports != nil && !equality.Semantic.DeepEqual(r.ports, spec.Ports) {
			continue
		}
		r.ports = spec.Ports
		for _, e := range spec.Endpoints {
			if addr, err := api.ParseAddress(e.Addresses[0]); err == nil {
				r.at = append(r.at, zonedAddress{addr, ptr.Deref(e.Zone, "")})
			}
		}
	}
}

// inside returns whether an address is in the cluster's external networks, as all are if it has none.
func (e *External) inside() func(netip.Addr) bool {
	within := api.Networks(e.CIDRs)
	return func(addr netip.Addr) bool {
		return len(within) == 0 || slices.ContainsFunc(within, func(n netip.Prefix) bool { return n.Contains(addr) })
	}
}

var bothFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}

// familiesOf returns the IP families in which kube-proxy serves a Service, also at external addresses and node ports. A manifest may leave them to
// the API server.
func familiesOf(svc *corev1.Service) []corev1.IPFamily {
	if len(svc.Spec.IPFamilies) == 0 {
		return bothFamilies
	}
	return svc.Spec.IPFamilies
}

func familyOf(addr netip.Addr) corev1.IPFamily {
	if addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// firstSource returns the addresses of the first source that a Service has.
func firstSource(src *Source) (r reachability) {
	if src.External.Kept {
		return reachability{unknown: true}
	}
	r.ports = portsAt(src.Service, false)
	spec, ingress := &src.Service.Spec, src.Service.Status.LoadBalancer.Ingress
	addresses, path, found := listed(*src, api.AnnotationExternalAddresses)
	externalIPs := slices.DeleteFunc(slices.Clone(spec.ExternalIPs), func(s string) bool {
		addr, err := api.ParseAddress(s)
		return err != nil || !slices.Contains(familiesOf(src.Service), familyOf(addr))
	})
	switch balanced := spec.Type == corev1.ServiceTypeLoadBalancer; {
	case found:
		return annotated(src, addresses, path)
	case balanced && len(ingress) > 0:
		r.from = "its load balancer"
		for _, in := range ingress {
			r.add(src, cmp.Or(in.IP, in.Hostname))
		}
	case len(externalIPs) > 0:
		r.from = "its externalIPs"
		for _, ip := range externalIPs {
			r.add(src, ip)
		}
	case hasNodePort(src.Service):
		return atNodes(src)
	case balanced:
		r.from = "its load balancer has no address yet"
	default:
		r.from = "it is of type " + string(cmp.Or(spec.Type, corev1.ServiceTypeClusterIP)) + ", without external addresses"
	}
	return r
}

func hasNodePort(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort > 0 })
}

// annotated returns the addresses that an annotation lists.
func annotated(src *Source, addresses []string, path *field.Path) reachability {
	r, valid := reachability{ports: portsAt(src.Service, false), from: "the annotation " + api.AnnotationExternalAddresses}, 0
	for _, s := range addresses {
		if _, err := api.ParseAddress(s); err != nil && !isName(s) {
			r.wrong = append(r.wrong, field.Invalid(path, text.Truncate(s, 64), "must be IP addresses that other clusters can reach, or DNS names, separated by commas"))
		} else {
			valid++
			if valid > 2*maxExternal { // each name is resolved again and again
				r.wrong = append(r.wrong, field.TooMany(path, valid, 2*maxExternal))
				break
			}
			r.add(src, s)
		}
		if len(r.wrong) == maxExportToErrors {
			break
		}
	}
	return r
}

// add adds an address, or those of a name.
func (r *reachability) add(src *Source, s string) {
	if addr, err := api.ParseAddress(s); err == nil {
		r.at = append(r.at, zonedAddress{Addr: addr})
	} else if isName(s) && src.External.Resolve != nil {
		resolved := src.External.Resolve(s)
		r.unknown = r.unknown || len(resolved) == 0
		for _, addr := range resolved {
			if addr, err := api.ParseAddress(addr.String()); err == nil {
				r.at = append(r.at, zonedAddress{Addr: addr})
			}
		}
	}
}

// isName reports whether s is a DNS name. A last label of digits makes it a mistyped address.
func isName(s string) bool {
	last := s[strings.LastIndexByte(s, '.')+1:]
	return len(validation.IsDNS1123Subdomain(s)) == 0 && strings.Trim(last, "0123456789") != ""
}

// atNodes returns the addresses of all nodes at whose ports the Service is reached: those first that are used. Their order depends on nothing but the
// names of the node and the service, so that a node that goes is replaced by one other, and services use different nodes.
func atNodes(src *Source) reachability {
	r := reachability{ports: portsAt(src.Service, true), from: "the addresses of its cluster's nodes", unknown: src.External.Nodes == nil}
	eligible := slices.DeleteFunc(slices.Clone(src.External.Nodes), func(n nodes.Node) bool { return !n.Ready })
	if src.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		r.from = "the addresses of its cluster's nodes that have a ready pod (externalTrafficPolicy: Local)"
		with := sets.New[string]()
		forReady(src.Slices, func(_ discoveryv1.AddressType, e *discoveryv1.Endpoint) { with.Insert(ptr.Deref(e.NodeName, "")) })
		eligible = slices.DeleteFunc(eligible, func(n nodes.Node) bool { return !with.Has(n.Name) })
	}
	order := func(n nodes.Node) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(src.Key.String() + "/" + n.Name))
		return h.Sum64()
	}
	slices.SortFunc(eligible, func(a, b nodes.Node) int { return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Name, b.Name)) })
	inside := src.External.inside()
	for _, family := range familiesOf(src.Service) {
		for _, n := range eligible {
			all := slices.DeleteFunc(slices.Clone(n.IPs), func(addr netip.Addr) bool { return familyOf(addr) != family })
			if len(all) > 0 {
				r.at = append(r.at, zonedAddress{all[max(slices.IndexFunc(all, inside), 0)], n.At.Zone})
			}
		}
	}
	return r
}

// forReady calls f for each ready endpoint of a cluster's own slices.
func forReady(all []discoveryv1.EndpointSlice, f func(discoveryv1.AddressType, *discoveryv1.Endpoint)) {
	for _, s := range record.Exportable(all) {
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; ptr.Deref(e.Conditions.Ready, true) && len(e.Addresses) > 0 {
				f(s.AddressType, e)
			}
		}
	}
}

// behind counts a Service's ready endpoints: those of the family that has more.
func behind(all []discoveryv1.EndpointSlice) int32 {
	of := map[discoveryv1.AddressType]sets.Set[string]{discoveryv1.AddressTypeIPv4: {}, discoveryv1.AddressTypeIPv6: {}}
	forReady(all, func(family discoveryv1.AddressType, e *discoveryv1.Endpoint) {
		if seen := of[family]; seen != nil { // of a type that we know
			seen.Insert(e.Addresses[0])
		}
	})
	n := max(of[discoveryv1.AddressTypeIPv4].Len(), of[discoveryv1.AddressTypeIPv6].Len())
	return int32(min(n, clustersetv1alpha1.MaxBehind)) //nolint:gosec // at most MaxBehind
}

// externalRecords returns the records of a Service's external addresses, one for each family (D94).
func externalRecords(src *Source, r *reachability) (records []clustersetv1alpha1.ExportedEndpoints) {
	n := behind(src.Slices)
	ready := n > 0
	for _, family := range bothFamilies {
		e := clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: record.Meta(src.Cluster, src.Key, api.ExportedEndpointsName(src.Key.Namespace, src.Key.Name, api.ExternalOrigin(string(family)), 0)),
			Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				ServiceNamespace: src.Key.Namespace, ServiceName: src.Key.Name, AddressType: discoveryv1.AddressType(family), External: true, Behind: n,
				Ports: r.ports,
			},
		}
		for _, a := range r.at {
			if familyOf(a.Addr) != family || len(e.Spec.Endpoints) == maxExternal {
				continue
			}
			at := clustersetv1alpha1.Endpoint{Addresses: []string{a.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
			if a.zone != "" {
				at.Zone = &a.zone
			}
			e.Spec.Endpoints = append(e.Spec.Endpoints, at)
		}
		if len(e.Spec.Endpoints) > 0 && len(e.Spec.Ports) > 0 {
			slices.SortFunc(e.Spec.Endpoints, func(a, b clustersetv1alpha1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
			records = append(records, e)
		}
	}
	return records
}

// portsAt returns the ports of a Service with the numbers that they have at an external address.
func portsAt(svc *corev1.Service, atNode bool) (ports []clustersetv1alpha1.EndpointPort) {
	for _, p := range svc.Spec.Ports {
		n := p.Port
		if atNode {
			n = p.NodePort
		}
		if n > 0 {
			ports = append(ports, clustersetv1alpha1.EndpointPort{
				Name: ptr.To(p.Name), Protocol: ptr.To(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: &n, AppProtocol: p.AppProtocol,
			})
		}
	}
	return ports
}

// why says why clusters of other networks can't reach a Service, and what to do about it; "" if they can.
func (r *reachability) why(svc *corev1.Service) (reason, message string) {
	const cures = "; give the Service the type LoadBalancer or NodePort, or state its addresses in " + api.AnnotationExternalAddresses
	switch {
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		return api.ReasonHeadless, "clusters of other networks don't use it: the pods of a headless Service are reached at their own addresses, which mean nothing there; " +
			"export a Service of type LoadBalancer for each pod, or put the clusters into one network"
	case len(r.at) > 0:
		return "", ""
	case len(r.outside) > 0:
		return api.ReasonNotInExternalCIDRs, fmt.Sprintf("clusters of other networks don't use it: %s, from %s, lies in none of this cluster's external networks; "+
			"an administrator of the hub has to add it to spec.externalCIDRs of the MemberCluster", r.outside[0], r.from)
	case r.unknown:
		return api.ReasonNoExternalAddress, "clusters of other networks can't reach it yet: the name of its external address hasn't been resolved, or the nodes haven't been read"
	}
	return api.ReasonNoExternalAddress, "clusters of other networks can't reach it: it has no external address: " + r.from + cures
}
