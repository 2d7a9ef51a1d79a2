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
	"sync/atomic"
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

const (
	chainTTL     = 20 // set in the Corefile
	rewrittenTTL = 3  // the rewrite plugin sets it for one name
	askers       = 12
	questions    = 250 // per asker; more if the objects haven't changed minChanges times yet
	minChanges   = 15
)

// chainNames maps each queried name and type to all correct answers. Names whose objects change have several. Other types are NODATA if
// the name exists.
var chainNames = map[string]map[uint16][]string{
	"web.chain.svc.clusterset.local.": {
		dns.TypeA: {"10.0.0.1 10.0.0.2"}, dns.TypeAAAA: {"fd00::1"}, dns.TypeSRV: {"80 web.chain.svc.clusterset.local."},
	},
	// The rewrite plugin rewrites this name to the next one. With a cache, the next one isn't queried directly: the cache keeps a reply
	// in the letter case of the first query, and the rewrite plugin only reverts names in the case that it wrote itself.
	"short.example.":                   {dns.TypeA: {"10.0.0.4 10.0.0.5"}, dns.TypeAAAA: {"fd00::4"}, dns.TypeSRV: {"80 short.example."}},
	"long.chain.svc.clusterset.local.": {dns.TypeA: {"10.0.0.4 10.0.0.5"}, dns.TypeAAAA: {"fd00::4"}, dns.TypeSRV: {"80 long.chain.svc.clusterset.local."}},
	"brief.chain.svc.clusterset.local.": {
		dns.TypeA: {"10.0.0.3"}, dns.TypeSRV: {"80 brief.chain.svc.clusterset.local."},
	},
	"churn.chain.svc.clusterset.local.": {
		dns.TypeA: {"10.1.0.1 10.1.0.2 10.1.0.3", "10.1.0.3 10.1.0.4"},
		dns.TypeSRV: {
			"8080 10-1-0-1.c1.churn.chain.svc.clusterset.local. 8080 10-1-0-2.c1.churn.chain.svc.clusterset.local. 8080 10-1-0-3.c1.churn.chain.svc.clusterset.local.",
			"8080 10-1-0-3.c1.churn.chain.svc.clusterset.local. 8080 10-1-0-4.c1.churn.chain.svc.clusterset.local.",
		},
	},
	"10-1-0-3.c1.churn.chain.svc.clusterset.local.": {dns.TypeA: {"10.1.0.3"}},
	"10-1-0-4.c1.churn.chain.svc.clusterset.local.": {dns.TypeA: {"10.1.0.4", "NXDOMAIN"}, dns.TypeAAAA: {"NODATA", "NXDOMAIN"}, dns.TypeSRV: {"NODATA", "NXDOMAIN"}, dns.TypeANY: {"HINFO", "NXDOMAIN"}},
	"nginx.chain.svc.global.": {
		dns.TypeA: {"10.2.0.1 10.2.0.2", "10.2.0.3"}, dns.TypeAAAA: {"fd00:2::1", "fd00:2::3"}, dns.TypeSRV: {"80 nginx.chain.svc.global."},
	},
	"gone.chain.svc.global.":              {dns.TypeA: {"10.2.0.9", "NXDOMAIN"}, dns.TypeAAAA: {"NODATA", "NXDOMAIN"}, dns.TypeSRV: {"80 gone.chain.svc.global.", "NXDOMAIN"}, dns.TypeANY: {"HINFO", "NXDOMAIN"}},
	"many.chain.svc.clusterset.local.":    {dns.TypeA: {strings.Join(manyAddrs(), " ")}, dns.TypeSRV: {strings.Join(manyTargets(), " ")}},
	"missing.chain.svc.clusterset.local.": {dns.TypeA: {"NXDOMAIN"}, dns.TypeAAAA: {"NXDOMAIN"}, dns.TypeSRV: {"NXDOMAIN"}, dns.TypeANY: {"NXDOMAIN"}},
	"missing.chain.svc.global.":           {dns.TypeA: {"NXDOMAIN"}, dns.TypeAAAA: {"NXDOMAIN"}, dns.TypeSRV: {"NXDOMAIN"}, dns.TypeANY: {"NXDOMAIN"}},
	"chain.svc.clusterset.local.":         {dns.TypeANY: {"NODATA"}},
	"dns-version.clusterset.local.":       {},
}

// manyAddrs returns more addresses than fit into a packet, sorted as text.
func manyAddrs() []string {
	addrs := make([]string, 60)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("10.3.0.%d", 100+i)
	}
	return addrs
}

func manyTargets() []string {
	addrs := manyAddrs()
	for i, a := range addrs {
		addrs[i] = "8080 " + strings.ReplaceAll(a, ".", "-") + ".c1.many.chain.svc.clusterset.local."
	}
	return addrs
}

