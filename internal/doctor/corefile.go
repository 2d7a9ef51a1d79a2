package doctor

import (
	"strings"
	"unicode"
)

// Block is a server block of a Corefile: the zones it serves and the plugins it does that with.
type Block struct {
	Keys    []string
	Plugins []Plugin
}

// Plugin is a plugin's line in a server block. What stands in its braces is not kept.
type Plugin struct {
	Name string
	Args []string
}

// ParseCorefile reads as much of a Corefile as it takes to see which plugin serves which zone. Snippets are put where they
// are imported; files and environment variables can't be, as they are the server's. It understands what CoreDNS accepts and
// doesn't complain about the rest, which is CoreDNS's to do.
func ParseCorefile(text string) []Block {
	var blocks []Block
	snippets := map[string][]Plugin{}
	for _, b := range rawBlocks(tokens(text)) {
		if len(b.Keys) == 1 && strings.HasPrefix(b.Keys[0], "(") {
			snippets[strings.Trim(b.Keys[0], "()")] = b.Plugins
			continue
		}
		var plugins []Plugin
		for _, p := range b.Plugins {
			if p.Name == "import" && len(p.Args) == 1 && snippets[p.Args[0]] != nil {
				plugins = append(plugins, snippets[p.Args[0]]...)
				continue
			}
			plugins = append(plugins, p)
		}
		blocks = append(blocks, Block{b.Keys, plugins})
	}
	return blocks
}

// token is a word of a Corefile with the line it stands on.
type token struct {
	text string
	line int
}

// tokens cuts a Corefile into words: at blanks, with "quoted ones" whole and # comments left out.
func tokens(text string) []token {
	var all []token
	line := 1
	var word strings.Builder
	quoted, comment, inWord := false, false, false
	end := func() {
		if inWord {
			all = append(all, token{word.String(), line})
		}
		word.Reset()
		inWord = false
	}
	for _, r := range text {
		switch {
		case r == '\n':
			if !quoted {
				end()
				comment = false
			}
			line++
		case comment:
		case r == '"':
			quoted = !quoted
			inWord = true
		case quoted:
			word.WriteRune(r)
		case unicode.IsSpace(r):
			end()
		case r == '#' && !inWord:
			comment = true
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return all
}

func rawBlocks(all []token) []Block {
	var blocks []Block
	var current Block
	depth, last := 0, 0
	for _, t := range all {
		switch {
		case t.text == "{":
			depth++
		case t.text == "}":
			depth--
			if depth == 0 {
				blocks = append(blocks, current)
				current = Block{}
			}
		case depth == 0:
			current.Keys = append(current.Keys, strings.TrimSuffix(t.text, ","))
		case depth == 1 && (t.line != last || len(current.Plugins) == 0):
			current.Plugins = append(current.Plugins, Plugin{Name: t.text})
		case depth == 1:
			p := &current.Plugins[len(current.Plugins)-1]
			p.Args = append(p.Args, t.text)
		}
		last = t.line
	}
	return blocks
}

// Zone returns the zone of a server block's key, such as dns://clusterset.local:53, in lower case without its final dot.
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

// within reports whether a name lies in a zone.
func within(name, zone string) bool {
	return zone == "" || name == zone || strings.HasSuffix(name, "."+zone)
}

// serving returns the block that CoreDNS takes for a zone: that of the longest key it lies within.
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

// plugin returns the first plugin of one of the names that is there for the zone.
func (b *Block) plugin(zone string, names ...string) *Plugin {
	for i := range b.Plugins {
		p := &b.Plugins[i]
		for _, name := range names {
			if p.Name == name && p.takes(zone) {
				return p
			}
		}
	}
	return nil
}

// takes reports whether a plugin's arguments are zones that the zone lies in, or none.
func (p *Plugin) takes(zone string) bool {
	zones := p.Args
	if p.Name == "forward" && len(p.Args) > 0 {
		zones = p.Args[:1] // its others are the servers
	}
	if len(zones) == 0 {
		return true
	}
	for _, z := range zones {
		if within(zone, zoneOf(z)) {
			return true
		}
	}
	return false
}
