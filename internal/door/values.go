package door

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Export is what is read of an ExportedService. It never changes.
type Export struct {
	// Cluster is the member whose namespace on the hub has the record. RBAC decides who can write there. It is empty if that is no member's
	// namespace. What the record itself says about its origin is ignored.
	Cluster string
	// Key is the exported service. A part that can't be a name is empty.
	Key types.NamespacedName
	// Name is the record's.
	Name string
	UID  types.UID
	// Created is when the record was created on the hub.
	Created time.Time
	// Revision orders the states of the record, in milliseconds (ExportedServiceSpec.RevisionAt).
	Revision int64
	// Withdrawn says that the service isn't exported any more.
	Withdrawn bool

	// Spec can be merged: it is sanitized, with its policy in canonical form. It is nil if the record is withdrawn or can't be used.
	Spec *clustersetv1alpha1.ExportedServiceSpec
	// Text is Spec as JSON, as an imported slice stores it.
	Text string
	// Left is what was left out of the record, with the first error only.
	Left api.LeftOut
	// Size is about how many bytes the value takes, for the quota of its cluster.
	Size int
}

// Endpoints is what is read of an ExportedEndpoints. It never changes.
type Endpoints struct {
	// Cluster, Key and Name are as in Export.
	Cluster string
	Key     types.NamespacedName
	Name    string

	// Usable says that the rest can be imported. Otherwise Left says why not.
	Usable      bool
	AddressType discoveryv1.AddressType
	Ports       []Port
	Endpoints   []Endpoint
	// External says that the addresses are external ones of the Service, and Behind how many ready endpoints are behind them.
	External bool
	Behind   int32
	// Triggered is when the endpoints changed in their own cluster; zero if the record doesn't say.
	Triggered time.Time

	// Left and Size are as in Export.
	Left api.LeftOut
	Size int
}

// Endpoint is an endpoint of an Endpoints.
type Endpoint struct {
	Addr netip.Addr
	// More are its other addresses. Endpoints of Services with a selector have none.
	More []netip.Addr
	// Hostname and Zone are empty if it has none.
	Hostname   string
	Zone       string
	Conditions discoveryv1.EndpointConditions // of ConditionsOf
}

// Addresses are all addresses of the endpoint, the first one first.
func (e *Endpoint) Addresses() []netip.Addr { return append([]netip.Addr{e.Addr}, e.More...) }

func (e *Endpoint) equal(o *Endpoint) bool {
	return e.Addr == o.Addr && e.Hostname == o.Hostname && e.Zone == o.Zone && e.Conditions == o.Conditions && slices.Equal(e.More, o.More)
}

// Port is a port that endpoints listen on.
type Port struct {
	Name        string // may be empty
	AppProtocol string // empty if not stated
	Protocol    corev1.Protocol
	Number      int32
}

// yes and no are what the conditions of all endpoints point at.
var yes, no = true, false

// ConditionsOf returns conditions that can be compared, because they point at what all endpoints share. It must not be changed.
func ConditionsOf(c discoveryv1.EndpointConditions) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: shared(c.Ready), Serving: shared(c.Serving), Terminating: shared(c.Terminating)}
}

func shared(condition *bool) *bool {
	switch {
	case condition == nil:
		return nil
	case *condition:
		return &yes
	default:
		return &no
	}
}

// Ready reports whether the endpoint is ready. One that doesn't say is, as in discovery/v1.
func (e *Endpoint) Ready() bool { return e.Conditions.Ready != &no }

// ID identifies a record among those of its kind.
type ID struct{ Cluster, Name string }

// Compare orders records by cluster and name.
func (i ID) Compare(o ID) int {
	return cmp.Or(cmp.Compare(i.Cluster, o.Cluster), cmp.Compare(i.Name, o.Name))
}

// ID identifies the record.
func (e *Export) ID() ID { return ID{e.Cluster, e.Name} }

// ID identifies the record.
func (e *Endpoints) ID() ID { return ID{e.Cluster, e.Name} }

// Equal reports whether both say the same, so that the older one can stay in the place of the other.
func (e *Export) Equal(o *Export) bool {
	return e.Cluster == o.Cluster && e.Key == o.Key && e.Name == o.Name && e.UID == o.UID && e.Created.Equal(o.Created) &&
		e.Revision == o.Revision && e.Withdrawn == o.Withdrawn && (e.Spec == nil) == (o.Spec == nil) && e.Text == o.Text && sameLeft(e.Left, o.Left)
}

// Equal reports whether both say the same, so that the older one can stay in the place of the other.
func (e *Endpoints) Equal(o *Endpoints) bool {
	return e.Cluster == o.Cluster && e.Key == o.Key && e.Name == o.Name && e.Usable == o.Usable && e.AddressType == o.AddressType &&
		slices.Equal(e.Ports, o.Ports) && e.External == o.External && e.Behind == o.Behind && e.Triggered.Equal(o.Triggered) && sameLeft(e.Left, o.Left) &&
		slices.EqualFunc(e.Endpoints, o.Endpoints, func(a, b Endpoint) bool { return a.equal(&b) })
}

func sameLeft(a, b api.LeftOut) bool {
	return a.Count == b.Count && (a.Count == 0 || a.String() == b.String())
}
