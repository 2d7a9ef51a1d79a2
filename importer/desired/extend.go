package desired

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// Extended is a Service of this cluster that asks for endpoints of other clusters by api.KeyExtend.
type Extended struct {
	Service *corev1.Service
	// Allowed says that the agent may extend Services of its namespace, and Excluded that it imports nothing into it.
	Allowed, Excluded bool
}

// AsksToBeExtended reports whether a Service has the annotation, with another value than false.
func AsksToBeExtended(svc *corev1.Service) bool {
	value := svc.Annotations[api.KeyExtend]
	return value != "" && value != "false"
}

// MayExtend reports whether the agent may extend a Service of a namespace with these labels (D62).
func MayExtend(namespace, service string, labels map[string]string, everywhere bool) bool {
	return !protected(namespace, service) && (everywhere || labels[api.KeyExtend] == api.ExtendAllowed)
}

// protected reports whether a Service is Kubernetes' own.
func protected(namespace, service string) bool {
	return strings.HasPrefix(namespace, "kube-") || namespace == "default" && service == "kubernetes"
}

// Refused returns why a Service can't be extended at all, whatever other clusters export, and what to do about it; "" if it can.
func (e *Extended) Refused() string {
	if e == nil {
		return ""
	}
	svc := e.Service
	switch value := svc.Annotations[api.KeyExtend]; {
	case value != api.ExtendTrue:
		return fmt.Sprintf("the annotation %s is %q; it must be %q", api.KeyExtend, value, api.ExtendTrue)
	case strings.HasPrefix(svc.Namespace, "kube-"):
		return "Services of the namespaces kube-… aren't extended"
	case !e.Allowed:
		return fmt.Sprintf("the namespace isn't open for it; as an administrator, run kubectl label namespace %s %s=%s", svc.Namespace, api.KeyExtend, api.ExtendAllowed)
	case e.Excluded:
		return "the agent imports nothing into this namespace; its flags --import-namespaces and --exclude-namespaces say so"
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return "a Service of type ExternalName has no endpoints; give it a selector, or let its clients use the name in clusterset.local"
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		return "a headless Service has no address that could lead elsewhere; remove clusterIP: None, or let its clients use the name in clusterset.local"
	case len(svc.Spec.Selector) == 0:
		return "a Service without a selector has endpoints that something else writes; give it a selector, or let its clients use the name in clusterset.local"
	}
	return ""
}

// extending returns the slices that extend this cluster's own Service (D60 to D69), and why there are none, or why they aren't used as the
// service's policy wants. here is the state of the Service's own endpoints, routed are the records that kube-proxy may use.
func (w *work) extending(here *Own, routed []*record) (all []*discoveryv1.EndpointSlice, why string) {
	e := w.in.Extended
	if why = e.Refused(); why != "" || e == nil {
		return nil, why
	}
	if !slices.ContainsFunc(w.resolved.Clusters, w.elsewhere) {
		return nil, "no other cluster exports the service; export it there"
	}
	if !w.hasVIP() {
		return nil, "other clusters' endpoints can't be used behind an address here: the service is exported as a headless one or without a usable port, or the agent runs with --data-path=none"
	}
	x := &extension{work: w, svc: e.Service, here: here}
	x.shares, why = SharesTraffic(e.Service, w.policy(), w.in.DataPath)
	parts := map[*record]map[string]*part{}
	common := false
	for _, port := range e.Service.Spec.Ports {
		merged := w.counterpart(port)
		if merged == nil || !slices.ContainsFunc(merged.Clusters, w.elsewhere) {
			continue
		}
		common = true
		for _, family := range e.Service.Spec.IPFamilies {
			x.add(parts, routed, port, merged.Name, discoveryv1.AddressType(family))
		}
	}
	if !common {
		return nil, "no other cluster exports one of its ports; they must have the same name and protocol, or without a name the same number"
	}
	for r, of := range parts {
		for i, key := range slices.Sorted(maps.Keys(of)) {
			all = append(all, x.slice(r, of[key], i))
		}
	}
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all, why
}

func (w *work) elsewhere(cluster string) bool { return cluster != w.in.Cluster }

