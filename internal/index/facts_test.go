package index

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// snapshotFacts describes a Snapshot in the same form as the oracle, through exported methods only, and checks the order
// and form that readers rely on.
func snapshotFacts(t *testing.T, s *Snapshot) map[string]string {
	t.Helper()
	all := map[string]string{}
	services := s.Services()
	for i, svc := range services {
		key := string(svc.Key())
		if i > 0 && services[i-1].Key() >= svc.Key() {
			t.Errorf("Services: %s after %s", key, services[i-1].Key())
		}
		if s.Service(key) != svc {
			t.Errorf("Service(%s) isn't the one that Services lists", key)
		}
		all[key] = "mcs " + factsOf(t, key, svc.Set(MCS)).String() + "\nglobal " + factsOf(t, key, svc.Set(Global)).String() + inputsText(svc)
	}
	for _, ns := range append([]string{"", "absent"}, editNamespaces...) {
		if s.HasNamespace(ns) {
			all[ns] = "a namespace"
		}
		for _, name := range editServices {
			key := name + "." + ns
			if _, listed := all[key]; !listed && s.Service(key) != nil {
				t.Errorf("Service(%s) is not among Services", key)
			}
		}
	}
	return all
}

// inputsText names the objects that a service was built from, in the same form as explain.
func inputsText(s *Service) string {
	imp, endpointSlices, global := s.Inputs()
	names := []string{}
	for _, o := range endpointSlices {
		names = append(names, fmt.Sprintf("%+v", o))
	}
	slices.Sort(names)
	return fmt.Sprintf("\nfrom %+v %v %+v", imp, names, global)
}

func factsOf(t *testing.T, key string, set *Set) facts {
	t.Helper()
	f := facts{exists: set != nil, ports: map[string][]string{}}
	if set == nil {
		return f
	}
	f.addrs, f.vip = textsOf(t, key, set.Addrs), set.Source == SourceClusterSetIPs
	f.headless, f.live = set.Headless, set.Live
	if !f.vip && len(set.Addrs) > 0 {
		f.tier = set.Tier.String()
		if set.Degraded {
			f.tier = "degraded " + f.tier
		}
	}
	f.hosts = hostFacts(t, key, set.Hosts, set.Host)
	f.clusters = hostFacts(t, key, set.Clusters, set.Cluster)
	for _, label := range []string{"", "a", "b", "c1", "a.b", "absent"} {
		inside := func(h Host) bool { return strings.HasSuffix(h.Key, "."+label) }
		if got, want := set.EmptyNonTerminal(label), label != "" && slices.ContainsFunc(set.Clusters, inside); got != want {
			t.Errorf("%s: EmptyNonTerminal(%s) = %v, want %v", key, label, got, want)
		}
		if set.Host(label) != nil && f.hosts[label] == nil || set.Cluster(label) != nil && f.clusters[label] == nil {
			t.Errorf("%s: %s is found, though not listed", key, label)
		}
	}
	for i, p := range set.Ports {
		if i > 0 && comparePorts(Port{set.Ports[i-1].Name, 0, set.Ports[i-1].Protocol}, Port{p.Name, 0, p.Protocol}) >= 0 {
			t.Errorf("%s: port %s_%s out of order", key, p.Name, p.Protocol)
		}
		f.ports[portText(Port{Name: p.Name, Protocol: p.Protocol})] = set.targetTexts(t, key, p.Targets)
	}
	f.union = set.targetTexts(t, key, set.Targets)
	return f
}

func hostFacts(t *testing.T, key string, hosts []Host, find func(string) *Host) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for i := range hosts {
		h := &hosts[i]
		if find(h.Key) != h {
			t.Errorf("%s: %s is not found by its name", key, h.Key)
		}
		if all[h.Key] != nil {
			t.Errorf("%s: %s is there twice", key, h.Key)
		}
		all[h.Key] = textsOf(t, key+" "+h.Key, h.Addrs)
		if len(h.Addrs) == 0 {
			t.Errorf("%s: %s has no address", key, h.Key)
		}
	}
	return all
}

// textsOf expects addresses in order, without duplicates, and without spare capacity that an append could write into.
func textsOf(t *testing.T, name string, addrs Addrs) []string {
	t.Helper()
	if len(addrs) != cap(addrs) {
		t.Errorf("%s: %d addresses with capacity %d", name, len(addrs), cap(addrs))
	}
	v4, v6 := addrs.Split()
	if slices.ContainsFunc(v4, netip.Addr.Is6) || slices.ContainsFunc(v6, netip.Addr.Is4) || len(v4)+len(v6) != len(addrs) {
		t.Errorf("%s: Split makes %v and %v", name, v4, v6)
	}
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	if want := addrTexts(addrs); !slices.Equal(texts, want) {
		t.Errorf("%s: addresses %v, want the order %v", name, texts, want)
	}
	return texts
}

func (s *Set) targetTexts(t *testing.T, key string, targets Targets) []string {
	t.Helper()
	texts := []string{}
	for i := range targets.Len() {
		target := targets.At(i)
		if i > 0 && cmp.Or(cmp.Compare(targets.At(i-1).Host, target.Host), cmp.Compare(targets.At(i-1).Port, target.Port)) >= 0 {
			t.Errorf("%s: targets %v are out of order", key, targets)
		}
		host := "*"
		if target.Host != ServiceItself {
			host = s.TargetHosts()[target.Host].Key
		}
		texts = append(texts, fmt.Sprintf("%s:%d", host, target.Port))
	}
	slices.Sort(texts)
	return texts
}

// zonalFacts describes what names with a zone have, in the same form as the oracle.
func zonalFacts(t *testing.T, s *Snapshot) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, svc := range s.Services() {
		for _, d := range []Dialect{MCS, Global} {
			for _, zone := range zonesAskedFor {
				for _, directive := range []string{"pin", "prefer"} {
					name := zone + "." + directive + "._zone." + string(svc.Key())
					var l Lookup
					s.Lookup(&l, Zone{Dialect: d}, name+".svc")
					if l.Kind != ZoneName {
						continue
					}
					s.Zonal(&l)
					all[d.String()+" "+name] = fmt.Sprint(textsOf(t, name, l.Addrs), l.Set.targetTexts(t, name, l.Targets))
				}
			}
		}
	}
	return all
}
