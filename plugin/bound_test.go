package clusterset

import (
	"net/netip"
	"slices"
	"testing"
)

func TestTheNameServersAddressesAreUsable(t *testing.T) {
	machine := interfaceAddrs()
	for _, c := range []struct {
		name  string
		hosts []string
		want  []netip.Addr
	}{
		{"as bound", []string{"10.0.0.1", "::ffff:10.0.0.2", "fd00::1"}, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::1")}},
		{"an interface, as bind lists it", []string{"10.0.0.1", "fe80::1%eth0", "fe80::1"}, []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		{"only a link-local address", []string{"fe80::1%eth0"}, nil},
		{"NodeLocal DNSCache's address is link-local, and IPv4 needs no zone", []string{"169.254.20.10"}, []netip.Addr{netip.MustParseAddr("169.254.20.10")}},
		{"everywhere", []string{""}, machine},
		{"everywhere, and an address", []string{"10.0.0.1", "::"}, machine},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := boundAddrs(c.hosts); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
