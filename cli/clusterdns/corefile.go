package clusterdns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// block is a server block of a Corefile: the zones it serves, and its plugins.
type block struct {
	where   string // its first line, in words
	keys    []string
	plugins []plugin
}

// plugin is a plugin's line in a server block. The content of its braces is not kept.
type plugin struct {
	where string
	name  string
	args  []string
}

// parse reads as much of a Corefile as is needed to see which plugin serves which zone. It understands what CoreDNS
// accepts, and leaves errors other than those of braces to CoreDNS. Caddy's parser would also import files and expand variables,
// but those of this machine instead of the server's.
func parse(name, text string) ([]block, error) {
	var blocks []block
	var current block
	depth, last, opened := 0, 0, 0
	d := caddyfile.NewDispenser("Corefile", strings.NewReader(text))
	for d.Next() {
		where := fmt.Sprintf("line %d of %s", d.Line(), name)
		switch word := d.Val(); {
		case word == "{":
			if depth++; depth == 1 {
				opened = d.Line()
			}
		case word == "}" && depth == 0:
			return nil, fmt.Errorf("line %d closes a block that isn't open", d.Line())
		case word == "}":
			depth--
			if depth == 0 {
				blocks = append(blocks, current)
				current = block{}
			}
		case depth == 0:
			if current.where == "" {
				current.where = where
			}
			current.keys = append(current.keys, strings.TrimSuffix(word, ","))
		case depth == 1 && (d.Line() != last || len(current.plugins) == 0):
			current.plugins = append(current.plugins, plugin{where: where, name: word})
		case depth == 1:
			p := &current.plugins[len(current.plugins)-1]
			p.args = append(p.args, word)
		}
		last = d.Line() + strings.Count(d.Val(), "\n")
	}
	if depth > 0 {
		return nil, fmt.Errorf("the block in line %d isn't closed", opened)
	}
	return blocks, nil
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
func serving(blocks []block, zone string) (serves *block, key string) {
	longest := -1
	for i := range blocks {
		for _, k := range blocks[i].keys {
			if z := zoneOf(k); within(zone, z) && len(z) > longest {
				serves, key, longest = &blocks[i], z, len(z)
			}
		}
	}
	return serves, key
}

// plugin returns the first plugin with one of the names that applies to the zone.
func (b *block) plugin(zone string, names ...string) *plugin {
	for i := range b.plugins {
		if p := &b.plugins[i]; slices.Contains(names, p.name) && p.takes(zone) {
			return p
		}
	}
	return nil
}

// takes reports whether a plugin's arguments are zones that the zone is in, or none.
func (p *plugin) takes(zone string) bool {
	zones := p.args
	if p.name == "forward" && len(p.args) > 0 {
		zones = p.args[:1] // the other arguments are servers
	}
	return len(zones) == 0 || slices.ContainsFunc(zones, func(z string) bool { return within(zone, zoneOf(z)) })
}

// names reports whether a plugin's line names the zone, or one that it is in. Without that, forward in a block for the root sends it where
// everything else goes, and clusterset refuses to start.
func (p *plugin) names() bool { return len(p.args) > 0 && zoneOf(p.args[0]) != "" }

// Way is what a Corefile does with the names of a zone.
type Way struct {
	// Plugin answers them, or forwards them to the Servers. It is empty if they are treated like all others.
	Plugin  string
	Servers []string
	// Where is the line that says so, in words.
	Where string
	of    string // the zone of the block
}

func wayOf(blocks []block, zone string) Way {
	b, key := serving(blocks, zone)
	if b == nil {
		return Way{}
	}
	way := Way{Where: b.where, of: key}
	for _, names := range [][]string{{"clusterset"}, {"multicluster", "kubernetes"}, {"forward"}} {
		p := b.plugin(zone, names...)
		if p == nil || key == "" && names[0] != "multicluster" && !p.names() {
			continue
		}
		way.Plugin, way.Where = p.name, p.where
		if p.name == "forward" && len(p.args) > 0 {
			way.Servers = p.args[1:]
		}
		break
	}
	return way
}
