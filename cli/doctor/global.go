package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// global is a public top-level domain. The names below svc.global are ours; all others belong to those who registered them.
const (
	publicZone = "global"
	ourZone    = "svc.global"
)

// checkGlobal finds a Corefile in which clusterset gets every query for global: registered names there can't be resolved then.
func checkGlobal(c ConfigMap, blocks []Block) []Finding {
	block, key := serving(blocks, publicZone)
	if block == nil {
		return nil
	}
	forward, plugin := block.plugin(publicZone, "forward"), block.plugin(publicZone, "clusterset")
	switch {
	case plugin != nil && forward == nil && key == publicZone:
		return []Finding{problem(fmt.Sprintf("%s answers all of global, a public top-level domain, itself: names such as www.company.global can't be resolved", c.Key),
			"write svc.global in place of global in the server block and in the line of clusterset"+edit(c))}
	case plugin != nil: // it passes on what isn't ours
		return nil
	case forward == nil || key != publicZone && (len(forward.Args) == 0 || zoneOf(forward.Args[0]) != publicZone):
		return nil
	}
	var ours []string
	if b, _ := serving(blocks, ourZone); b.plugin(ourZone, "forward") != forward {
		ours = []string{}
		if own := b.plugin(ourZone, "forward"); own != nil {
			ours = own.servers()
		}
	}
	return sendsGlobal(c, forward.servers(), ours)
}

// sendsGlobal returns the problem of a cluster DNS that forwards all of global to servers. ours are the servers for svc.global
// if it has its own, or nil.
func sendsGlobal(c ConfigMap, servers, ours []string) []Finding {
	cure := "write svc.global in place of global"
	if ours != nil {
		if !slices.ContainsFunc(servers, func(s string) bool { return slices.Contains(ours, s) }) {
			return nil // the rest of global goes elsewhere
		}
		cure = "remove what sends global there: svc.global has a line of its own"
	}
	return []Finding{problem(fmt.Sprintf("%s sends all of global, a public top-level domain, to %s: names such as www.company.global can't be resolved", c.Key, strings.Join(servers, " ")),
		cure+edit(c))}
}

// edit is the command that opens a ConfigMap.
func edit(c ConfigMap) string {
	namespace, name, _ := strings.Cut(c.Key, "/")
	return fmt.Sprintf(" (kubectl -n %s edit configmap %s)", namespace, name)
}
