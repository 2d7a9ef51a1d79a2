package index

import (
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/topology"
)

// The functions here read untrusted API objects: objects from a manifests directory pass no API server, and a CRD's schema allows
// values that no DNS name may contain. Invalid fields are left out and reported with their path, and the rest of the object is
// served. A nil object means that nothing of it can be served.

// FromServiceImport reads a ServiceImport (KEP-1645, "ServiceImport"). Version v1alpha1 has the same fields.
func FromServiceImport(o *mcsv1beta1.ServiceImport) (*ServiceImport, field.ErrorList) {
	key, errs := serviceKey(o.Namespace, o.Name, field.NewPath("metadata", "name"))
	switch o.Spec.Type {
	case mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("spec", "type"), o.Spec.Type,
			[]mcsv1beta1.ServiceImportType{mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless}))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	out := &ServiceImport{
		Service: key, Headless: o.Spec.Type == mcsv1beta1.Headless,
		FromImporter: o.Labels[api.LabelManagedBy] == api.ManagedByImporter,
	}
	stated, wrong := policy.FromAnnotations(o.Annotations, field.NewPath("metadata", "annotations"))
	out.Policy = orNone(policy.WithTrafficDistribution(stated, o.Spec.TrafficDistribution))
	if d := o.Spec.TrafficDistribution; d != nil && policy.WithTrafficDistribution(topology.Policy{}, d).IsZero() {
		wrong = append(wrong, field.NotSupported(field.NewPath("spec", "trafficDistribution"), *d, []string{
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode, corev1.ServiceTrafficDistributionPreferClose,
		}))
	}
	ports := portReader{path: field.NewPath("spec", "ports")}
	for i := range o.Spec.Ports {
		p := &o.Spec.Ports[i]
		ports.read(i, p.Name, p.Protocol, p.Port)
	}
	out.Ports, errs = ports.ports, slices.Concat(wrong, ports.errs)
	if out.Headless {
		return out, errs // a Headless import has no IPs; ignore any that it claims
	}
	ips := make([]netip.Addr, 0, len(o.Spec.IPs))
	for i, s := range o.Spec.IPs {
		addr, err := parseAddr(s)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ips").Index(i), s, err.Error()))
			continue
		}
		ips = append(ips, addr)
	}
	out.IPs = SortAddrs(ips)
	return out, errs
}

// FromEndpointSlice reads an EndpointSlice that carries the labels of the Multi-Cluster Services API (KEP-1645, "Endpoint
// TTL and EndpointSlice"). It returns nil and no error for a slice that names no multi-cluster service or holds FQDNs.
func FromEndpointSlice(o *discoveryv1.EndpointSlice) (*EndpointSlice, field.ErrorList) {
	service := o.Labels[mcsv1beta1.LabelServiceName]
	if service == "" || o.AddressType == discoveryv1.AddressTypeFQDN {
		return nil, nil
	}
	key, errs := serviceKey(o.Namespace, service, field.NewPath("metadata", "labels").Key(mcsv1beta1.LabelServiceName))
	cluster := strings.ToLower(o.Labels[mcsv1beta1.LabelSourceCluster])
	if cluster != "" {
		if err := api.CheckClusterName(cluster); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "labels").Key(mcsv1beta1.LabelSourceCluster), cluster, err.Error()))
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	out := &EndpointSlice{Namespace: o.Namespace, Name: o.Name, Service: key, Group: Group{Cluster: intern(cluster)}}
	ports := portReader{path: field.NewPath("ports")}
	for i := range o.Ports {
		p := &o.Ports[i]
		if p.Port == nil {
			continue // "any port" has no number for an SRV record
		}
		ports.read(i, deref(p.Name), deref(p.Protocol), *p.Port)
	}
	out.Ports, errs = ports.ports, ports.errs
	n := 0
	for i := range o.Endpoints {
		n += len(o.Endpoints[i].Addresses)
	}
	out.Endpoints = make([]Endpoint, 0, n)
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		out.Endpoints = appendEndpoints(out.Endpoints, e.Addresses, deref(e.Hostname), deref(e.Zone), ready,
			field.NewPath("endpoints").Index(i), &errs)
	}
	return out, errs
}