// chainFiles are the two states between which the objects alternate.
var chainFiles = [2]map[string][]byte{
	{
		"churn.yaml": sliceYAML("chain", "churn-1", "churn", "c1", "10.1.0.1", "10.1.0.2", "10.1.0.3"),
		"nginx.yaml": globalYAML("chain", "nginx", "10.2.0.1", "10.2.0.2", "fd00:2::1"),
		"gone.yaml":  globalYAML("chain", "gone", "10.2.0.9"),
	},
	{
		"churn.yaml": sliceYAML("chain", "churn-1", "churn", "c1", "10.1.0.3", "10.1.0.4"),
		"nginx.yaml": globalYAML("chain", "nginx", "10.2.0.3", "fd00:2::3"),
		"gone.yaml":  nil,
	},
}

// TestChain puts every plugin that keeps, changes, copies or signs replies before clusterset, and queries from many goroutines while
// objects change. What a plugin does to one reply must not affect any other reply. The test is meant for the race detector.
//
// The cache keeps the records that it receives and passes on copies, so changes to records are visible only in a chain without it. In
// that chain, vandal makes the worst changes. The cache keeps replies of clusterset's zones only because a name in each could fall
// through.
func TestChain(t *testing.T) {
	t.Run("with cache", func(t *testing.T) { runChain(t, true) })
	t.Run("without cache", func(t *testing.T) { runChain(t, false) })
}

func runChain(t *testing.T, cached bool) {
	clog.SetOutput(io.Discard) // the log plugin writes a line for each query
	t.Cleanup(func() { clog.SetOutput(os.Stderr) })
	dir := t.TempDir()
	key := writeZoneKey(t, dir)
	manifests := filepath.Join(dir, "manifests")
	writeFile(t, filepath.Join(manifests, "steady.yaml"), slices.Concat(
		importYAML("chain", "web", "ClusterSetIP", "10.0.0.1", "10.0.0.2", "fd00::1"), []byte("---"),
		importYAML("chain", "long", "ClusterSetIP", "10.0.0.4", "10.0.0.5", "fd00::4"), []byte("---"),
		importYAML("chain", "brief", "ClusterSetIP", "10.0.0.3"), []byte("---"),
		importYAML("chain", "churn", "Headless"), []byte("---"), importYAML("chain", "many", "Headless"), []byte("---"),
		sliceYAML("chain", "many-1", "many", "c1", manyAddrs()...),
	))
	setChainState(t, manifests, 0)
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
    rewrite ttl exact brief.chain.svc.clusterset.local. %d
    %s
    dnssec clusterset.local {
        key file %s
    }
    minimal
    transfer clusterset.local {
        to *
    }
    clusterset clusterset.local svc.global {
        ttl %d
        fallthrough legacy.clusterset.local legacy.svc.global
    }
}
`, rewrittenTTL, map[bool]string{true: "cache 1", false: "vandal\n    lookout"}[cached], filepath.Join(dir, key.file), chainTTL), "manifests "+manifests))

	var asking sync.WaitGroup
	var changes atomic.Int32
	for i := range askers {
		asking.Go(func() {
			a := &chainAsker{server: s, cached: cached, key: key.public, random: rand.New(rand.NewPCG(1, uint64(i)))} //nolint:gosec // not for secrets
			pace := time.NewTicker(5 * time.Millisecond)                                                              // leaves CPU time to the server
			defer pace.Stop()
			for n := 0; n < questions || changes.Load() < minChanges; n++ {
				<-pace.C
				if err := a.ask(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	asking.Go(func() {
		for range 10 {
			if err := checkTransfer(s); err != nil {
				t.Error(err)
				return
			}
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		asking.Wait()
	}()
	tick := time.NewTicker(3 * time.Second / minChanges) // the directory is read once it has been quiet for a moment
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			setChainState(t, manifests, int(changes.Add(1)%2))
		}
	}
}

// setChainState writes each file under another name and renames it, so that the server never reads half a file.
func setChainState(t *testing.T, dir string, state int) {
	t.Helper()
	for name, data := range chainFiles[state] {
		path := filepath.Join(dir, name)
		if data == nil {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		writeFile(t, path+".new", data)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

type zoneKey struct {
	file   string
	public *dns.DNSKEY
}

// writeZoneKey makes a key as dnssec-keygen does.
func writeZoneKey(t *testing.T, dir string) zoneKey {
	t.Helper()
	key := &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: "clusterset.local.", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600},
		Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}
	private, err := key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("Kclusterset.local.+%03d+%05d", key.Algorithm, key.KeyTag())
	writeFile(t, filepath.Join(dir, name+".key"), []byte(key.String()+"\n"))
	writeFile(t, filepath.Join(dir, name+".private"), []byte(key.PrivateKeyString(private)))
	return zoneKey{name, key}
}