// SharesTraffic reports whether some endpoints of other clusters are to be used while the Service has ready ones of its own, and why not
// although the policy asks for that (D64).
func SharesTraffic(svc *corev1.Service, p topology.Policy, path DataPath) (shares bool, why string) {
	asks := p.Prefer != nil && len(p.Prefer) == 0
	policy := api.AnnotationPrefer + ": " + topology.None
	if p.MinReady > 1 {
		asks, policy = true, fmt.Sprintf("%s: %d", api.AnnotationMinReady, p.MinReady)
	}
	distributed := svc.Spec.TrafficDistribution != nil
	for _, key := range []string{corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints} {
		distributed = distributed || strings.EqualFold(svc.Annotations[key], "Auto")
	}
	const only = "its own endpoints are used alone while one is ready: %s has no effect, because "
	switch {
	case !asks:
		return false, ""
	case path == DataPathClusterIPs:
		return false, fmt.Sprintf(only+"behind another cluster's ClusterIP (--data-path=clusterips) connections could come back", policy)
	case distributed:
		return false, fmt.Sprintf(only+"endpoints of other clusters would void the hints of the Service's trafficDistribution; remove one of the two", policy)
	}
	return true, ""
}

// counterpart returns the merged port that a port of the own Service stands for, or nil (D63).
func (w *work) counterpart(port corev1.ServicePort) *merge.Port {
	protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
	for i := range w.resolved.Ports {
		p := &w.resolved.Ports[i]
		unnamed := port.Name == "" || p.ExportedName == ""
		if p.Protocol == protocol && (!unnamed && p.ExportedName == port.Name || unnamed && p.Port == port.Port) {
			return p
		}
	}
	return nil
}

// extension is the state of extending one Service.
type extension struct {
	*work
	svc    *corev1.Service
	here   *Own
	shares bool
}

// part is what of a record's slice some ports of the Service use: the same endpoints in the same way.
type part struct {
	ports []discoveryv1.EndpointPort
	used  []bool
	ready bool // else they are of last resort
}

// add adds what one port of the Service uses in one family.
func (x *extension) add(parts map[*record]map[string]*part, routed []*record, port corev1.ServicePort, merged string, family discoveryv1.AddressType) {
	have, policy := x.ownReady(port, family), x.policy()
	shares := x.shares && (policy.MinReady <= 1 || have < policy.MinReady)
	var among []*record
	for _, r := range routed {
		if r.family == family && r.cluster.name != x.in.Cluster && r.port(merged, port.Protocol) != nil && r.mayLead() {
			among = append(among, r)
		}
	}
	shared := func(t *target) bool { return shares && t.mayShare() }
	// Those of last resort are for a cluster without endpoints of its own, and don't count where others are ready ones.
	last := map[bool][]topology.Rank{false: x.last(among, 0, nil), true: x.last(among, have, shared)}
	for _, r := range among {
		for _, ready := range []bool{false, true} {
			uses := routeBest(r.targets, last[ready])
			used := make([]bool, len(r.targets))
			for i := range r.targets {
				t := &r.targets[i]
				used[i] = uses[i].routed && t.ready && shared(t) == ready
			}
			if !slices.Contains(used, true) {
				continue
			}
			key := fmt.Sprint(ready, used)
			if parts[r] == nil {
				parts[r] = map[string]*part{}
			}
			if parts[r][key] == nil {
				parts[r][key] = &part{used: used, ready: ready}
			}
			theirs := r.port(merged, port.Protocol)
			parts[r][key].ports = append(parts[r][key].ports, discoveryv1.EndpointPort{
				Name: ptr.To(port.Name), Protocol: theirs.Protocol, Port: theirs.Port, AppProtocol: theirs.AppProtocol,
			})
		}
	}
}

// mayLead reports whether a record's endpoints may be used by an extended Service. ClusterIPs and external addresses lead to another cluster's
// Service, which may be extended too and lead back. So it must have ready endpoints of its own, in a cluster of which nothing bad is known (D66).
func (r *record) mayLead() bool {
	spare := func(t target) bool { return t.Spare }
	return !r.leadsToService() || r.behind > 0 && r.cluster.member.Ailment() == "" && !slices.ContainsFunc(r.targets, spare)
}

// mayShare reports whether an endpoint may be used besides this cluster's own. One that is a Service may not, or two Services could send to each
// other what both could serve (D85); nor may one that is used only if no other is left (D65).
func (t *target) mayShare() bool { return !t.ClusterIP && !t.Spare && t.Member.Ailment() == "" }

// port returns the record's port with that name of the merged service, or nil.
func (r *record) port(name string, protocol corev1.Protocol) *discoveryv1.EndpointPort {
	for i := range r.ports {
		if p := &r.ports[i]; *p.Name == name && *p.Protocol == cmp.Or(protocol, corev1.ProtocolTCP) {
			return p
		}
	}
	return nil
}

