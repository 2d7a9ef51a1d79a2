package express

import (
	"maps"
	"slices"

	"github.com/coredns/caddy/caddyfile"
)

// effect is what a directive in a server block means for the express path.
type effect uint8

const (
	// none is for plugins that don't affect replies to plain queries.
	none effect = iota
	// behind is for plugins after clusterset in the chain, which never see the queries that clusterset answers.
	behind
	// imitated is for plugins whose effect the express path reproduces.
	imitated
)

// directives are those of CoreDNS 1.15 beside which the express path is on. Any other plugin may change replies, read them, or decide about
// queries.
var directives = map[string]effect{
	"root": none, "metadata": none, "cancel": none, "quic": none, "grpc_server": none, "https": none, "https3": none,
	"timeouts": none, "multisocket": none, "reload": none, "bind": none, "ready": none, "health": none, "pprof": none,
	"errors": none, "tls": none, "on": none,
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

// refuse returns why a server block with these directives has no express path, or "".
func refuse(tokens map[string][]caddyfile.Token) string {
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		if _, allowed := directives[name]; !allowed {
			return name + " may have to see every query"
		}
	}
	for i, token := range tokens["loadbalance"] {
		if i > 0 && token.Text != "round_robin" {
			return "loadbalance does more than round_robin"
		}
	}
	return ""
}
