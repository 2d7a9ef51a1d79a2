package clusterset

import (
	"cmp"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// zone is one zone of the plugin.
type zone struct {
	name string // lower case, with its final dot
	// origin is what follows the label svc in the names of services: the zone or, if svc is the zone's first label, its parent.
	origin  string
	dialect index.Dialect
	// ns and mbox are the name server and the mailbox that SOA and NS records name.
	ns, mbox string
	// nested are the names of the zones within this one, both of the stanza and of other server blocks at an address of its own.
	nested []innerZone
}

// innerZone is a zone within another.
type innerZone struct {
	name string
	// at has the addresses of the servers that answer for it beside the outer zone, nil for all of the outer zone's.
	at []string
}

func (z *innerZone) servedAt(addr string) bool { return z.at == nil || slices.Contains(z.at, addr) }

func newZone(name string, d index.Dialect) *zone {
	z := &zone{name: name, origin: name, dialect: d, ns: "ns.dns." + suffix(name), mbox: "hostmaster." + suffix(name)}
	if origin, ok := strings.CutPrefix(name, "svc."); ok {
		z.origin, z.ns = cmp.Or(origin, "."), "ns."+name
	}
	return z
}

// suffix returns what to append to a name and its dot to put it below a domain: nothing for the root.
func suffix(domain string) string {
	if domain == "." {
		return ""
	}
	return domain
}

func (z *zone) kind() index.Zone { return index.Zone{Dialect: z.dialect, Svc: z.origin != z.name} }

// below returns the labels of name in front of the origin, without a final dot. name is in the zone.
func (z *zone) below(name string) string {
	return strings.TrimSuffix(name[:len(name)-len(z.origin)], ".")
}

// public is a top-level domain in which others have registered names. The plugin always answers svcGlobal and the names below
// it.
const (
	public    = "global."
	svcGlobal = "svc.global."
)

// passesOn reports whether name may be a public name, which the next plugin answers. name is in lower case and in the zone.
func (z *zone) passesOn(name string) bool {
	return z.name == public && !within(name, svcGlobal) && z.kind().Fixed(z.below(name)) == index.NameError
}

// zones are the zones of the plugin, longest first, so that the first to match is the closest.
type zones []*zone

func (zs zones) sort() {
	slices.SortStableFunc(zs, func(a, b *zone) int { return len(b.name) - len(a.name) })
	for i, inner := range zs {
		for _, outer := range zs[i+1:] {
			if dns.IsSubDomain(outer.name, inner.name) {
				outer.nested = append(outer.nested, innerZone{name: inner.name})
			}
		}
	}
}

// nest adds the zones of other server blocks that are within zs.
func (zs zones) nest(others []innerZone) {
	for _, z := range zs {
		for _, other := range others {
			if other.name != z.name && dns.IsSubDomain(z.name, other.name) {
				z.nested = append(z.nested, other)
			}
		}
	}
}

// leadsTo reports whether a zone within z is below name at a server's address. Then name exists, at least as an empty non-terminal
// (RFC 8020). It is also true if name is in another server block's zone, as in a DS query: that zone knows which names exist.
func (z *zone) leadsTo(name, addr string) bool {
	return slices.ContainsFunc(z.nested, func(inner innerZone) bool {
		return inner.servedAt(addr) && (dns.IsSubDomain(name, inner.name) || dns.IsSubDomain(inner.name, name))
	})
}

// hides reports whether a zone within z answers for name. A transfer, which this is for, isn't told its server's address.
func (z *zone) hides(name string) bool {
	return slices.ContainsFunc(z.nested, func(inner innerZone) bool { return dns.IsSubDomain(inner.name, name) })
}

// cuts returns the zones directly within z, each once.
func (z *zone) cuts() []string {
	var cuts []string
	for _, inner := range z.nested {
		if !slices.Contains(cuts, inner.name) && !slices.ContainsFunc(z.nested, func(other innerZone) bool {
			return other.name != inner.name && dns.IsSubDomain(other.name, inner.name)
		}) {
			cuts = append(cuts, inner.name)
		}
	}
	return cuts
}

// match returns the closest zone that contains name, which is in lower case, or nil.
func (zs zones) match(name string) *zone {
	for _, z := range zs {
		if within(name, z.name) {
			return z
		}
	}
	return nil
}

// within reports whether name is in a domain, both in lower case.
func within(name, domain string) bool {
	at := len(name) - len(domain)
	switch {
	case at < 0 || name[at:] != domain:
		return false
	case at == 0 || domain == ".":
		return true
	case name[at-1] != '.':
		return false
	}
	// A dot after a backslash may be part of a label. Only such names take the slow path.
	return at < 2 || name[at-2] != '\\' || dns.IsSubDomain(domain, name)
}

// longest returns the length of the longest zone's name, as index.Options.LongestZone takes it.
func (zs zones) longest() int {
	n := 0
	for _, z := range zs {
		n = max(n, len(suffix(z.origin)))
	}
	return n
}
