package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/internal/sanitize"
)

// Validate returns what is wrong with the object, or nothing if all of it can be served. It finds more than the schema does:
// FabDNS's is lax, and files in a directory have passed no API server.
func (g *GlobalService) Validate() field.ErrorList {
	_, errs := g.Sanitized()
	return errs
}

// Sanitized returns a copy of the object that can be served, and what had to be left out. The copy is nil if nothing can be
// served: the object's name isn't a DNS label, or its type is unknown. Otherwise it leaves out only what is invalid:
//
//   - ports with an invalid number, name or protocol, or with the name or the (protocol, port) of an earlier one;
//   - addresses that api.ParseAddress rejects, and endpoints without any other;
//   - endpoints with an invalid cluster name, because nobody could tell whose health affects them;
//   - invalid hostnames, zones and regions, but not their endpoints: without a hostname the address is used instead, and an
//     unknown location matches nothing;
//   - what exceeds the limits of package api, from the end.
//
// Equivalent values are made equal: a missing type or protocol is filled in, cluster, hostname and port names are lower-cased
// (RFC 4343), addresses are in canonical form and occur once.
//
// The copy's own Validate finds nothing. The object itself, which may belong to an informer's cache, is not changed. The copy
// shares memory with it, so neither may be changed afterwards.
func (g *GlobalService) Sanitized() (*GlobalService, field.ErrorList) {
	if errs := g.validateIdentity(); len(errs) > 0 {
		return nil, errs
	}
	out := *g
	spec := field.NewPath("spec")
	var left api.LeftOut
	if out.Spec.Type == "" {
		out.Spec.Type = ClusterIP
	}
	out.Spec.Ports = sanitizePorts(g.Spec.Ports, sanitize.Ports{}, (*ServicePort).fields, spec.Child("ports"), &left)

	path := spec.Child("endpoints")
	endpoints := sanitize.Limit(g.Spec.Endpoints, api.MaxGlobalServiceEndpoints, path, &left)
	out.Spec.Endpoints = make([]Endpoint, 0, len(endpoints))
	for i, e := range endpoints {
		if e.sanitize(func(child string) *field.Path { return path.Index(i).Child(child) }, &left) {
			out.Spec.Endpoints = append(out.Spec.Endpoints, e)
		}
	}
	return &out, left.List()
}

// validateIdentity returns what is wrong with the name, namespace and type. If any of them is invalid, nothing can be served.
func (g *GlobalService) validateIdentity() field.ErrorList {
	var errs field.ErrorList
	if err := api.CheckLabel(g.Name); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), sanitize.Printable(g.Name),
			err.Error()+", because the DNS name begins with it"))
	}
	if err := api.CheckLabel(g.Namespace); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), sanitize.Printable(g.Namespace),
			err.Error()+", because it is part of the DNS name"))
	}
	switch g.Spec.Type {
	case "", ClusterIP, Headless:
	default:
		errs = append(errs, sanitize.NotSupported(field.NewPath("spec", "type"), g.Spec.Type, ClusterIP, Headless))
	}
	return errs
}

// sanitize corrects the endpoint, without changing what its fields point to, and reports whether it can be kept.
func (e *Endpoint) sanitize(at sanitize.At, left *api.LeftOut) bool {
	e.Cluster = strings.ToLower(e.Cluster)
	if e.Cluster != "" {
		if err := api.CheckClusterName(e.Cluster); err != nil {
			left.Add(func() *field.Error { return sanitize.Invalid(at("cluster"), e.Cluster, err) })
			return false
		}
	}
	e.Addresses = sanitize.Addresses(e.Addresses, "", api.MaxAddresses, at, left)
	if len(e.Addresses) == 0 {
		return false
	}
	if e.Hostname != nil {
		if lower := strings.ToLower(*e.Hostname); lower != *e.Hostname {
			e.Hostname = &lower
		}
		e.Hostname = sanitize.Hostname(e.Hostname, at, left)
	}
	e.Zone = sanitize.Location(e.Zone, api.MaxLocation, at, "zone", left)
	e.Region = sanitize.Location(e.Region, api.MaxLocation, at, "region", left)
	if e.Ports != nil {
		e.Ports = sanitizePorts(e.Ports, sanitize.Ports{NumbersRepeat: true}, (*EndpointPort).fields, at("ports"), left)
	}
	return true
}

// portFields returns a port's name, its protocol and its number.
type portFields[P any] func(*P) (*string, *corev1.Protocol, int32)

// sanitizePorts returns the ports that set keeps.
func sanitizePorts[P any](ports []P, set sanitize.Ports, fields portFields[P], path *field.Path, left *api.LeftOut) []P {
	ports = sanitize.Limit(ports, api.MaxPorts, path, left)
	kept := make([]P, 0, len(ports))
	for i, p := range ports {
		name, protocol, number := fields(&p)
		*name = strings.ToLower(*name)
		if *protocol == "" {
			*protocol = corev1.ProtocolTCP
		}
		if set.Keep(*name, *protocol, number, path.Index(i), left) {
			kept = append(kept, p)
		}
	}
	return kept
}

func (p *ServicePort) fields() (*string, *corev1.Protocol, int32) {
	return &p.Name, &p.Protocol, p.Port
}

func (p *EndpointPort) fields() (*string, *corev1.Protocol, int32) {
	return &p.Name, &p.Protocol, p.Port
}
