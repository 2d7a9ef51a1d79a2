package clusterset_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/coredns/coredns/plugin/dnssec"   // for the chain
	_ "github.com/coredns/coredns/plugin/errors"   // for the chain
	_ "github.com/coredns/coredns/plugin/log"      // for the chain
	_ "github.com/coredns/coredns/plugin/metadata" // for the chain
	_ "github.com/coredns/coredns/plugin/metrics"  // for the chain
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"
)

// chainQuestions have one answer each. The rewrite plugin makes the short name a long one, and changes the TTL of the brief one.
var chainQuestions = []struct {
	name  string
	qtype uint16
	ttl   uint32
	want  string
}{
	{"web.chain.svc.clusterset.local.", dns.TypeA, 20, "10.0.0.1 10.0.0.2"},
	{"web.chain.svc.clusterset.local.", dns.TypeAAAA, 20, "fd00::1"},
	{"web.chain.svc.clusterset.local.", dns.TypeSRV, 20, "0 100 80 web.chain.svc.clusterset.local."},
	{"short.example.", dns.TypeA, 20, "10.0.0.4 10.0.0.5"},
	{"long.chain.svc.clusterset.local.", dns.TypeA, 20, "10.0.0.4 10.0.0.5"},
	{"brief.chain.svc.clusterset.local.", dns.TypeA, 3, "10.0.0.3"},
	{"nginx.chain.svc.global.", dns.TypeA, 20, "10.2.0.1 10.2.0.2"},
}

// TestChain puts every plugin that keeps, changes, copies or signs replies before clusterset, but the cache, which passes on copies, and queries
// from many goroutines. What a plugin does to one reply must not affect any other reply. The test is meant for the race detector.
func TestChain(t *testing.T) {
	clog.SetOutput(io.Discard) // the log plugin writes a line for each query
	t.Cleanup(func() { clog.SetOutput(os.Stderr) })
	dir := t.TempDir()
	keyFile, key := writeZoneKey(t, dir)
	writeFile(t, filepath.Join(dir, "manifests", "all.yaml"), documents(
		importYAML("chain", "web", "ClusterSetIP", "10.0.0.1", "10.0.0.2", "fd00::1"), importYAML("chain", "long", "ClusterSetIP", "10.0.0.4", "10.0.0.5"),
		importYAML("chain", "brief", "ClusterSetIP", "10.0.0.3"), globalYAML("chain", "nginx", "10.2.0.1", "10.2.0.2"),
	))
	s := startLive(t, withSource(fmt.Sprintf(`.:0 {
    bind 127.0.0.1
    metadata
    prometheus 127.0.0.1:0
    errors
    log . "{type} {name} {rcode} {/clusterset/zone} {/clusterset/service} {/clusterset/tier}"
    loadbalance
    rewrite stop {
        name exact short.example. long.chain.svc.clusterset.local.
    }
    rewrite ttl exact brief.chain.svc.clusterset.local. 3
    dnssec clusterset.local {
        key file %s
    }
    minimal
    clusterset clusterset.local svc.global {
        ttl 20
    }
}
`, keyFile), "manifests "+filepath.Join(dir, "manifests")))
	var askers sync.WaitGroup
	for i := range uint64(12) {
		askers.Go(func() {
			random := rand.New(rand.NewPCG(1, i)) //nolint:gosec // not for secrets
			for range 250 {
				if err := askChain(s, key, random); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	askers.Wait()
}

// askChain asks one of the questions, half of the time for signatures, and half of the time in capitals.
func askChain(s *liveServer, key *dns.DNSKEY, random *rand.Rand) error {
	q, signed := chainQuestions[random.IntN(len(chainQuestions))], random.IntN(2) == 0
	asked := q.name
	if q.name != "short.example." && random.IntN(2) == 0 { // rewrite writes lower case
		asked = strings.ToUpper(asked)
	}
	r, _, err := (&dns.Client{Timeout: exchangeTimeout}).Exchange(new(dns.Msg).SetQuestion(asked, q.qtype).SetEdns0(4096, signed), s.udp)
	if err != nil {
		return err
	}
	var data []string
	var sig *dns.RRSIG
	answer := slices.DeleteFunc(slices.Clone(r.Answer), func(rr dns.RR) bool {
		found, is := rr.(*dns.RRSIG)
		if is {
			sig = found
		}
		return is
	})
	for _, rr := range answer {
		data = append(data, strings.ToLower(strings.TrimPrefix(rr.String(), rr.Header().String())))
		if rr.Header().Name != asked || rr.Header().Ttl != q.ttl {
			err = fmt.Errorf("want %s with the TTL %d", asked, q.ttl)
		}
	}
	if slices.Sort(data); strings.Join(data, " ") != q.want {
		err = fmt.Errorf("want %s", q.want)
	}
	// As a validating resolver does, which sees a record that was changed or removed without the dnssec plugin's knowledge.
	if inZone := strings.HasSuffix(q.name, ".clusterset.local."); err == nil && inZone && signed {
		if sig == nil || !sig.ValidityPeriod(time.Now()) {
			err = fmt.Errorf("no valid signature: %v", sig)
		} else if invalid := sig.Verify(key, answer); invalid != nil {
			err = fmt.Errorf("%v: %w", sig, invalid)
		}
	} else if sig != nil && !signed {
		err = fmt.Errorf("a signature that wasn't asked for: %v", sig)
	}
	if err != nil {
		return fmt.Errorf("dig %s %s: %w\n%v", asked, dns.TypeToString[q.qtype], err, r)
	}
	return nil
}

// writeZoneKey makes a key as dnssec-keygen does, and returns the name of its files.
func writeZoneKey(t *testing.T, dir string) (file string, key *dns.DNSKEY) {
	t.Helper()
	key = &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: "clusterset.local.", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600},
		Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}
	private, err := key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, fmt.Sprintf("Kclusterset.local.+%03d+%05d", key.Algorithm, key.KeyTag()))
	writeFile(t, file+".key", []byte(key.String()+"\n"))
	writeFile(t, file+".private", []byte(key.PrivateKeyString(private)))
	return file, key
}
