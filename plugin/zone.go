package clusterset

import (
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// zone is one zone of the plugin.
type zone struct {
	name    string // lower case, with its final dot
	dialect index.Dialect
	// ns and mbox are the name server and the mailbox that SOA and NS records name.
	ns, mbox string
	// nested are the names of the zones within this one, of the stanza and of other server blocks on the same address.
	nested []string
}

func newZone(name string, d index.Dialect) *zone {
	z := &zone{name: name, dialect: d}
	z.ns, z.mbox = "ns.dns."+z.suffix(), "hostmaster."+z.suffix()
	return z
}

// suffix returns what follows the dot after a name below the zone: nothing for the root.
func (z *zone) suffix() string {
	if z.name == "." {
		return ""
	}
	return z.name
}

// below returns the labels of name in front of the zone, without a final dot. name lies in the zone.
func (z *zone) below(name string) string {
	return strings.TrimSuffix(name[:len(name)-len(z.name)], ".")
}

// zones are the zones of the plugin, longest first, so that the first to match is the closest.
type zones []*zone

func (zs zones) sort() {
	slices.SortStableFunc(zs, func(a, b *zone) int { return len(b.name) - len(a.name) })
	for i, inner := range zs {
		for _, outer := range zs[i+1:] {
			if dns.IsSubDomain(outer.name, inner.name) {
				outer.nested = append(outer.nested, inner.name)
			}
		}
	}
}

// nest adds the zones of other server blocks that lie within ours.
func (zs zones) nest(others []string) {
	for _, z := range zs {
		for _, other := range others {
			if other != z.name && dns.IsSubDomain(z.name, other) {
				z.nested = append(z.nested, other)
			}
		}
	}
}

// leadsTo reports whether name, in the zone, has one of those within it below: it exists then, if only as an empty
// non-terminal (RFC 8020). It also does where name lies in another server block's zone, as the name of a DS query may: that zone
// knows what exists.
func (z *zone) leadsTo(name string) bool {
	return slices.ContainsFunc(z.nested, func(inner string) bool {
		return dns.IsSubDomain(name, inner) || dns.IsSubDomain(inner, name)
	})
}

// match returns the closest zone that name, in lower case, lies in, or nil.
func (zs zones) match(name string) *zone {
	for _, z := range zs {
		at := len(name) - len(z.name)
		if at < 0 || name[at:] != z.name {
			continue
		}
		if at == 0 || z.name == "." {
			return z
		}
		if name[at-1] != '.' {
			continue
		}
		// A dot behind a backslash is part of a label. Whoever asks such names gets the slow and certain way.
		if at > 1 && name[at-2] == '\\' && !dns.IsSubDomain(z.name, name) {
			continue
		}
		return z
	}
	return nil
}

// longest returns the length of the longest zone's name, as index.Options.LongestZone takes it.
func (zs zones) longest() int {
	n := 0
	for _, z := range zs {
		n = max(n, len(z.suffix()))
	}
	return n
}
