package random

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Leads checks the answers that a server must give by what they are for, not by how they come about: none has an address of a pod, or a
// ClusterIP, of another network, and a service of which something is ready that the server's cluster can reach has an address.
func (w *World) Leads(s Server) error { return w.leads(w.Zone("global", s)) }

func (w *World) leads(z *Zone) error {
	own := map[string]bool{}
	foreign := map[string]string{} // the cluster of each address of another network
	for _, key := range w.Keys() {
		for _, p := range w.Parts(key) {
			for _, a := range p.inside() {
				if p.apart(z.member) {
					foreign[a] = p.Name
				} else {
					own[a] = true
				}
			}
		}
	}
	var errs []error
	for name, records := range z.Names {
		for _, a := range slices.Concat(records["A"], records["AAAA"]) {
			if of := foreign[a]; of != "" && !own[a] {
				errs = append(errs, fmt.Errorf("%s is asked at %s: %s is a pod or ClusterIP of %s, in another network", name, z.member.Name, a, of))
			}
		}
	}
	for _, key := range w.Keys() {
		name := fmt.Sprintf("%s.%s.svc.global", key.Name, key.Namespace)
		if from := w.reaches(z.member, key); from != "" && len(z.Names[name]["A"])+len(z.Names[name]["AAAA"]) == 0 {
			errs = append(errs, fmt.Errorf("%s is asked at %s: no address, and %s has a ready one that can be reached", name, z.member.Name, from))
		}
	}
	return errors.Join(errs...)
}

// inside returns the addresses of a part that only its own network reaches.
func (p Part) inside() (all []string) {
	for _, b := range p.backends(nil) {
		all = append(all, netip.MustParseAddr(b.address).String())
	}
	if !p.headless() {
		all = append(all, p.service.Spec.ClusterIPs...)
	}
	return all
}

// reaches names a cluster whose part of a service is ready, hasn't expired, has the service's type and all its ports, and can be reached
// by a viewer. It returns nothing if there is none.
func (w *World) reaches(viewer *View, key types.NamespacedName) string {
	parts := w.visible(viewer, key)
	if len(parts) == 0 || !viewer.namespaces[key.Namespace] {
		return ""
	}
	ports := mergedPorts(parts)
	for _, p := range parts {
		ready := slices.ContainsFunc(p.backends(nil), func(b backend) bool { return b.ready })
		whole := !slices.ContainsFunc(ports, func(port mergedPort) bool { return !p.has(port) })
		if !ready || p.Expired || !whole || p.headless() != parts[0].headless() {
			continue
		}
		if !p.apart(viewer) {
			return p.Name
		}
		if _, exported := p.external(); len(exported) > 0 && len(p.External) > 0 {
			return p.Name + " (" + strings.Join(exported, ", ") + ")"
		}
	}
	return ""
}
