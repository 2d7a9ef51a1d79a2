package index

import "net/netip"

// HostnameOf returns the host name of an endpoint that has none of its own: its address with dots or colons replaced by
// dashes. If an IPv6 address would begin or end with a dash, it gets a 0 there, so that it is a valid label. The result
// is as unique as the address.
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
