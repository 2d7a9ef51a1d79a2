// Command coredns is CoreDNS with every stock plugin and clusterset, placed directly above kubernetes: where a server block
// has both, clusterset answers its zones and passes on the rest.
package main

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/core/plugin" // the stock plugins
	"github.com/coredns/coredns/coremain"

	"github.com/clusterset/clusterset/internal/version"
	_ "github.com/clusterset/clusterset/plugin"
)

func init() {
	dnsserver.Directives = withClusterset(dnsserver.Directives)
}

// withClusterset returns the directives with ours in front of kubernetes. The order is that of the plugin chain.
func withClusterset(directives []string) []string {
	at := slices.Index(directives, "kubernetes")
	return slices.Insert(slices.Clone(directives), at, "clusterset")
}

func main() {
	tuneMemory()
	// CoreDNS prints this with its own version and has it as revision in coredns_build_info.
	coremain.GitCommit = "clusterset-" + version.String()
	coremain.Run()
}
