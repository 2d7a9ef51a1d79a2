package express

import (
	"net"
	"slices"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/bufsize"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/edns"
	"github.com/miekg/dns"
)

// Block is a server block with clusterset, at the time when its servers are created.
type Block struct {
	// Configs are its configs, one per key. Others are the configs of all other blocks of the Corefile.
	Configs, Others []*dnsserver.Config
	// Tokens are its directives as written in the Corefile.
	Tokens map[string][]caddyfile.Token
	// Before are the handlers before that of clusterset.
	Before []plugin.Handler
}

// Addresses returns the addresses at which the block answers plain DNS, and DNS over TLS.
func (b *Block) Addresses() []string {
	var all []string
	for _, c := range b.Configs {
		for _, addr := range Addresses(c) {
			if (c.Transport == "dns" || c.Transport == "tls") && !slices.Contains(all, addr) {
				all = append(all, addr)
			}
		}
	}
	return all
}

// Addresses returns the addresses at which a config is served, as dnsserver.Server.Addr has them. One server answers at all spellings of an
// address.
func Addresses(c *dnsserver.Config) []string {
	addrs := make([]string, len(c.ListenHosts))
	for i, host := range c.ListenHosts {
		addr := net.JoinHostPort(host, c.Port)
		if resolved, err := net.ResolveTCPAddr("tcp", addr); err == nil {
			addr = resolved.String()
		}
		addrs[i] = c.Transport + "://" + addr
	}
	return addrs
}

// at returns the configs that listen at an address.
func at(configs []*dnsserver.Config, addr string) []*dnsserver.Config {
	var found []*dnsserver.Config
	for _, c := range configs {
		if slices.Contains(Addresses(c), addr) {
			found = append(found, c)
		}
	}
	return found
}

// Refuse returns why there can be no express path at an address of the block, or "".
func (b *Block) Refuse(addr string, a *Answers) string {
	if reason := refuse(b.Tokens, b.Before); reason != "" {
		return reason
	}
	mine, others := at(b.Configs, addr), at(b.Others, addr)
	switch {
	case mine[0].Port == "0":
		return "the port isn't fixed"
	case mine[0].Transport == "tls" && mine[0].TLSConfig == nil:
		return "the server block has no tls, so CoreDNS doesn't encrypt"
	}
	for _, c := range append(slices.Clone(mine), others...) {
		switch {
		case c.Debug:
			return "debug is on"
		case len(c.TsigSecret) > 0:
			return "a server block at this address has tsig"
		case c.ProxyProtoConnPolicy != nil:
			return "a server block at this address has proxyproto"
		case len(c.FilterFuncs) > 0:
			return "a server block at this address has a view"
		}
	}
	for _, c := range others {
		if c.UDPDecorateWriterFunc != nil || c.Handler("clusterset") != nil {
			return "another server block at this address has clusterset or writes replies in its own way, as shed does"
		}
	}
	return refuseZones(a.Zones, mine, others)
}

// refuseZones returns a reason not to answer for one of the zones at any address of the block.
func (b *Block) refuseZones(zones []Zone) string {
	for _, addr := range b.Addresses() {
		if reason := refuseZones(zones, at(b.Configs, addr), at(b.Others, addr)); reason != "" {
			return reason
		}
	}
	return ""
}

func refuseZones(zones []Zone, mine, others []*dnsserver.Config) string {
	for i := range zones {
		if reason := refuseZone(zones[i].Name, mine, others); reason != "" {
			return reason
		}
	}
	return ""
}

// refuseZone returns a reason if the server or the metrics attribute names of the zone to another zone.
func refuseZone(zone string, mine, others []*dnsserver.Config) string {
	closest := ""
	for _, c := range mine {
		if dns.IsSubDomain(c.Zone, zone) && len(c.Zone) > len(closest) {
			closest = c.Zone
		}
	}
	if closest == "" {
		return "queries for " + zone + " don't reach the server block"
	}
	for _, c := range others {
		if dns.IsSubDomain(zone, c.Zone) || dns.IsSubDomain(c.Zone, zone) && len(c.Zone) >= len(closest) {
			return "another server block at this address has the zone " + c.Zone
		}
	}
	names := make([]string, 0, len(mine))
	for _, c := range mine {
		names = append(names, c.Zone)
	}
	if m, ok := mine[0].Handler("prometheus").(*metrics.Metrics); ok {
		names = append(names, m.ZoneNames()...)
	}
	for _, name := range names {
		if name != zone && dns.IsSubDomain(zone, name) {
			return "prometheus counts " + name + " apart from " + zone
		}
	}
	return ""
}

// Imitates returns what the plugins before clusterset do to replies.
func (b *Block) Imitates() Imitate {
	i := Imitate{Bufsize: dns.MaxMsgSize, Options: !slices.ContainsFunc(idleOptions, edns.SupportedOption)}
	switch h := b.Configs[0].Handler("bufsize").(type) {
	case bufsize.Bufsize:
		i.Bufsize = uint16(h.Size) //nolint:gosec // bufsize checks it
	case *bufsize.Bufsize:
		i.Bufsize = uint16(h.Size) //nolint:gosec // bufsize checks it
	}
	_, i.Shuffle = b.Tokens["loadbalance"]
	return i
}