// ownReady counts the Service's own ready endpoints of a port.
func (x *extension) ownReady(port corev1.ServicePort, family discoveryv1.AddressType) int {
	if x.here == nil {
		return 0
	}
	ready := map[netip.Addr]bool{}
	for _, e := range x.here.Endpoints {
		has := slices.ContainsFunc(e.Ports, func(p door.Port) bool {
			return p.Name == port.Name && p.Protocol == cmp.Or(port.Protocol, corev1.ProtocolTCP)
		})
		if !has || e.AddressType != family {
			continue
		}
		for i := range e.Endpoints {
			if e.Endpoints[i].Ready() {
				ready[e.Endpoints[i].Addr] = true
			}
		}
	}
	return len(ready)
}

// slice returns the nth slice of a record's endpoints.
func (x *extension) slice(r *record, p *part, n int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: x.extendingMeta(r.slice, r.cluster.name), AddressType: r.family, Ports: p.ports, Endpoints: []discoveryv1.Endpoint{},
	}
	if n > 0 {
		s.Name = fmt.Sprintf("%s.ports%d", s.Name, n+1)
	}
	conditions := discoveryv1.EndpointConditions{Ready: ptr.To(true)}
	if !p.ready {
		// Of last resort: kube-proxy uses such endpoints only while a Service has no ready one (KEP-1669), whatever the agent does.
		conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
	}
	for i, e := range r.endpoints {
		if p.used[i] {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses, Zone: e.Zone, Conditions: conditions})
		}
	}
	return s
}

// extendingMeta returns the metadata of the slice behind the service's own name that has the endpoints of one that is imported (D67).
func (w *work) extendingMeta(imported, cluster string) metav1.ObjectMeta {
	m := w.objectMeta(api.ExtendingSlicePrefix + strings.TrimPrefix(imported, api.ImportedSlicePrefix))
	m.Labels[api.LabelExtends] = w.in.Key.Name
	m.Labels[api.LabelKubernetesServiceName] = w.in.Key.Name
	m.Labels[api.LabelEndpointSliceManagedBy] = api.EndpointSliceManagedBy
	m.Labels[api.LabelSourceCluster] = cluster
	return m
}

// MayName reports whether the importer may make a Service of that name in a namespace with these labels (D70).
func MayName(namespace, service string, labels map[string]string) bool {
	return !protected(namespace, service) && labels[api.KeyOwnNames] == api.OwnNamesCreate
}

// named returns the Service under the service's own name, or nil if none is to be made.
func (w *work) named() *corev1.Service {
	if !w.in.Names || !w.hasVIP() || !slices.ContainsFunc(w.resolved.Clusters, w.elsewhere) {
		return nil
	}
	svc := w.service(w.in.Key.Name, w.in.Named)
	svc.Labels[api.LabelExtends] = svc.Name
	return svc
}

// behindNamed returns the slices behind that Service: copies of those behind the ClusterSetIP, so that it leads to the same endpoints by the
// same hints.
func (w *work) behindNamed(imported []*discoveryv1.EndpointSlice) (all []*discoveryv1.EndpointSlice) {
	for _, s := range imported {
		if s.Labels[api.LabelKubernetesServiceName] == api.DerivedServiceName(w.in.Key.Namespace, w.in.Key.Name) {
			all = append(all, &discoveryv1.EndpointSlice{
				ObjectMeta:  w.extendingMeta(s.Name, s.Labels[api.LabelSourceCluster]),
				AddressType: s.AddressType, Ports: s.Ports, Endpoints: s.Endpoints,
			})
		}
	}
	return all
}

// Named reports whether the importer made a Service under the service's own name.
func Named(svc *corev1.Service) bool { return Owned(svc) && svc.Labels[api.LabelExtends] == svc.Name }

// Taken reports whether somebody made such a Service his own (D71). The importer itself never applies, so whoever has applied a spec wants that one.
func Taken(svc *corev1.Service) bool {
	_, applied := svc.Annotations[corev1.LastAppliedConfigAnnotation]
	return Named(svc) && (applied || len(svc.Spec.Selector) > 0 || svc.Spec.Type != corev1.ServiceTypeClusterIP ||
		slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(m.FieldsV1.GetRawString(), `"f:spec"`)
		}))
}

// Left returns a taken Service without what the importer wrote on it. The spec is its owner's now.
func Left(svc *corev1.Service) *corev1.Service {
	left := svc.DeepCopy()
	delete(left.Labels, api.LabelManagedBy)
	delete(left.Labels, api.LabelExtends)
	delete(left.Annotations, corev1.AnnotationTopologyMode)
	return left
}
