package express

import (
	"slices"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

func config(zone, port string, hosts ...string) *dnsserver.Config {
	return &dnsserver.Config{Zone: zone, Port: port, Transport: "dns", ListenHosts: hosts}
}

func TestAddressesAreWrittenAsCoreDNSDoes(t *testing.T) {
	tls := config("a.", "853", "")
	tls.Transport = "tls"
	quic := config("a.", "8853", "")
	quic.Transport = "quic"
	b := Block{Configs: []*dnsserver.Config{config("a.", "53", "", "0:0:0:0:0:0:0:1"), config("b.", "53", "", "::1"), tls, quic}}
	if got, want := b.Addresses(), []string{"dns://:53", "dns://[::1]:53", "tls://:853"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRefusals(t *testing.T) {
	const zone = "clusterset.local."
	debug, tsig, view := config("x.", "53", ""), config("x.", "53", ""), config("x.", "53", "")
	debug.Debug = true
	tsig.TsigSecret = map[string]string{"key.": "c2VjcmV0"}
	shed := config("example.org.", "53", "")
	shed.UDPDecorateWriterFunc = func(*dnsserver.Server) dns.DecorateWriter { return nil }
	view.FilterFuncs = []dnsserver.FilterFunc{nil}
	plain := config(zone, "853", "")
	plain.Transport = "tls"
	for _, c := range []struct {
		name string
		mine []*dnsserver.Config
		rest []*dnsserver.Config
		want string
	}{
		{"our zone's block", []*dnsserver.Config{config(zone, "53", "")}, nil, ""},
		{"the root's", []*dnsserver.Config{config(".", "53", "")}, []*dnsserver.Config{config("example.org.", "53", "")}, ""},
		{"any port", []*dnsserver.Config{config(zone, "0", "")}, nil, "the port isn't fixed"},
		{"tls:// without tls", []*dnsserver.Config{plain}, nil, "the server block has no tls, so CoreDNS doesn't encrypt"},
		{"debug", []*dnsserver.Config{config(zone, "53", "")}, []*dnsserver.Config{debug}, "debug is on"},
		{"tsig", []*dnsserver.Config{config(zone, "53", "")}, []*dnsserver.Config{tsig}, "a server block at this address has tsig"},
		{"view", []*dnsserver.Config{config(zone, "53", "")}, []*dnsserver.Config{view}, "a server block at this address has a view"},
		{"shed in another block", []*dnsserver.Config{config(".", "53", "")}, []*dnsserver.Config{shed}, "another server block at this address has clusterset or writes replies in its own way, as shed does"},
		{"a block for another zone", []*dnsserver.Config{config("example.org.", "53", "")}, nil, "queries for clusterset.local. don't reach the server block"},
		{"a zone within ours", []*dnsserver.Config{config(zone, "53", "")}, []*dnsserver.Config{config("a.clusterset.local.", "53", "")}, "another server block at this address has the zone a.clusterset.local."},
		{"a zone between", []*dnsserver.Config{config(".", "53", "")}, []*dnsserver.Config{config("local.", "53", "")}, "another server block at this address has the zone local."},
		{"at another address", []*dnsserver.Config{config(".", "53", "")}, []*dnsserver.Config{config("local.", "54", "")}, ""},
	} {
		b := Block{Configs: c.mine, Others: c.rest}
		a := &Answers{Zones: []Zone{{Name: zone, Origin: zone, Kind: index.Zone{}}}}
		if got := b.Refuse(b.Addresses()[0], a); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
