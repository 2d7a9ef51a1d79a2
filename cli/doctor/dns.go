package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterset/clusterset/cli/screen"
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

// Express is the state of a DNS server's express paths, from its metrics.
type Express struct {
	// Address is the address of the metrics.
	Address string
	// On lists the servers, such as dns://:53, by whether their express path is on.
	On  map[bool][]string
	Err error
}

// maxMetrics is the most bytes of a server's metrics that are read.
const maxMetrics = 16 << 20

// metricsAddress returns CoreDNS's default address of metrics, on the DNS server's host.
func metricsAddress(server string) string {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(host, "9153")
}

func express(ctx context.Context, address string) *Express {
	e := &Express{Address: address, On: map[bool][]string{}}
	e.Err = e.read(ctx)
	return e
}

func (e *Express) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", request.URL, reply.Status)
	}
	for lines := bufio.NewScanner(io.LimitReader(reply.Body, maxMetrics)); lines.Scan(); {
		labels, isGauge := strings.CutPrefix(lines.Text(), `coredns_clusterset_express_enabled{server="`)
		if server, value, found := strings.Cut(labels, `"} `); isGauge && found {
			e.On[value == "1"] = append(e.On[value == "1"], server)
		}
	}
	return nil
}

// checkExpress reports whether queries are answered on the express path. If they aren't, it isn't a problem: the plugin chain gives
// the same answers.
func checkExpress(f *Facts) []Finding {
	e := f.Express
	switch {
	case e == nil:
		return nil
	case e.Err != nil:
		return []Finding{skipped("%v; --dns-metrics says where the metrics of %s are", e.Err, f.DNSServer)}
	case len(e.On[true])+len(e.On[false]) == 0:
		return []Finding{skipped("the metrics at %s have no express path: the server has no clusterset plugin", e.Address)}
	}
	var all []Finding
	if off := e.On[false]; len(off) > 0 {
		all = append(all, ok("the express path is off at %s, where every query takes the plugin chain; the log of the DNS server says why (docs/cluster-dns.md)", screen.And(off)))
	}
	if on := e.On[true]; len(on) > 0 {
		all = append(all, ok("the express path is on at %s", screen.And(on)))
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
