package clusterset_test

import (
	"fmt"
	"io"
	"maps"
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
	"10-1-0-4.c1.churn.chain.svc.clusterset.local.": {dns.TypeA: {"10.1.0.4", "NXDOMAIN"}, dns.TypeAAAA: {"NODATA", "NXDOMAIN"}, dns.TypeSRV: {"NODATA", "NXDOMAIN"}},
	"nginx.chain.svc.global.": {
		dns.TypeA: {"10.2.0.1 10.2.0.2", "10.2.0.3"}, dns.TypeAAAA: {"fd00:2::1", "fd00:2::3"}, dns.TypeSRV: {"80 nginx.chain.svc.global."},
	},
	"gone.chain.svc.global.":              {dns.TypeA: {"10.2.0.9", "NXDOMAIN"}, dns.TypeAAAA: {"NODATA", "NXDOMAIN"}, dns.TypeSRV: {"80 gone.chain.svc.global.", "NXDOMAIN"}},
	"many.chain.svc.clusterset.local.":    {dns.TypeA: {strings.Join(manyAddrs(), " ")}, dns.TypeSRV: {strings.Join(manyTargets(), " ")}},
	"missing.chain.svc.clusterset.local.": {dns.TypeA: {"NXDOMAIN"}, dns.TypeAAAA: {"NXDOMAIN"}, dns.TypeSRV: {"NXDOMAIN"}},
	"missing.chain.svc.global.":           {dns.TypeA: {"NXDOMAIN"}, dns.TypeAAAA: {"NXDOMAIN"}, dns.TypeSRV: {"NXDOMAIN"}},
	"chain.svc.clusterset.local.":         {},
	"dns-version.clusterset.local.":       {},
}

// many returns a text for each of more addresses than fit into a packet.
func many(text func(addr string) string) []string {
	all := make([]string, 60)
	for i := range all {
		all[i] = text(fmt.Sprintf("10.3.0.%d", 100+i))
	}
	return all
}

func manyAddrs() []string { return many(func(addr string) string { return addr }) }

