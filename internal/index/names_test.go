package index

import (
	"net/netip"
	"testing"

	"github.com/clusterset/clusterset/api"
)

// FuzzHostnameOf expects a DNS label for each address, and different labels for different addresses.
func FuzzHostnameOf(f *testing.F) {
	for _, s := range []string{"::", "::1", "1::", "fd00::", "::ffff:0:0:0", "10.0.0.1", "0:1:0:1:0:1:0:1", "::1:0:0", "0:0:1::"} {
		a := netip.MustParseAddr(s)
		f.Add(a.AsSlice(), a.Next().AsSlice())
		f.Add(a.AsSlice(), netip.MustParseAddr("102:304::").AsSlice())
	}
	f.Fuzz(func(t *testing.T, one, other []byte) {
		a, ok := netip.AddrFromSlice(one)
		b, ok2 := netip.AddrFromSlice(other)
		if !ok || !ok2 {
			t.Skip("no addresses")
		}
		a, b = a.Unmap(), b.Unmap() // like every address in an Index
		for _, addr := range []netip.Addr{a, b} {
			if err := api.CheckLabel(HostnameOf(addr)); err != nil {
				t.Errorf("HostnameOf(%s) = %s %v", addr, HostnameOf(addr), err)
			}
		}
		if (a == b) != (HostnameOf(a) == HostnameOf(b)) {
			t.Errorf("HostnameOf(%s) = %s, HostnameOf(%s) = %s", a, HostnameOf(a), b, HostnameOf(b))
		}
	})
}
