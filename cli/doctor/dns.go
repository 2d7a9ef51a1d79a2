package doctor

import "fmt"

// checkDNS checks a server's answer to a real query.
func checkDNS(f *Facts) []Finding {
	if f.DNSServer == "" {
		return []Finding{skipped("no server was queried; --dns ADDRESS queries one: the cluster DNS or a clusterset server")}
	}
	var all []Finding
	for _, r := range f.Replies {
		name := "dns-version." + r.Zone
		switch {
		case r.Ours():
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