func manyTargets() []string {
	return many(func(addr string) string {
		return "8080 " + strings.ReplaceAll(addr, ".", "-") + ".c1.many.chain.svc.clusterset.local."
	})
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
// The cache keeps the records that it receives and passes on copies, so changes to records are visible only in a chain without it. It keeps
// replies of clusterset's zones only because a name in each could fall through.
func TestChain(t *testing.T) {
	t.Run("with cache", func(t *testing.T) { runChain(t, true) })
	t.Run("without cache", func(t *testing.T) { runChain(t, false) })
}

func runChain(t *testing.T, cached bool) {
	clog.SetOutput(io.Discard) // the log plugin writes a line for each query
	t.Cleanup(func() { clog.SetOutput(os.Stderr) })
	dir := t.TempDir()
	keyFile, key := writeZoneKey(t, dir)
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
    clusterset clusterset.local svc.global {
        ttl %d
        fallthrough legacy.clusterset.local legacy.svc.global
    }
}
`, rewrittenTTL, map[bool]string{true: "cache 1"}[cached], keyFile, chainTTL), "manifests "+manifests))

	var asking sync.WaitGroup
	var changes atomic.Int32
	for i := range askers {
		asking.Go(func() {
			a := &chainAsker{server: s, cached: cached, key: key, random: rand.New(rand.NewPCG(1, uint64(i)))} //nolint:gosec // not for secrets
			pace := time.NewTicker(5 * time.Millisecond)                                                       // leaves CPU time to the server
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
	done := make(chan struct{})
	go func() { asking.Wait(); close(done) }()
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

// chainAsker sends one query after another and checks the replies.
type chainAsker struct {
	server *liveServer
	cached bool // whether the chain has the cache plugin
	key    *dns.DNSKEY
	random *rand.Rand
}

var chainTypes = []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeMX}

// ask sends a random query of chainNames and chainTypes, with random EDNS options and transport.
func (a *chainAsker) ask() error {
	names := slices.Sorted(maps.Keys(chainNames))
	if a.cached {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "long.") })
	}
	name := names[a.random.IntN(len(names))]
	asked := name
	if at := a.random.IntN(2 * len(name)); at < len(name) { // in other letters, half of the time
		asked = strings.ToUpper(name[:at]) + name[at:]
	}
	m := new(dns.Msg).SetQuestion(asked, chainTypes[a.random.IntN(len(chainTypes))])
	do := false
	if a.random.IntN(2) == 0 {
		do = a.random.IntN(2) == 0
		m.SetEdns0(uint16(512+a.random.IntN(4000)), do) //nolint:gosec // fits
	}
	client, addr := &dns.Client{Timeout: exchangeTimeout}, a.server.udp
	if a.random.IntN(4) == 0 {
		client.Net, addr = "tcp", a.server.tcp
	}
	r, _, err := client.Exchange(m, addr)
	if err == nil {
		err = a.check(name, m, r, do)
	}
	if err != nil {
		return fmt.Errorf("%w\n;; %v over %q got\n%v", err, m.Question[0].String(), client.Net, r)
	}
	return nil
}

func (a *chainAsker) check(name string, m, r *dns.Msg, do bool) error {
	q := m.Question[0]
	switch {
	case len(r.Question) != 1 || r.Question[0] != q:
		return fmt.Errorf("the question comes back as %v", r.Question)
	case r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeNameError:
		return fmt.Errorf("got %s", dns.RcodeToString[r.Rcode])
	case (r.IsEdns0() != nil) != (m.IsEdns0() != nil):
		return fmt.Errorf("EDNS in the query: %v, in the reply: %v", m.IsEdns0() != nil, r.IsEdns0() != nil)
	}
	if err := a.checkRecords(name, r, do); err != nil {
		return err
	}
	got := chainAnswer(r)
	want := chainNames[name][q.Qtype]
	switch {
	case want == nil && slices.Contains(chainNames[name][dns.TypeA], "NXDOMAIN"):
		want = []string{"NXDOMAIN", "NODATA"}
	case want == nil:
		want = []string{"NODATA"}
	}
	// The dnssec plugin proves that a name doesn't exist with a NODATA reply (black lies).
	if slices.Contains(want, "NXDOMAIN") && got == "NODATA" && do {
		return nil
	}
	if r.Truncated && slices.ContainsFunc(want, func(w string) bool { return holdsAll(w, got) }) {
		return nil // the records that fit belong to a correct answer
	}
	if !slices.Contains(want, got) {
		return fmt.Errorf("got %s, want one of %q", got, want)
	}
	return nil
}

// checkRecords checks owners, TTLs and signatures.
func (a *chainAsker) checkRecords(name string, r *dns.Msg, do bool) error {
	for _, rr := range append(slices.Clone(r.Answer), r.Ns...) {
		h := rr.Header()
		_, isSig := rr.(*dns.RRSIG)
		switch {
		case isSig && !do:
			return fmt.Errorf("a signature that wasn't asked for: %v", rr)
		case isSig || h.Rrtype == dns.TypeNSEC: // the dnssec plugin sets their TTLs
			continue
		case strings.HasPrefix(name, "brief."): // the rewrite plugin sets the TTL of negative replies too
			if h.Ttl != rewrittenTTL {
				return fmt.Errorf("the TTL of %v is not the rewritten %d", rr, rewrittenTTL)
			}
		case h.Ttl == 0 || h.Ttl > chainTTL || h.Ttl < chainTTL && !a.cached:
			return fmt.Errorf("the TTL of %v is not %d, nor what a cache leaves of it", rr, chainTTL)
		}
	}
	for _, rr := range r.Answer {
		owner, asked := rr.Header().Name, r.Question[0].Name
		// The cache plugin and the dnssec plugin's cache of signatures keep the letter case of the first query; rewrite writes
		// lower case.
		exact := !a.cached && rr.Header().Rrtype != dns.TypeRRSIG && !strings.HasPrefix(name, "short.")
		if !strings.EqualFold(owner, asked) || exact && owner != asked {
			return fmt.Errorf("%v is about another name than %s", rr, asked)
		}
	}
	for _, rr := range r.Ns {
		owner := strings.ToLower(rr.Header().Name)
		if rr.Header().Rrtype == dns.TypeSOA && owner != "clusterset.local." && owner != "svc.global." {
			return fmt.Errorf("the SOA is that of %s", owner)
		}
	}
	if !do || !strings.HasSuffix(name, "clusterset.local.") || len(r.Answer) == 0 || r.Truncated {
		return nil
	}
	// As a validating resolver does, which sees a record that was changed or removed without the dnssec plugin's knowledge.
	isSig := func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeRRSIG }
	at := slices.IndexFunc(r.Answer, isSig)
	if at < 0 {
		return fmt.Errorf("no signature in a signed zone: %v", r.Answer)
	}
	sig := r.Answer[at].(*dns.RRSIG)
	if err := sig.Verify(a.key, slices.DeleteFunc(slices.Clone(r.Answer), isSig)); err != nil || !sig.ValidityPeriod(time.Now()) {
		return fmt.Errorf("%v isn't a valid signature: %w", sig, err)
	}
	return nil
}

// chainAnswer formats the answer like those in chainNames.
func chainAnswer(r *dns.Msg) string {
	if r.Rcode == dns.RcodeNameError {
		return "NXDOMAIN"
	}
	var data []string
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			data = append(data, rr.A.String())
		case *dns.AAAA:
			data = append(data, rr.AAAA.String())
		case *dns.SRV:
			data = append(data, fmt.Sprintf("%d %s", rr.Port, strings.ToLower(rr.Target)))
		case *dns.RRSIG:
		default:
			data = append(data, dns.TypeToString[rr.Header().Rrtype])
		}
	}
	if len(data) == 0 {
		return "NODATA"
	}
	slices.Sort(data)
	return strings.Join(data, " ")
}

// holdsAll reports whether whole contains every word of part, which lists some of the records.
func holdsAll(whole, part string) bool {
	words := strings.Fields(whole)
	return part == "NODATA" || !slices.ContainsFunc(strings.Fields(part), func(w string) bool { return !slices.Contains(words, w) })
}
