package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

// kube-proxy finds the endpoints of a Service's port by the port's name. The Service and its EndpointSlices are different objects, so
// a name can't be changed in all of them at once, and readers may see the changes in any order. While a port changes its name,
// slices therefore have the port under both names (D29 of docs/spec/data-path.md).

// PortName is the name of a port of the derived Service.
type PortName struct {
	Protocol corev1.Protocol
	Port     int32
	Name     string
}

// FormerNames returns those of the names, former ones and those that was has, that now gives to no port, and whose port has another
// name in now.
func FormerNames(was, now *corev1.Service, former []PortName) (all []PortName) {
	names := slices.Clone(former)
	for _, p := range was.Spec.Ports {
		names = append(names, PortName{p.Protocol, p.Port, p.Name})
	}
	for _, n := range names {
		renamed := slices.ContainsFunc(now.Spec.Ports, func(p corev1.ServicePort) bool { return p.Protocol == n.Protocol && p.Port == n.Port })
		taken := func(p corev1.ServicePort) bool { return p.Name == n.Name }
		if renamed && !slices.ContainsFunc(now.Spec.Ports, taken) && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// GainsName reports whether want has a port of a name that no port of is has.
func GainsName(is, want *corev1.Service) bool {
	return slices.ContainsFunc(want.Spec.Ports, func(p corev1.ServicePort) bool { return !hasName(is, p.Name) })
}

func hasName(svc *corev1.Service, name string) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == name })
}

// Expanded returns the slices of out for as long as the derived Service doesn't have the names of its ports. They still have the ports
// that the current slices have and the current Service needs.
func Expanded(out Output, cur Current) (all []*discoveryv1.EndpointSlice) {
	for _, want := range out.Slices {
		is := cur.Slice(want.Name)
		if is == nil || is == want {
			all = append(all, want)
			continue
		}
		expanded := *want
		expanded.Ports = slices.Clone(want.Ports)
		for _, p := range is.Ports {
			missing := !slices.ContainsFunc(want.Ports, func(o discoveryv1.EndpointPort) bool { return *o.Name == *p.Name })
			if missing && hasName(cur.Derived, *p.Name) {
				expanded.Ports = append(expanded.Ports, p)
			}
		}
		all = append(all, &expanded)
	}
	return all
}

// Routed reports whether kube-proxy reads the slice.
func Routed(s *discoveryv1.EndpointSlice) bool {
	_, hidden := s.Labels[corev1.IsHeadlessService]
	return !hidden && s.Labels[api.LabelKubernetesServiceName] != ""
}

// formerPorts returns the merged ports under the names that they have in the current derived Service, or had until recently, if
// these are no names of merged ports now.
func (w *work) formerPorts() (all []merge.Port) {
	if !w.hasVIP() || w.in.Derived == nil {
		return nil
	}
	stays := func(p corev1.ServicePort) bool {
		return slices.ContainsFunc(w.resolved.Ports, func(m merge.Port) bool { return m.Name == p.Name })
	}
	if len(w.in.Former) == 0 && !slices.ContainsFunc(w.in.Derived.Spec.Ports, func(p corev1.ServicePort) bool { return !stays(p) }) {
		return nil // as nearly always
	}
	now := w.derivedService()
	for _, n := range FormerNames(w.in.Derived, now, w.in.Former) {
		i := slices.IndexFunc(w.resolved.Ports, func(p merge.Port) bool { return p.Protocol == n.Protocol && p.Port == n.Port })
		p := w.resolved.Ports[i]
		p.Name = n.Name
		if !slices.ContainsFunc(all, func(o merge.Port) bool { return o.Name == p.Name }) {
			all = append(all, p)
		}
	}
	return all
}

// renamed returns those of an exporter's endpoint ports that belong to the exposed service ports, with their names here, former ones
// included.
func renamed(ports []clustersetv1alpha1.EndpointPort, exposed, former []merge.Port) []discoveryv1.EndpointPort {
	kept := []discoveryv1.EndpointPort{}
	add := func(p clustersetv1alpha1.EndpointPort, name *string) {
		if !slices.ContainsFunc(kept, func(k discoveryv1.EndpointPort) bool { return *k.Name == *name }) {
			p.Name = name
			kept = append(kept, discoveryv1.EndpointPort(p))
		}
	}
	for _, p := range ports {
		i := servicePort(p, ports, exposed, former)
		if i < 0 {
			continue
		}
		add(p, &exposed[i].Name)
		for j := range former {
			if former[j].Protocol == exposed[i].Protocol && former[j].Port == exposed[i].Port {
				add(p, &former[j].Name)
			}
		}
	}
	return kept
}

// servicePort returns the index of the exposed port that an endpoint port belongs to, or -1. If the owner renamed a port, the record
// of the Service may be here before that of its endpoints: as long as these don't have the new name, the former one counts.
func servicePort(p clustersetv1alpha1.EndpointPort, ports []clustersetv1alpha1.EndpointPort, exposed, former []merge.Port) int {
	is := func(p clustersetv1alpha1.EndpointPort, e merge.Port) bool { // Sanitized fills both in
		return e.ExportedName == *p.Name && e.Protocol == *p.Protocol
	}
	if i := slices.IndexFunc(exposed, func(e merge.Port) bool { return is(p, e) }); i >= 0 {
		return i
	}
	for _, f := range former {
		was := f.Name == *p.Name || *p.Name == "" && merge.IsGenerated(f.Name, f.Protocol, f.Port)
		if was && f.Protocol == *p.Protocol && !slices.ContainsFunc(ports, func(o clustersetv1alpha1.EndpointPort) bool { return is(o, f) }) {
			return slices.IndexFunc(exposed, func(e merge.Port) bool { return e.Protocol == f.Protocol && e.Port == f.Port })
		}
	}
	return -1
}
