package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// questions are all names that exist, and all that could ever have existed.
func (r *randomRun) questions(w *world) []string {
	names := map[string]bool{}
	for _, zone := range randomZones {
		for _, s := range r.servers[:min(len(w.clusters), len(r.servers))] {
			for name := range w.zone(zone, s).names {
				names[name] = true
			}
		}
		for _, ns := range r.script.namespaces {
			names[ns+".svc."+zone] = true
			for i := range r.script.set.names {
				if r.brief {
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

// below are the names that a service can have below its own.
func (r *randomRun) below() []string {
	names := []string{"_tcp", "_udp", "_sctp", "other", "pod-0.other", "_http._sctp"}
	for _, set := range append(randomPortSets, []randomPort{{"tcp-80", "TCP", 80}}) {
		for _, p := range set {
			names = append(names, "_"+p.name+"._tcp", "_"+p.name+"._udp")
		}
	}
	for c, m := range r.members {
		names = append(names, m.name)
		for _, h := range randomHostnames {
			names = append(names, h+"."+m.name)
		}
		for _, a := range append(randomAddresses(c, "IPv4"), randomAddresses(c, "IPv6")...) {
			name := strings.NewReplacer(".", "-", ":", "-").Replace(a)
			if strings.HasSuffix(name, "-") {
				name += "0"
			}
			names = append(names, name+"."+m.name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "_.") })
}
