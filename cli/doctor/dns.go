package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkDNS checks a server's answer to a real query. Every zone of ours, and hardly any other, has a TXT record at dns-version
// (the Kubernetes DNS specification, 2.2).
func checkDNS(f *Facts) []Finding {
	if f.DNSServer == "" {
		return []Finding{skipped("no server was queried; --dns ADDRESS queries one: the cluster DNS or a clusterset server")}
	}
	var all []Finding
	for _, r := range f.Replies {
		name := "dns-version." + r.Zone
		switch {
		case slices.Contains(r.Texts, "1.0.0") && r.Parent != "":
			all = append(all, ok("%s answers for %s, as a part of its zone %s", f.DNSServer, r.Zone, r.Parent))
		case slices.Contains(r.Texts, "1.0.0"):
			all = append(all, ok("%s answers for %s", f.DNSServer, r.Zone))
		case r.NotFound || r.Err == nil:
			all = append(all, problem(fmt.Sprintf("%s has no %s: clusterset doesn't serve the zone %s there", f.DNSServer, name, r.Zone),
				"add a stanza for the zone to the server (see clusterdns), or the zone to its clusterset plugin"))
		case r.Timeout:
			all = append(all, problem(fmt.Sprintf("%s doesn't answer for %s", f.DNSServer, name),
				"check whether it runs and can be reached from here over UDP and TCP port 53: kubectl get pods, Service, NetworkPolicy"))
		default:
			all = append(all, problem(fmt.Sprintf("%s fails for %s: %v", f.DNSServer, name, r.Err),
				"SERVFAIL means that the server hasn't read its objects yet, or can't reach the one it forwards to: see its logs and coredns_clusterset_source_synced"))
		}
	}
	return all
}

// checkSearchPath checks how pods' resolvers complete names. With ndots:5, Kubernetes' default, a name of the set (four dots)
// is first tried in every domain of the search path.
func checkSearchPath(f *Facts) []Finding {
	if f.ResolvConf == "" {
		return []Finding{skipped("this isn't a pod, and only a pod's /etc/resolv.conf says what its resolver does; run clusterset doctor in one, or pass its file with --resolv-conf")}
	}
	search, ndots := parseResolvConf(f.ResolvConf)
	var all []Finding
	for _, zone := range f.Zones {
		for _, domain := range search {
			if within(domain, zone) {
				all = append(all, problem(fmt.Sprintf("the search path contains %s, a domain in the zone %s: other clusters may answer short names of this one", domain, zone),
					"remove it from the pod's dnsConfig.searches, or the node's resolv.conf, unless you want that"))
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	const dots = 4 // of <service>.<namespace>.svc.clusterset.local
	if ndots > dots && len(search) > 0 {
		return []Finding{ok("ndots is %d: a name such as web.shop.svc.clusterset.local costs %d failed queries first, two for each domain of the search path; "+
			"if that matters, write it with a final dot, or set ndots to %d in the pod's dnsConfig", ndots, 2*len(search), dots)}
	}
	return []Finding{ok("ndots is %d, so names of the set are queried as they are", ndots)}
}

func parseResolvConf(text string) (search []string, ndots int) {
	ndots = 1 // the default, says resolv.conf(5)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "search", "domain":
			search = nil // the last one counts
			for _, d := range fields[1:] {
				search = append(search, strings.ToLower(strings.TrimSuffix(d, ".")))
			}
		case "options":
			for _, o := range fields[1:] {
				if n, ok := strings.CutPrefix(o, "ndots:"); ok {
					if v, err := strconv.Atoi(n); err == nil {
						ndots = v
					}
				}
			}
		}
	}
	return search, ndots
}
