package console

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/ownnet"
)

// A cluster's panel shows what its DNS servers answer. The console reads their metrics through the cluster's API server, which connects to no
// loopback address, so the server's metrics have one of this test's own network.
func TestTraffic(t *testing.T) {
	f := theFleet(t)
	beijing := f.Member("beijing")
	gate, err := faultproxy.NewGate(netip.AddrPortFrom(ownnet.Address, 0).String(), beijing.DNS.Metrics.Addr, 1, func(net.Conn) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	metrics := netip.MustParseAddrPort(gate.Addr())
	manifests, err := os.ReadFile("testdata/dns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pod, status, _ := strings.Cut(strings.NewReplacer("PORT", strconv.Itoa(int(metrics.Port())), "ADDRESS", metrics.Addr().String()).Replace(string(manifests)), "# status:\n")
	beijing.Apply(pod)
	t.Cleanup(func() { beijing.Remove(pod) })
	beijing.Plane.ApplyStatus(t, []byte(status))
	beijing.Apply(service(t, 1, true))
	t.Cleanup(func() { beijing.Remove(exportOfWeb) })
	answered := func() {
		kube.Eventually(t, func() error {
			r, err := beijing.DNS.Reply("web.live.svc.global", "A")
			if err == nil && len(r.Answer) == 0 {
				err = errors.New("it has no address")
			}
			return err
		})
	}
	answered()
	p := open(t, f.console("beijing"), "#/map?cluster=beijing")
	p.until(`/Names answered with addresses by 1 DNS server/.test(document.querySelector(".panel").innerText)`)
	answered()
	p.until(`/per second in the last \d+ s/.test(document.querySelector(".panel").innerText)`)
	p.until(`/(endpoints of its zone|a ClusterSetIP)\s+[\d.]+\/s, [1-9]\d* \(\d+ %\)/.test(document.querySelector(".panel").innerText)`)
	p.accessible()
}
