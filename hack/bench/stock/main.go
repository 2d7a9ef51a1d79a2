// Command stock is CoreDNS as it is released: the peer that the benchmarks measure against, so that what our own binary sets
// for its process counts for us alone.
package main

import (
	_ "github.com/coredns/coredns/core/plugin" // the stock plugins
	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
