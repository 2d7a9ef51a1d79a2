// Command stock is CoreDNS as released, the peer in the benchmarks. It is a binary of its own so that what our binary sets for its process
// affects only ours.
package main

import (
	_ "github.com/coredns/coredns/core/plugin" // the stock plugins
	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
