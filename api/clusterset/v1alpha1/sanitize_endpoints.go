package v1alpha1

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/internal/sanitize"
)

// Validate returns what is wrong with the record, or nothing if all of it can be imported.
func (e *ExportedEndpoints) Validate() field.ErrorList {
	_, left := e.Sanitized()
	return left.List()
}

// Sanitized returns a copy of the record that can be imported, and what had to be left out. The copy is nil if the record's
// name doesn't match its service, or if the address type is neither IPv4 nor IPv6. Otherwise it leaves out only what is
// invalid: addresses that api.ParseAddress rejects or that are of the other family, endpoints without any other, hostnames and
// zones (but not their endpoints), ports without a number or with an earlier one's name, and what exceeds the limits of package
// api.
//
// A missing protocol is filled in. The copy's own Validate finds nothing. The record itself, which may belong to an informer's
// cache, is not changed; the copy shares none of its memory.
func (e *ExportedEndpoints) Sanitized() (*ExportedEndpoints, api.LeftOut) {
	if errs := e.validateIdentity(); len(errs) > 0 {
		return nil, api.Left(errs...)
	}
	out := e.DeepCopy()
	spec := field.NewPath("spec")
	var left api.LeftOut

	path := spec.Child("endpoints")
	endpoints := sanitize.Limit(out.Spec.Endpoints, api.MaxExportedEndpoints, path, &left)
	kept := endpoints[:0]
	for i := range endpoints {
		endpoint, ok := sanitizeEndpoint(&endpoints[i], corev1.IPFamily(e.Spec.AddressType),
			func(child string) *field.Path { return path.Index(i).Child(child) }, &left)
		if ok {
			kept = append(kept, endpoint)
		}
	}
	out.Spec.Endpoints = kept
	out.Spec.Ports = sanitizeEndpointPorts(out.Spec.Ports, spec.Child("ports"), &left)
	if b := out.Spec.Behind; b < 0 || b > MaxBehind || b > 0 && !out.Spec.External {
		out.Spec.Behind = 0
		left.Add(func() *field.Error {
			return field.Invalid(spec.Child("behind"), b, fmt.Sprintf("must be 0 to %d, and 0 unless external is set", MaxBehind))
		})
	}
	return out, left
}

// MaxBehind is the largest number of endpoints behind an external address.
const MaxBehind = 100_000

// validateIdentity returns what is wrong with the fields without which the record is unusable.
func (e *ExportedEndpoints) validateIdentity() field.ErrorList {
	path := field.NewPath("spec")
	errs := validateServiceRef(e.Spec.ServiceNamespace, e.Spec.ServiceName, path)
	prefix := api.ExportedServiceName(e.Spec.ServiceNamespace, e.Spec.ServiceName) + "."
	if len(errs) == 0 && !strings.HasPrefix(e.Name, prefix) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), sanitize.Printable(e.Name), "must begin with "+prefix))
	}
	switch e.Spec.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
	default:
		errs = append(errs, sanitize.NotSupported(path.Child("addressType"), e.Spec.AddressType, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6))
	}
	return errs
}

// sanitizeEndpoint returns the valid part of an endpoint. ok is false if there is none.
func sanitizeEndpoint(e *Endpoint, family corev1.IPFamily, at sanitize.At, left *api.LeftOut) (Endpoint, bool) {
	out := Endpoint{
		Addresses:  sanitize.Addresses(e.Addresses, family, api.MaxExportedAddresses, at, left),
		Conditions: e.Conditions,
	}
	if len(out.Addresses) == 0 {
		return out, false
	}
	out.Hostname = sanitize.Hostname(e.Hostname, at, left)
	if e.Zone != nil {
		if zone := sanitize.Location(*e.Zone, api.MaxEndpointZone, at, "zone", left); zone != "" {
			out.Zone = &zone
		}
	}
	return out, true
}

func sanitizeEndpointPorts(ports []EndpointPort, path *field.Path, left *api.LeftOut) []EndpointPort {
	ports = sanitize.Limit(ports, api.MaxPorts, path, left)
	set := sanitize.Ports{NumbersRepeat: true, NamesRequired: len(ports) > 1}
	kept := ports[:0]
	for i, p := range ports {
		path := path.Index(i)
		name, protocol := "", corev1.ProtocolTCP
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil && *p.Protocol != "" {
			protocol = *p.Protocol
		}
		if p.Port == nil {
			left.Add(func() *field.Error {
				return field.Required(path.Child("port"), "an exported Service's endpoints listen on a port number")
			})
			continue
		}
		if !set.Keep(name, protocol, *p.Port, path, left) {
			continue
		}
		p.Name, p.Protocol = &name, &protocol
		p.AppProtocol = sanitize.AppProtocol(p.AppProtocol, path.Child("appProtocol"), left)
		kept = append(kept, p)
	}
	return kept
}
