package index

import (
	"net/netip"
	"slices"
	"strings"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
)

// ServiceKey identifies a service as DNS does: "<name>.<namespace>". Neither part contains a dot, so the key is a
// substring of the query name, and a lookup needs to build no string.
type ServiceKey string

// NewServiceKey returns the key of the service of that namespace and name.
func NewServiceKey(namespace, name string) ServiceKey { return ServiceKey(name + "." + namespace) }

// Name returns the service's name.
func (k ServiceKey) Name() string {
	name, _, _ := strings.Cut(string(k), ".")
	return name
}

// Namespace returns the service's namespace.
func (k ServiceKey) Namespace() string {
	_, namespace, _ := strings.Cut(string(k), ".")
	return namespace
}

// Protocol is a transport protocol of a port.
type Protocol uint8

// The protocols that Kubernetes knows.
const (
	TCP Protocol = iota
	UDP
	SCTP
)

var protocolNames = [...]string{TCP: "tcp", UDP: "udp", SCTP: "sctp"}

// String returns the protocol as an SRV name writes it, without the underscore.
func (p Protocol) String() string { return protocolNames[p] }

// Port is a port of a service or an endpoint. Name is empty for an unnamed port, which has no SRV record.
type Port struct {
	Name     string
	Number   uint16
	Protocol Protocol
}

// Kind is the kind of an object that an Index holds.
type Kind uint8

// The kinds, in the order in which counts and metrics list them.
const (
	KindServiceImport Kind = iota
	KindEndpointSlice
	KindGlobalService
	KindMemberCluster
	KindReachability
	kinds
)

// Kinds lists every kind.
var Kinds = [...]Kind{KindServiceImport, KindEndpointSlice, KindGlobalService, KindMemberCluster, KindReachability}

var kindNames = [...]string{"ServiceImport", "EndpointSlice", "GlobalService", "MemberCluster", "Reachability"}

// String returns the kind as the API spells it.
func (k Kind) String() string { return kindNames[k] }

// ObjectID identifies an object within its kind. Namespace is empty for cluster-scoped objects.
type ObjectID struct{ Namespace, Name string }

// Object is one of *ServiceImport, *EndpointSlice, *GlobalService and *Cluster. Once given to an Index it must not change.
type Object interface {
	// Kind returns the kind of the object.
	Kind() Kind
	// ID identifies the object within its kind.
	ID() ObjectID
}

// ServiceImport is what DNS needs of a multicluster.x-k8s.io ServiceImport.
type ServiceImport struct {
	Service  ServiceKey
	Headless bool
	Ports    []Port
	// IPs are the ClusterSetIPs, at most one of each family, IPv4 first.
	IPs Addrs
	// FromImporter is set if clusterset's importer wrote the import. The importer adds IPs as soon as there are any.
	FromImporter bool
	// Policy is what the object states of how endpoints are chosen, nil for nothing: then the server's own holds.
	Policy *topology.Policy
}

// EndpointSlice is what DNS needs of a discovery.k8s.io EndpointSlice that carries the MCS labels.
type EndpointSlice struct {
	Namespace, Name string
	Service         ServiceKey
	Group
}

// Group is a group of endpoints of one cluster that have the same ports.
type Group struct {
	// Cluster is empty if the object doesn't name it. Such endpoints have no host names.
	Cluster string
	// Region is the endpoints' own region, empty for the cluster's.
	Region    string
	Ports     []Port
	Endpoints []Endpoint
}

// Endpoint is one address of a Group.
type Endpoint struct {
	Addr netip.Addr
	// Hostname is the first label of the endpoint's name. If it is empty, HostnameOf(Addr) is used.
	Hostname string
	// Zone is the endpoint's own zone, empty for the cluster's.
	Zone  string
	Ready bool
}

// GlobalService is what DNS needs of a dns.fabedge.io GlobalService.
type GlobalService struct {
	Service  ServiceKey
	Headless bool
	Ports    []Port
	Groups   []Group
	// Policy is what the object states of how endpoints are chosen, nil for nothing: then the server's own holds.
	Policy *topology.Policy
}

// Cluster is what DNS needs of a clusterset.dev MemberCluster.
type Cluster struct {
	Name string
	topology.Member
	// Weight is the cluster's share relative to other clusters, from 1 to 99. 0 means the default, 100.
	Weight uint8
}

// Reachability is what DNS needs of a clusterset.dev Reachability.
type Reachability struct {
	// Unreachable are the names of the clusters that the server's own can't reach, sorted.
	Unreachable []string
}

// Kind implements Object.
func (*ServiceImport) Kind() Kind { return KindServiceImport }

// Kind implements Object.
func (*EndpointSlice) Kind() Kind { return KindEndpointSlice }

// Kind implements Object.
func (*GlobalService) Kind() Kind { return KindGlobalService }

// Kind implements Object.
func (*Cluster) Kind() Kind { return KindMemberCluster }

// Kind implements Object.
func (*Reachability) Kind() Kind { return KindReachability }

// ID implements Object.
func (o *ServiceImport) ID() ObjectID { return ObjectID{o.Service.Namespace(), o.Service.Name()} }

// ID implements Object.
func (o *EndpointSlice) ID() ObjectID { return ObjectID{o.Namespace, o.Name} }

// ID implements Object.
func (o *GlobalService) ID() ObjectID { return ObjectID{o.Service.Namespace(), o.Service.Name()} }

// ID implements Object.
func (o *Cluster) ID() ObjectID { return ObjectID{Name: o.Name} }

// ID implements Object.
func (*Reachability) ID() ObjectID { return ObjectID{Name: clustersetv1alpha1.ReachabilityName} }

// The equal methods report whether the object held equals another. The object held may be nil.

func (o *ServiceImport) equal(p *ServiceImport) bool {
	return o != nil && o.Service == p.Service && o.Headless == p.Headless && slices.Equal(o.Ports, p.Ports) && slices.Equal(o.IPs, p.IPs) &&
		o.FromImporter == p.FromImporter && samePolicy(o.Policy, p.Policy)
}

func (o *EndpointSlice) equal(p *EndpointSlice) bool {
	return o != nil && o.Namespace == p.Namespace && o.Name == p.Name && o.Service == p.Service && o.Group.equal(p.Group)
}

func (o *GlobalService) equal(p *GlobalService) bool {
	return o != nil && o.Service == p.Service && o.Headless == p.Headless && slices.Equal(o.Ports, p.Ports) && slices.EqualFunc(o.Groups, p.Groups, Group.equal) &&
		samePolicy(o.Policy, p.Policy)
}

func (o *Cluster) equal(p *Cluster) bool {
	return o != nil && o.Name == p.Name && o.Member.Equal(p.Member) && o.Weight == p.Weight
}

func (o *Reachability) equal(p *Reachability) bool {
	return o != nil && slices.Equal(o.Unreachable, p.Unreachable)
}

// has reports whether a cluster can't be reached. A nil Reachability knows of none.
func (o *Reachability) has(cluster string) bool {
	if o == nil {
		return false
	}
	_, found := slices.BinarySearch(o.Unreachable, cluster)
	return found
}

func samePolicy(p, q *topology.Policy) bool {
	return p == q || p != nil && q != nil && p.Equal(*q)
}

func (g Group) equal(h Group) bool {
	return g.Cluster == h.Cluster && g.Region == h.Region && slices.Equal(g.Ports, h.Ports) && slices.Equal(g.Endpoints, h.Endpoints)
}