// FromGlobalService reads a GlobalService written by FabDNS or by the importer. Sanitized validates it, so nothing is checked
// again here.
func FromGlobalService(o *fabedgev1alpha1.GlobalService) (*GlobalService, field.ErrorList) {
	o, errs := o.Sanitized()
	if o == nil {
		return nil, errs
	}
	stated, wrong := policy.FromAnnotations(o.Annotations, field.NewPath("metadata", "annotations"))
	errs = append(errs, wrong...)
	out := &GlobalService{
		Service:  NewServiceKey(o.Namespace, o.Name),
		Headless: o.Spec.Type == fabedgev1alpha1.Headless,
		Policy:   orNone(stated),
	}
	for _, p := range o.Spec.Ports {
		out.Ports = append(out.Ports, Port{intern(p.Name), uint16(p.Port), protocols[p.Protocol]}) //nolint:gosec // a port number
	}
	for i := range o.Spec.Endpoints {
		e := &o.Spec.Endpoints[i]
		group := out.group(e, endpointPorts(e, out.Ports))
		for _, s := range e.Addresses {
			addr, _ := netip.ParseAddr(s)
			group.Endpoints = append(group.Endpoints, Endpoint{Addr: addr, Hostname: deref(e.Hostname), Zone: intern(e.Zone), Ready: e.IsReady()})
		}
	}
	for i := range out.Groups {
		out.Groups[i].Endpoints = slices.Clip(out.Groups[i].Endpoints)
	}
	return out, errs
}

// endpointPorts returns the ports an endpoint listens on: its own if it lists any, even if none is usable, or else the service's.
func endpointPorts(e *fabedgev1alpha1.Endpoint, service []Port) []Port {
	if e.Ports == nil {
		return service
	}
	var ports []Port
	for _, p := range e.Ports {
		ports = append(ports, Port{intern(p.Name), uint16(p.Port), protocols[p.Protocol]}) //nolint:gosec // a port number
	}
	return ports
}

// group returns the group for an endpoint with that cluster, region and ports. All known writers sort endpoints by cluster, so it
// is nearly always the last group.
func (g *GlobalService) group(e *fabedgev1alpha1.Endpoint, ports []Port) *Group {
	for i := len(g.Groups) - 1; i >= 0; i-- {
		if c := &g.Groups[i]; c.Cluster == e.Cluster && c.Region == e.Region && slices.Equal(c.Ports, ports) {
			return c
		}
	}
	g.Groups = append(g.Groups, Group{Cluster: intern(e.Cluster), Region: intern(e.Region), Ports: ports})
	return &g.Groups[len(g.Groups)-1]
}

// FromMemberCluster reads a MemberCluster: a cluster's location, its phase, and whether it is drained. An unknown phase counts as
// Ready, so that a newer hub can't remove a cluster's names by introducing a phase.
func FromMemberCluster(o *clustersetv1alpha1.MemberCluster) (*Cluster, field.ErrorList) {
	if name := strings.ToLower(o.Name); name != o.Name {
		lower := *o
		lower.Name, o = name, &lower
	}
	o, errs := o.Sanitized()
	if api.CheckClusterName(o.Name) != nil {
		return nil, errs
	}
	out := &Cluster{Name: intern(o.Name), Member: topology.Member{Region: intern(o.Spec.Region), Drain: o.Spec.Drain}}
	for _, zone := range o.AllZones() {
		out.Zones = append(out.Zones, intern(zone))
	}
	switch o.Status.Phase {
	case clustersetv1alpha1.MemberExpired:
		out.Phase = topology.Expired
	case clustersetv1alpha1.MemberSuspect:
		out.Phase = topology.Suspect
	}
	if w := o.Spec.Weight; w != nil {
		out.Weight = uint8(*w % clustersetv1alpha1.DefaultWeight) //nolint:gosec // sanitized
	}
	return out, errs
}

