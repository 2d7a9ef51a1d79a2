package topology

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/clusterset/clusterset/test/rank"
)

// within returns which of the addresses are within a share.
func within(percent int, all []netip.Addr) map[netip.Addr]bool {
	s, in := NewShare(percent, all), map[netip.Addr]bool{}
	for _, addr := range all {
		if !s.Spare(addr, false) {
			in[addr] = true
		}
	}
	return in
}

// missing counts what a has and b hasn't.
func missing(a, b map[netip.Addr]bool) (n int) {
	for addr := range a {
		if !b[addr] {
			n++
		}
	}
	return n
}

// A share has so many of the endpoints of each family, rounded up. A larger one has the same and more, and one that goes takes at most one other
// along. Rule A80 of docs/spec/answers.md.
func TestShare(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 0)) //nolint:gosec // repeatable on purpose
	for n := range 60 {
		var all []netip.Addr
		for i := range n {
			all = append(all, netip.AddrFrom4([4]byte{10, 1, byte(i / 8), byte(2 + r.IntN(250))}), netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i)}))
		}
		all = append(all, all...) // each is in two slices
		distinct := map[bool]map[netip.Addr]bool{true: {}, false: {}}
		for _, addr := range all {
			distinct[addr.Is4()][addr] = true
		}
		before := map[netip.Addr]bool{}
		for _, percent := range []int{0, 1, 10, 25, 33, 34, 50, 75, 99, 100} {
			in, spare := within(percent, all), rank.Spare(percent, all)
			for _, addr := range all {
				if in[addr] == spare[addr] {
					t.Fatalf("%d%% of %d: %s is within: %t, want the opposite", percent, n, addr, in[addr])
				}
			}
			for v4, of := range distinct {
				count, want := 0, (len(of)*percent+99)/100
				for addr := range in {
					if addr.Is4() == v4 {
						count++
					}
				}
				if count != want {
					t.Errorf("%d%% of %d are %d, want %d", percent, len(of), count, want)
				}
			}
			if missing(before, in) > 0 {
				t.Errorf("%d%% of %d lack %d of a smaller share", percent, n, missing(before, in))
			}
			before = in
			if n > 0 {
				fewer := within(percent, all[2:n*2])
				delete(in, all[0])
				delete(in, all[1])
				if a, b := missing(in, fewer), missing(fewer, in); a+b > 2 { // one of each family
					t.Errorf("%d%% of %d: if one goes, %d others leave and %d come", percent, n, a, b)
				}
			}
		}
	}
	if s := (*Share)(nil); s.Spare(netip.IPv6Loopback(), false) {
		t.Error("without a share an endpoint is spare")
	}
	for percent, want := range map[int]bool{0: true, 1: false} {
		if got := NewShare(percent, nil).Spare(netip.IPv6Loopback(), true); got != want {
			t.Errorf("an address that stands for a Service is spare at %d%%: %t", percent, got)
		}
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "25": 25, "100": 100} {
		if got, err := ParseShare(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "101", "25%", "0.5", "half", " 1"} {
		if _, err := ParseShare(text); err == nil {
			t.Errorf("%q is a share", text)
		}
	}
	shares := map[string]int{"beijing": 25, "shanghai": 0}
	if got, err := ParseShares("beijing=25 shanghai=0"); !maps.Equal(got, shares) || err != nil || FormatShares(got) != "beijing=25 shanghai=0" {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"beijing", "beijing=", "beijing=101", "beijing=1,shanghai=2"} {
		if got, err := ParseShares(text); got != nil || err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if p := (Policy{Shares: shares}); p.IsZero() || p.Equal(Policy{}) || p.String() != "shares beijing=25 shanghai=0" || !p.Or(Policy{}).Equal(p) {
		t.Errorf("%+v", p)
	}
}
