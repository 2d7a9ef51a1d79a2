// Command coredns is CoreDNS with every stock plugin and clusterset, which comes directly before kubernetes: if a
// server block has both, clusterset answers its zones and passes on the rest.
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

// withClusterset inserts clusterset before kubernetes into the directives, which are in the order of the plugin chain.
func withClusterset(directives []string) []string {
	at := slices.Index(directives, "kubernetes")
	return slices.Insert(slices.Clone(directives), at, "clusterset")
}

func main() {
	tuneMemory()
	// CoreDNS prints this with its own version, and exports it as the revision in coredns_build_info.
	coremain.GitCommit = "clusterset-" + version.String()
	coremain.Run()
}
