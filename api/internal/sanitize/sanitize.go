// Package sanitize has the functions that the Sanitized methods of our API types share. Each keeps the valid part of a list and
// counts the rest, with errors that say what would be valid.
package sanitize

import (
	"errors"
	"net/netip"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
)

// At returns the path of a field of the endpoint being checked. It is called for errors only: paths for every field of every
// endpoint would be most of what an update allocates.
type At func(child string) *field.Path

// Addresses returns the valid ones of the first addresses in a new list, in canonical form and without duplicates, and only those of the given
// family if it isn't empty. An empty list is an error.
func Addresses(addresses []string, family corev1.IPFamily, limit int, at At, left *api.LeftOut) []string {
	if len(addresses) == 0 {
		left.Add(func() *field.Error { return field.Required(at("addresses"), "an endpoint has at least one address") })
		return nil
	}
	if len(addresses) > limit {
		addresses = Limit(addresses, limit, at("addresses"), left)
	}
	kept := make([]string, 0, len(addresses))
	for i, s := range addresses {
		addr, err := api.ParseAddress(s)
		if err == nil && family != "" && Family(addr) != family {
			err = errors.New("must be an " + string(family) + " address, as the address type says")
		}
		if err != nil {
			left.Add(func() *field.Error { return Invalid(at("addresses").Index(i), s, err) })
			continue
		}
		var buffer [len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")]byte
		if canonical := addr.AppendTo(buffer[:0]); string(canonical) != s {
			s = string(canonical)
		}
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// Family returns the family of an address that api.ParseAddress returned.
func Family(addr netip.Addr) corev1.IPFamily {
	if addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// Location returns a zone or region unchanged, or "" (unknown) if it is invalid or has more than limit characters.
func Location(s string, limit int, at At, child string, left *api.LeftOut) string {
	if err := api.CheckLocation(s); err != nil {
		left.Add(func() *field.Error { return Invalid(at(child), s, err) })
		return ""
	}
	if utf8.RuneCountInString(s) > limit {
		left.Add(func() *field.Error { return field.TooLong(at(child), "", limit) })
		return ""
	}
	return s
}

// Hostname returns an endpoint's hostname unchanged, or nil if it is empty or not a DNS label.
func Hostname(s *string, at At, left *api.LeftOut) *string {
	if s == nil || *s == "" {
		return nil
	}
	if err := api.CheckLabel(*s); err != nil {
		left.Add(func() *field.Error { return Invalid(at("hostname"), *s, err) })
		return nil
	}
	return s
}

// AppProtocol returns a port's application protocol unchanged, or nil if the API server would reject it.
func AppProtocol(s *string, path *field.Path, left *api.LeftOut) *string {
	if s == nil || len(validation.IsQualifiedName(*s)) == 0 {
		return s
	}
	left.Add(func() *field.Error {
		return field.Invalid(path, Printable(*s), "must be a protocol's name, such as http or example.com/mine")
	})
	return nil
}

// Limit cuts a list that is too long at its end.
func Limit[T any](list []T, limit int, path *field.Path, left *api.LeftOut) []T {
	if len(list) <= limit {
		return list
	}
	left.Add(func() *field.Error { return field.TooMany(path, len(list), limit) })
	return list[:limit]
}

// Ports are the ports kept so far of one list. The zero value is empty.
type Ports struct {
	// NumbersRepeat allows a (protocol, port) to occur several times. Two ports of a service may lead to one port of a backend.
	NumbersRepeat bool
	// NamesRequired rejects an empty name, like a Service with several ports.
	NamesRequired bool

	names   map[string]bool
	numbers map[portNumber]bool
}

type portNumber struct {
	protocol corev1.Protocol
	port     int32
}

// Keep checks a port, also against those kept before it, and reports whether it can be kept. Names must be unique, because SRV
// queries have names.
func (p *Ports) Keep(name string, protocol corev1.Protocol, port int32, path *field.Path, left *api.LeftOut) bool {
	if err := p.check(name, protocol, port, path); err != nil {
		left.Add(func() *field.Error { return err })
		return false
	}
	if p.names == nil {
		p.names, p.numbers = map[string]bool{}, map[portNumber]bool{}
	}
	p.names[name], p.numbers[portNumber{protocol, port}] = true, true
	return true
}

func (p *Ports) check(name string, protocol corev1.Protocol, port int32, path *field.Path) *field.Error {
	switch protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		return NotSupported(path.Child("protocol"), protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
	if port < 1 || port > 65535 {
		return field.Invalid(path.Child("port"), port, "must be a port number, 1 to 65535")
	}
	switch {
	case name == "" && p.NamesRequired:
		return field.Required(path.Child("name"), "each port needs a name where there are several")
	case name == "":
	case api.CheckLabel(name) != nil:
		return field.Invalid(path.Child("name"), Printable(name), api.CheckLabel(name).Error())
	case p.names[name]:
		return field.Duplicate(path.Child("name"), name)
	}
	if !p.NumbersRepeat && p.numbers[portNumber{protocol, port}] {
		return field.Duplicate(path.Child("port"), port)
	}
	return nil
}

// NotSupported is the error of an untrusted value that is none of the valid ones.
func NotSupported[T ~string](path *field.Path, value T, valid ...T) *field.Error {
	return field.NotSupported(path, T(Printable(string(value))), valid)
}

// Invalid is the error of an untrusted value.
func Invalid(path *field.Path, value string, why error) *field.Error {
	return field.Invalid(path, Printable(value), why.Error())
}

// Printable shortens a value for an error message: untrusted values may be as long as an object.
func Printable(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
