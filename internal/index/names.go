package index

import "net/netip"

// HostnameOf returns the label that stands for an address where the endpoint names none: the address with its dots or
// colons turned to dashes. An IPv6 address that would begin or end with a dash gets a 0 there, so that it stays a valid
// label; the result is as unique as the address.
func HostnameOf(addr netip.Addr) string {
	b := addr.AppendTo(make([]byte, 0, 48))
	for i, c := range b {
		if c == '.' || c == ':' {
			b[i] = '-'
		}
	}
	if b[len(b)-1] == '-' {
		b = append(b, '0')
	}
	if b[0] == '-' {
		return "0" + string(b)
	}
	return string(b)
}
