package clusterset

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// A record that fits into no packet would end a transfer, and every other service's names would be missing. Port names of 63
// characters are legal in Kubernetes, but with the underscore they are too long for a label. A long zone leaves no room for
// ports and clusters in front of long service names. Rule A59 of docs/spec/answers.md.
func TestTransferSendsOnlyWhatQueriesGet(t *testing.T) {
	long := strings.Repeat("l", 63)
	endpoint := index.Endpoint{Addr: netip.MustParseAddr("10.3.0.1"), Ready: true}
	for _, zoneName := range []string{"clusterset.local.", "global.", ".", strings.Repeat("z.", 60)} {
		c := newFuzzPlugin(zoneName)
		c.zones[0].dialect = index.Global
		for _, headless := range []bool{false, true} {
			key := index.NewServiceKey(long, fmt.Sprintf("%t%s", headless, long)[:63])
			c.index.Put(&index.GlobalService{
				Service: key, Headless: headless, Ports: []index.Port{{Name: long, Number: 1}, {Name: "p", Number: 2}},
				Groups: []index.Group{{Cluster: long, Ports: []index.Port{{Name: long, Number: 1}}, Endpoints: []index.Endpoint{endpoint}}},
			})
		}
		ch, err := c.Transfer(zoneName, 0)
		if err != nil {
			t.Fatal(err)
		}
		for rrs := range ch {
			for _, rr := range rrs {
				checkTransferred(t, c, rr)
			}
		}
	}
}

func checkTransferred(t *testing.T, c *ClusterSet, rr dns.RR) {
	t.Helper()
	packed, err := (&dns.Msg{Answer: []dns.RR{rr}}).Pack()
	if err == nil {
		err = new(dns.Msg).Unpack(packed) // Pack checks the length of labels, but not of names
	}
	if err != nil {
		t.Errorf("%v: %s", err, rr)
		return
	}
	w := &discard{} // over TCP, where every answer fits
	_, _ = c.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion(rr.Header().Name, rr.Header().Rrtype))
	same := func(answer dns.RR) bool { return answer.String() == rr.String() }
	if w.msg == nil || !slices.ContainsFunc(w.msg.Answer, same) {
		t.Errorf("%s is transferred, but queries get\n%v", rr, w.msg)
	}
}
