package doctor

import (
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// Block is a server block of a Corefile: the zones it serves, and its plugins.
type Block struct {
	Keys    []string
	Plugins []Plugin
}

// Plugin is a plugin's line in a server block. The content of its braces is not kept.
type Plugin struct {
	Name string
	Args []string
}

// imports reports whether a Corefile has parts that aren't seen: in a file of the server, or in a snippet.
func imports(corefile string) bool { return slices.Contains(strings.Fields(corefile), "import") }

// ParseCorefile reads as much of a Corefile as is needed to see which plugin serves which zone. It understands what CoreDNS
// accepts, and leaves errors in the rest to CoreDNS. Caddy's parser would also import files and expand variables, but those of this machine
// instead of the server's.
func ParseCorefile(text string) []Block {
	var blocks []Block
	var current Block
	depth, last := 0, 0
	d := caddyfile.NewDispenser("Corefile", strings.NewReader(text))
	for d.Next() {
		switch word := d.Val(); {
		case word == "{":
			depth++
		case word == "}":
			depth--
			if depth == 0 {
				blocks = append(blocks, current)
				current = Block{}
			}
		case depth == 0:
			current.Keys = append(current.Keys, strings.TrimSuffix(word, ","))
		case depth == 1 && (d.Line() != last || len(current.Plugins) == 0):
			current.Plugins = append(current.Plugins, Plugin{Name: word})
		case depth == 1:
			p := &current.Plugins[len(current.Plugins)-1]
			p.Args = append(p.Args, word)
		}
		last = d.Line() + strings.Count(d.Val(), "\n")
	}
	return blocks
}

// zoneOf returns the zone of a server block's key, such as dns://clusterset.local:53, in lower case without the final dot.
func zoneOf(key string) string {
	key = strings.ToLower(key)
	if _, rest, ok := strings.Cut(key, "://"); ok {
		key = rest
	}
	if at := strings.LastIndexByte(key, ':'); at >= 0 {
		key = key[:at]
	}
	return strings.TrimSuffix(key, ".")
}

func within(name, zone string) bool {
	return zone == "" || name == zone || strings.HasSuffix(name, "."+zone)
}

// serving returns the block that CoreDNS uses for a zone: the one with the longest key that the zone is in.
func serving(blocks []Block, zone string) (block *Block, key string) {
	longest := -1
	for i := range blocks {
		for _, k := range blocks[i].Keys {
			if z := zoneOf(k); within(zone, z) && len(z) > longest {
				block, key, longest = &blocks[i], z, len(z)
			}
		}
	}
	return block, key
}

// plugin returns the first plugin with one of the names that applies to the zone.
func (b *Block) plugin(zone string, names ...string) *Plugin {
	for i := range b.Plugins {
		if p := &b.Plugins[i]; slices.Contains(names, p.Name) && p.takes(zone) {
			return p
		}
	}
	return nil
}

// takes reports whether a plugin's arguments are zones that the zone is in, or none.
func (p *Plugin) takes(zone string) bool {
	zones := p.Args
	if p.Name == "forward" && len(p.Args) > 0 {
		zones = p.Args[:1] // the other arguments are servers
	}
	return len(zones) == 0 || slices.ContainsFunc(zones, func(z string) bool { return within(zone, zoneOf(z)) })
}
