package random

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// questions returns all names that exist, and all that could ever have existed.
func (r *Run) questions(w *World) []string {
	names := map[string]bool{}
	for _, zone := range Zones {
		for _, s := range r.Servers[:min(len(w.Clusters), len(r.Servers))] {
			for name := range w.Zone(zone, s).Names {
				names[name] = true
			}
		}
		for _, ns := range r.Script.Namespaces {
			names[ns+".svc."+zone] = true
			for i := range r.Script.set.names {
				if r.Brief {
					break
				}
				service := fmt.Sprintf("svc%d.%s.svc.%s", i, ns, zone)
				names[service] = true
				for _, below := range r.below() {
					names[below+"."+service] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// below returns the names that a service can have below its own.
func (r *Run) below() []string {
	names := []string{"_tcp", "_udp", "_sctp", "other", "pod-0.other", "_http._sctp"}
	for _, set := range append(portSets, []servicePort{{"tcp-80", "TCP", 80}}) {
		for _, p := range set {
			names = append(names, "_"+p.name+"._tcp", "_"+p.name+"._udp")
		}
	}
	for c, m := range r.Members {
		names = append(names, m.Spec.Name)
		for _, h := range hostnames {
			names = append(names, h+"."+m.Spec.Name)
		}
		for _, a := range append(addressesOf(c, "IPv4"), addressesOf(c, "IPv6")...) {
			name := strings.NewReplacer(".", "-", ":", "-").Replace(a)
			if strings.HasSuffix(name, "-") {
				name += "0"
			}
			names = append(names, name+"."+m.Spec.Name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "_.") })
}
