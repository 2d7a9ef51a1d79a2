package clusterset

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheNameServersAddressesAreUsable(t *testing.T) {
	machine := strings.Trim(fmt.Sprint(interfaceAddrs()), "[]")
	for hosts, want := range map[string]string{
		"10.0.0.1 ::ffff:10.0.0.2 fd00::1": "10.0.0.1 10.0.0.2 fd00::1",
		"10.0.0.1 fe80::1%eth0 fe80::1":    "10.0.0.1", // an interface, as bind lists it
		"fe80::1%eth0":                     "",
		"169.254.20.10":                    "169.254.20.10", // NodeLocal DNSCache's: link-local IPv4 needs no zone
		"":                                 machine,
		"10.0.0.1 ::":                      machine,
	} {
		if got := strings.Trim(fmt.Sprint(boundAddrs(strings.Split(hosts, " "))), "[]"); got != want {
			t.Errorf("%q: got %s, want %s", hosts, got, want)
		}
	}
}
