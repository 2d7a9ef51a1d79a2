package express

import (
	"maps"
	"slices"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
)

// effect is what a directive in a server block means for the express path.
type effect uint8

const (
	// unhandled is for plugins that configure the server and have no handler in the chain, so that none of theirs may answer there.
	unhandled effect = iota + 1
	// none is for plugins whose handler doesn't affect replies to plain queries.
	none
	// behind is for plugins after clusterset in the chain, which never see the queries that clusterset answers.
	behind
	// imitated is for plugins whose effect the express path reproduces.
	imitated
)

// directives are those of CoreDNS 1.15 beside which the express path is on. Any other plugin may change replies, read them, or decide about
// queries.
var directives = map[string]effect{
	"root": unhandled, "quic": unhandled, "grpc_server": unhandled, "https": unhandled, "https3": unhandled, "timeouts": unhandled,
	"multisocket": unhandled, "reload": unhandled, "bind": unhandled, "ready": unhandled, "health": unhandled, "pprof": unhandled,
	"on":       unhandled,
	"tls":      unhandled, // with acme it adds a handler to all server blocks
	"metadata": none, "cancel": none, "errors": none,
	"nsid":     none, // queries that ask for it are left to the chain
	"any":      none, // ANY is left to the chain
	"chaos":    none, // class CH is left to the chain
	"transfer": none, // AXFR and IXFR are left to the chain
	"loop":     none, // its HINFO query is left to the chain
	"shed":     none, // replies are written by the reader, so nothing queues up
	"cache":    none, // clusterset's zones bypass it, except those with fallthrough; refuseCache knows about those of kubernetes

	"bufsize": imitated, "prometheus": imitated, "loadbalance": imitated, "clusterset": imitated,

	"kubernetes": behind, "file": behind, "auto": behind, "secondary": behind, "etcd": behind, "forward": behind, "grpc": behind,
	"erratic": behind, "whoami": behind, "nomad": behind,
}

// HandlersBefore returns the handlers of the plugins that were added to a config so far. CoreDNS makes them later, for each socket.
func HandlersBefore(config *dnsserver.Config) []plugin.Handler {
	before := make([]plugin.Handler, len(config.Plugin))
	for i, newHandler := range config.Plugin {
		config.Plugin[i] = func(next plugin.Handler) plugin.Handler {
			before[i] = newHandler(next)
			return before[i]
		}
	}
	return before
}

// refuse returns why a server block with these directives, and these handlers before that of clusterset, has no express path, or "".
func refuse(tokens map[string][]caddyfile.Token, before []plugin.Handler) string {
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		e := directives[name]
		if e == 0 {
			return name + " may have to see every query"
		}
		if e == imitated && name != "clusterset" && !slices.ContainsFunc(before, func(h plugin.Handler) bool { return h.Name() == name }) {
			return name + " doesn't stand before clusterset"
		}
	}
	for _, h := range before {
		if e := directives[h.Name()]; e != none && e != imitated {
			return h.Name() + " has a handler before clusterset, which may have to see every query"
		}
	}
	for i, token := range tokens["loadbalance"] {
		if i > 0 && token.Text != "round_robin" {
			return "loadbalance does more than round_robin"
		}
	}
	return ""
}
