package door

import (
	"encoding/json"
	"net/netip"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
)

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
	e.Spec = &clean.Spec
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
