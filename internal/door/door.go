// Package door is where what other clusters wrote comes in. It bounds and sanitizes each record of the hub once, and keeps what the merge and
// the imported objects need of it in small values that never change: a pointer to one is a version.
package door

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
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

const (
	// perRecord is about what a value takes besides what is in it, with its place in the store.
	perRecord = 512
	// perEndpoint and perPort are what an endpoint and a port of a value take besides their strings, and perAddress what an endpoint's further
	// address does.
	perEndpoint, perPort, perAddress = 88, 56, 24
	// perPiece is about what an endpoint takes in one more EndpointSlice that it is in for the sake of another port (D25).
	perPiece = 32
)

// size returns about how many bytes the value takes. Its spec takes about as much as its text.
func (e *Export) size() int { return perRecord + len(e.Name) + 2*len(e.Text) }

// size returns about how many bytes the value takes, with what it causes in the cluster's objects.
func (e *Endpoints) size() int {
	size := perRecord + len(e.Name) + perPort*len(e.Ports) + (perEndpoint+perPiece*max(0, min(len(e.Ports), api.MaxPieces)-1))*len(e.Endpoints)
	for i := range e.Ports {
		size += len(e.Ports[i].Name) + len(e.Ports[i].AppProtocol)
	}
	for i := range e.Endpoints {
		size += len(e.Endpoints[i].Hostname) + perAddress*len(e.Endpoints[i].More)
	}
	return size
}

// CompactService returns what is read of an ExportedService at a time, by the reader's clock. The record isn't changed. The result is nil only
// if the record is.
func CompactService(record *clustersetv1alpha1.ExportedService, now time.Time) *Export {
	if record == nil {
		return nil
	}
	e := &Export{
		Key: keyOf(record.Spec.ServiceNamespace, record.Spec.ServiceName), Name: record.Name, UID: record.UID,
		Created: record.CreationTimestamp.Time, Revision: record.Spec.RevisionAt(now), Withdrawn: record.Spec.Withdrawn,
	}
	cluster, member := record.SourceCluster()
	e.Cluster = cluster
	switch {
	case !member:
		e.Left = stray(record.Namespace)
	case !e.Withdrawn:
		e.Left = e.read(record).First()
	}
	e.Size = e.size()
	return e
}

// read sets what can be merged, and returns what is left out.
func (e *Export) read(record *clustersetv1alpha1.ExportedService) api.LeftOut {
	clean, left := record.Sanitized()
	if clean == nil {
		return left
	}
	stated, wrong := policy.FromExport(clean.Spec.Policy, field.NewPath("spec", "policy"))
	clean.Spec.Policy, clean.Spec.Revision = policy.Export(stated), e.Revision
	left.Append(api.Left(wrong...))
	spec := clean.Spec // without the rest of the record, which would stay in memory
	e.Spec = &spec
	if text, err := json.Marshal(e.Spec); err == nil { // it consists of strings and numbers
		e.Text = string(text)
	}
	return left
}

// CompactEndpoints returns what is read of an ExportedEndpoints. The record isn't changed.
func CompactEndpoints(record *clustersetv1alpha1.ExportedEndpoints) *Endpoints {
	e := &Endpoints{Key: keyOf(record.Spec.ServiceNamespace, record.Spec.ServiceName), Name: record.Name}
	cluster, member := record.SourceCluster()
	e.Cluster = cluster
	if member {
		e.Left = e.read(record).First()
	} else {
		e.Left = stray(record.Namespace)
	}
	e.Size = e.size()
	return e
}

// read sets what can be imported, and returns what is left out.
func (e *Endpoints) read(record *clustersetv1alpha1.ExportedEndpoints) api.LeftOut {
	clean, left := record.Sanitized()
	if clean == nil {
		return left
	}
	s := &clean.Spec
	e.Usable, e.AddressType, e.External, e.Behind = true, s.AddressType, s.External, s.Behind
	if at, stated := api.TriggerTime(record.Annotations); stated {
		e.Triggered = at.UTC()
	}
	e.Ports, e.Endpoints = make([]Port, len(s.Ports)), make([]Endpoint, len(s.Endpoints))
	for i, p := range s.Ports {
		e.Ports[i] = Port{Name: *p.Name, Protocol: *p.Protocol, Number: *p.Port}
		if p.AppProtocol != nil {
			e.Ports[i].AppProtocol = *p.AppProtocol
		}
	}
	for i := range s.Endpoints {
		e.Endpoints[i] = endpointOf(&s.Endpoints[i])
	}
	return left
}

// endpointOf returns a sanitized endpoint, which has an address.
func endpointOf(s *clustersetv1alpha1.Endpoint) Endpoint {
	e := Endpoint{Conditions: ConditionsOf(s.Conditions)}
	for i, text := range s.Addresses {
		addr, _ := netip.ParseAddr(text) // it has been parsed before
		if i == 0 {
			e.Addr = addr
		} else {
			e.More = append(e.More, addr)
		}
	}
	if s.Hostname != nil {
		e.Hostname = *s.Hostname
	}
	if s.Zone != nil {
		e.Zone = unique.Make(*s.Zone).Value() // few are shared by many endpoints
	}
	return e
}

// keyOf returns the service that a record is of. What can't be a name is left out: a record of no service is found, and reported, nowhere.
func keyOf(namespace, name string) types.NamespacedName {
	if api.CheckLabel(namespace) != nil {
		namespace = ""
	}
	if api.CheckLabel(name) != nil {
		name = ""
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func stray(namespace string) api.LeftOut {
	return api.Left(field.Invalid(field.NewPath("metadata", "namespace"), namespace, "must be a member's namespace, "+api.MemberNamespace("<cluster>")))
}