// FromReachability reads a Reachability: which clusters can't be reached. Whoever reads it has to tell how old it is.
func FromReachability(o *clustersetv1alpha1.Reachability) (*Reachability, field.ErrorList) {
	if o.Name != clustersetv1alpha1.ReachabilityName {
		return nil, field.ErrorList{field.NotSupported(field.NewPath("metadata", "name"), o.Name, []string{clustersetv1alpha1.ReachabilityName})}
	}
	out := &Reachability{}
	for i := range o.Clusters {
		if c := &o.Clusters[i]; c.Reachable == metav1.ConditionFalse {
			out.Unreachable = append(out.Unreachable, intern(strings.ToLower(c.Name)))
		}
	}
	slices.Sort(out.Unreachable)
	out.Unreachable = slices.Compact(out.Unreachable)
	return out, nil
}

// orNone returns nil for a policy that states nothing, which is the usual case.
func orNone(p topology.Policy) *topology.Policy {
	if p.IsZero() {
		return nil
	}
	return &p
}

func serviceKey(namespace, name string, namePath *field.Path) (ServiceKey, field.ErrorList) {
	var errs field.ErrorList
	if err := api.CheckLabel(name); err != nil {
		errs = append(errs, field.Invalid(namePath, name, err.Error()))
	}
	if err := api.CheckLabel(namespace); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), namespace, err.Error()))
	}
	return NewServiceKey(namespace, name), errs
}

// appendEndpoints adds one Endpoint for each address.
func appendEndpoints(to []Endpoint, addresses []string, hostname, zone string, ready bool, path *field.Path, errs *field.ErrorList) []Endpoint {
	hostname = strings.ToLower(hostname)
	if hostname != "" {
		if err := api.CheckLabel(hostname); err != nil {
			*errs = append(*errs, field.Invalid(path.Child("hostname"), hostname, err.Error()))
			hostname = "" // its addresses are still served, under names derived from them
		}
	}
	if err := api.CheckLocation(zone); err != nil {
		*errs = append(*errs, field.Invalid(path.Child("zone"), zone, err.Error()))
		zone = "" // unknown, which matches no zone
	}
	for i, s := range addresses {
		addr, err := parseAddr(s)
		if err != nil {
			*errs = append(*errs, field.Invalid(path.Child("addresses").Index(i), s, err.Error()))
			continue
		}
		to = append(to, Endpoint{Addr: addr, Hostname: hostname, Zone: intern(zone), Ready: ready})
	}
	return to
}

// parseAddr parses an address that is usable in an A or AAAA record.
func parseAddr(s string) (netip.Addr, error) {
	addr, err := api.ParseAddress(s)
	if err != nil {
		return netip.Addr{}, err
	}
	return addr.Unmap(), nil
}

// protocols are those of the API. The default is TCP.
var protocols = map[corev1.Protocol]Protocol{"": TCP, corev1.ProtocolTCP: TCP, corev1.ProtocolUDP: UDP, corev1.ProtocolSCTP: SCTP}

// portReader collects the ports of an object.
type portReader struct {
	path  *field.Path
	ports []Port
	errs  field.ErrorList
}

func (r *portReader) read(i int, name string, protocol corev1.Protocol, number int32) {
	name = strings.ToLower(name)
	if number < 1 || number > 65535 {
		r.errs = append(r.errs, field.Invalid(r.path.Index(i).Child("port"), number, "must be from 1 to 65535"))
		return
	}
	if name != "" {
		if err := api.CheckLabel(name); err != nil {
			r.errs = append(r.errs, field.Invalid(r.path.Index(i).Child("name"), name, err.Error()))
			return
		}
	}
	known, ok := protocols[protocol]
	if !ok {
		r.errs = append(r.errs, field.NotSupported(r.path.Index(i).Child("protocol"), protocol,
			[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}))
		return
	}
	p := Port{Name: intern(name), Number: uint16(number), Protocol: known}
	if slices.Contains(r.ports, p) {
		return
	}
	r.ports = append(r.ports, p)
}

// intern returns the shared copy of a string that occurs in thousands of objects: clusters, zones, regions, port names.
func intern(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
