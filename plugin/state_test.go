package clusterset

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
)

// idle is a feed that the test controls.
type idle struct{}

func (idle) name() string { return "kubernetes" }

func (idle) run(ctx context.Context, _ *source) { <-ctx.Done() }

var thisCluster = statefile.Cluster{UID: "here"}

// keptSource is a source with one index that keeps a file.
func keptSource(t *testing.T, path string, maxAge time.Duration, namespaces ...string) *source {
	t.Helper()
	s := newSource(idle{})
	x := index.New(index.Options{LongestZone: len("clusterset.local."), Namespaces: namespaces})
	s.indexes = []*index.Index{x}
	s.keeper = newKeeper(snapshotOptions{path, maxAge}, s.label, func() statefile.Cluster { return thisCluster })
	s.keeper.indexes = []keptIndex{{x, namespaces}}
	return s
}

// pass lets time pass in a bubble of synctest, where it costs none.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock is not the real one
}

// syncAll makes these objects the source's only ones.
func syncAll(s *source, objects ...index.Object) {
	for _, k := range index.Kinds {
		s.reachable(k, true)
		s.replace(k, slices.DeleteFunc(slices.Clone(objects), func(o index.Object) bool { return o.Kind() != k }))
	}
}

func numberedVIP(n int) *index.ServiceImport {
	return vip("web", netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String())
}

func readState(t *testing.T, path string) *statefile.State {
	t.Helper()
	s, _, err := statefile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The file is written at the first sync, at most every 30 seconds however much changes, at the end, and not at all where
// nothing changes, but for its age.
func TestStateFileIsWrittenAtABoundedRate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		s := keptSource(t, path, 0)
		s.start()
		written, count := time.Time{}, 0
		look := func() bool {
			synctest.Wait()
			state, _, err := statefile.Read(path)
			if err != nil || state.Known.Equal(written) {
				return false
			}
			written, count = state.Known, count+1
			return true
		}
		pass(time.Hour)
		if look() {
			t.Error("written before the first sync")
		}
		syncAll(s, numberedVIP(0))
		pass(time.Second)
		if !look() {
			t.Error("not written at the first sync")
		}
		for i := range 600 { // one change a second for ten minutes
			s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(i), nil)
			pass(time.Second)
			look()
		}
		if count < 15 || count > 21 {
			t.Errorf("%d writes in ten minutes of changes", count)
		}
		pass(time.Minute)
		look()
		if got := readState(t, path).Objects; !reflect.DeepEqual(got, []index.Object{numberedVIP(599)}) {
			t.Errorf("the file has %v", got)
		}
		count = 0
		for range 59 {
			s.replace(index.KindServiceImport, []index.Object{numberedVIP(599)}) // listed again, and the same
			pass(time.Minute)
			look()
		}
		if count > 1 {
			t.Errorf("%d writes while nothing changed", count)
		}
		s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(1000), nil)
		s.close()
		if got := readState(t, path).Objects; !reflect.DeepEqual(got, []index.Object{numberedVIP(1000)}) {
			t.Errorf("at the end the file has %v", got)
		}
	})
}

// What no answer shows is not worth a write: not an object that is listed again, not one that says the same in other words.
func TestStateFileIsNotWrittenForWhatNoAnswerShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		write := writeState
		defer func() { writeState = write }()
		writeState = func(path string, s *statefile.State) error { writes++; return write(path, s) }
		s := keptSource(t, path, 0)
		s.start()
		syncAll(s, numberedVIP(0))
		pass(time.Minute)
		synctest.Wait()
		writes = 0
		for i := range 50 {
			o := numberedVIP(0)
			o.Ports = append(o.Ports, index.Port{Number: uint16(1000 + i)}) // without a name it has no SRV record
			s.put(index.KindServiceImport, index.ObjectID{}, o, nil)
			pass(time.Minute)
		}
		synctest.Wait()
		if writes > 1 {
			t.Errorf("%d writes", writes)
		}
		s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(1), nil)
		pass(time.Minute)
		synctest.Wait()
		if writes > 2 {
			t.Errorf("%d writes of one change", writes)
		}
		s.close()
	})
}

// A state that takes ten seconds to write is written every 200 seconds at most, however much changes, and again when the
// server ends.
func TestASlowWriteIsFollowedByALongRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began []time.Time
		write := writeState
		defer func() { writeState = write }()
		writeState = func(string, *statefile.State) error {
			began = append(began, time.Now())
			pass(10 * time.Second)
			return nil
		}
		s := keptSource(t, filepath.Join(t.TempDir(), "snapshot"), 0)
		s.start()
		syncAll(s, numberedVIP(0))
		for i := range 3550 { // the last write has ended then
			s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(i+1), nil)
			pass(time.Second)
		}
		synctest.Wait()
		if len(began) != 18 {
			t.Errorf("%d writes in an hour", len(began))
		}
		for i := 1; i < len(began); i++ {
			if rest := began[i].Sub(began[i-1]); rest < 200*time.Second {
				t.Errorf("write %d follows after %v", i, rest)
			}
		}
		n := len(began)
		s.close()
		if len(began) != n+1 {
			t.Error("not written at the end")
		}
	})
}

// The age of a file says when it was last known to hold: of a quiet cluster it stays young, of one that is lost it doesn't.
func TestStateFileAgeIsThatOfTheLastContact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		s := keptSource(t, path, time.Hour)
		s.start()
		syncAll(s, numberedVIP(0))
		age := func() time.Duration { return time.Since(readState(t, path).Known) }
		pass(10 * time.Hour)
		if age() > 20*time.Minute {
			t.Errorf("of a quiet cluster it is %v old", age())
		}
		s.reachable(index.KindEndpointSlice, false)
		pass(10 * time.Hour)
		if age() < 10*time.Hour {
			t.Errorf("of a lost cluster it is %v old", age())
		}
		s.close()
		if age() < 9*time.Hour+59*time.Minute {
			t.Errorf("of a lost cluster it is %v old once the server has ended", age())
		}
		late := keptSource(t, path, time.Hour)
		late.start()
		if late.indexes[0].Snapshot() != nil {
			t.Error("it is served, though too old")
		}
		late.close()
	})
}

// Secondaries never see a serial go back: not by a restart, not by a kill, not by a reload, not after a burst that let it run
// ahead of the clock.
func TestSerialsGoOnAcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		var last uint32
		check := func(what string, s *source) {
			t.Helper()
			snapshot := s.indexes[0].Snapshot()
			if snapshot == nil {
				t.Fatalf("%s: nothing is known", what)
			}
			if snapshot.Serial() < last {
				t.Errorf("%s: from %d to %d", what, last, snapshot.Serial())
			}
			last = snapshot.Serial()
		}
		n := 0
		burst := func(s *source, changes int) {
			for range changes {
				n++
				s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(n), nil)
			}
			check("burst", s)
		}
		for round := range 6 {
			s := keptSource(t, path, 0)
			s.start()
			if round > 0 {
				check("restored", s)
			}
			syncAll(s, numberedVIP(n))
			check("synced", s)
			burst(s, 200)
			pass(2 * time.Second)
			for range 20 { // far faster than the clock, which the file follows
				burst(s, 500)
				pass(3 * time.Second)
			}
			switch round % 3 {
			case 0:
				s.close()
			case 1: // killed in the middle of it: what it would have written at its end is lost
				burst(s, 500)
				s.keeper.mu.Lock()
				s.keeper.live = false
				s.keeper.mu.Unlock()
				s.close()
			case 2: // reloaded
				after := keptSource(t, path, 0)
				register(t, s, after)
				after.start()
				check("reloaded", after)
				s.close()
				syncAll(after, numberedVIP(n))
				check("reloaded and synced", after)
				after.close()
			}
		}
	})
}

func counterValue(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	m := &dto.Metric{}
	if err := c.Write(m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// register makes sources known as running.
func register(t *testing.T, all ...*source) {
	t.Helper()
	ss := &sources{byKey: map[string]*source{}}
	for i, s := range all {
		ss.byKey[string(rune('a'+i))] = s
	}
	started.mu.Lock()
	defer started.mu.Unlock()
	if started.all == nil {
		started.all = map[*sources]bool{}
	}
	started.all[ss] = true
	t.Cleanup(func() {
		started.mu.Lock()
		defer started.mu.Unlock()
		delete(started.all, ss)
	})
}

// Of two servers that overlap while one is reloaded the new one has the file: the old one writes it before the new one reads
// it, and never after.
func TestAReloadHandsTheStateFileOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		before, after := keptSource(t, path, 0), keptSource(t, path, 0)
		register(t, before, after)
		before.start()
		syncAll(before, numberedVIP(1))
		pass(time.Second)
		before.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(2), nil) // not written yet
		after.start()
		stale := after.indexes[0].Snapshot()
		if stale == nil || !stale.Stale() || stale.Service("web.ns").Set(index.MCS).Addrs[0] != numberedVIP(2).IPs[0] {
			t.Error("the new server doesn't know what the old one knew")
		}
		syncAll(after, numberedVIP(3))
		pass(time.Second)
		before.close()
		if got := readState(t, path).Objects; !reflect.DeepEqual(got, []index.Object{numberedVIP(3)}) {
			t.Errorf("the old server wrote last: %v", got)
		}
		after.close()
	})
}

func TestStateFilesOfNoUse(t *testing.T) {
	state := func(change func(*statefile.State)) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			s := &statefile.State{Known: time.Now().Add(-time.Minute), Cluster: thisCluster, Serial: 7, Objects: []index.Object{numberedVIP(1)}}
			change(s)
			if err := statefile.Write(path, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	garbage := func(data string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, row := range []struct {
		name   string
		write  func(t *testing.T, path string)
		result string
		serves bool
	}{
		{"a good one", state(func(*statefile.State) {}), "ok", true},
		{"of a cluster that isn't known by more than its UID", state(func(s *statefile.State) { s.Cluster = statefile.Cluster{} }), "ok", true},
		{"none", func(*testing.T, string) {}, "absent", false},
		{"another cluster's", state(func(s *statefile.State) { s.Cluster.UID = "there" }), "refused", false},
		{"too old", state(func(s *statefile.State) { s.Known = time.Now().Add(-2 * time.Hour) }), "refused", false},
		{"of tomorrow: some clock was wrong", state(func(s *statefile.State) { s.Known = time.Now().Add(24 * time.Hour) }), "ok", true},
		{"written for other namespaces", state(func(s *statefile.State) { s.Namespaces = []string{"other"} }), "ok", false},
		{"written for these and more", state(func(s *statefile.State) { s.Namespaces = []string{"ns", "other"} }), "ok", true},
		{"empty", garbage(""), "refused", false},
		{"text", garbage("{}"), "refused", false},
		{"of a later format", garbage(`{"apiVersion":"v1","kind":"List","state":{"version":3,"known":1},"items":[]}`), "refused", false},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "refused", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "snapshot")
			row.write(t, path)
			count := counterValue(t, stateReads.WithLabelValues(row.result))
			s := keptSource(t, path, time.Hour, "ns")
			s.start()
			defer s.close()
			if got := counterValue(t, stateReads.WithLabelValues(row.result)); got != count+1 {
				t.Errorf("%s was counted %v times", row.result, got-count)
			}
			if got := s.indexes[0].Snapshot() != nil; got != row.serves {
				t.Errorf("served: %v", got)
			}
			// In all cases it continues with live objects.
			syncAll(s, numberedVIP(2))
			if x := s.indexes[0].Snapshot(); x == nil || x.Stale() || x.Service("web.ns") == nil {
				t.Error("what is live isn't served")
			}
		})
	}
}

// The UID of the namespace kube-system can be read only once the API server is there.
func TestAStateOfAnotherClusterIsWithdrawnWhenThatShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	err := statefile.Write(path, &statefile.State{Known: time.Now(), Cluster: statefile.Cluster{UID: "there", CAs: []string{"shared"}}, Objects: []index.Object{numberedVIP(1)}})
	if err != nil {
		t.Fatal(err)
	}
	s := keptSource(t, path, 0)
	known := statefile.Cluster{CAs: []string{"shared"}}
	s.keeper.cluster = func() statefile.Cluster { return known }
	s.start()
	defer s.close()
	s.keeper.recognised()
	if s.indexes[0].Snapshot() == nil {
		t.Fatal("not served")
	}
	known.UID = "here"
	s.keeper.recognised()
	if s.indexes[0].Snapshot() != nil {
		t.Error("still served")
	}
}

// A failed write of the file is logged and counted, and has no other effect.
func TestAFileThatCantBeWrittenStopsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "snapshot")
	synctest.Test(t, func(t *testing.T) {
		s := keptSource(t, path, 0)
		s.start()
		failed, ok := counterValue(t, stateWrites.WithLabelValues("error")), counterValue(t, stateWrites.WithLabelValues("ok"))
		syncAll(s, numberedVIP(1))
		pass(10 * time.Minute)
		synctest.Wait()
		if got := counterValue(t, stateWrites.WithLabelValues("error")) - failed; got < 15 || got > 21 {
			t.Errorf("%v failures in ten minutes", got)
		}
		s.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(2), nil)
		if got := s.indexes[0].Snapshot().Service("web.ns").Set(index.MCS).Addrs[0]; got != numberedVIP(2).IPs[0] {
			t.Errorf("answers stand still: %v", got)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		synctest.Wait()
		if got := counterValue(t, stateWrites.WithLabelValues("ok")) - ok; got != 1 {
			t.Errorf("%v writes once there is a folder", got)
		}
		s.close()
	})
}

// Stale answers carry the reason if the client can read it, and their records have short TTLs.
// Rule A55 of docs/spec/answers.md.
func TestStaleAnswersSaySo(t *testing.T) {
	objects := append(headless("hl", 3), vip("web", "10.1.0.1", "fd00::1"))
	c := newTestPlugin(t)
	c.ttl = 600
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	c.index.Restore(objects, 7)
	for _, row := range []struct {
		name  string
		qtype uint16
		code  uint16
	}{
		{"web.ns.svc.clusterset.local.", dns.TypeA, dns.ExtendedErrorCodeStaleAnswer},
		{"web.ns.svc.clusterset.local.", dns.TypeSRV, dns.ExtendedErrorCodeStaleAnswer},
		{"_http._tcp.hl.ns.svc.clusterset.local.", dns.TypeSRV, dns.ExtendedErrorCodeStaleAnswer},
		{"web.ns.svc.clusterset.local.", dns.TypeMX, dns.ExtendedErrorCodeStaleAnswer}, // NODATA
		{"dns-version.clusterset.local.", dns.TypeTXT, dns.ExtendedErrorCodeStaleAnswer},
		{"clusterset.local.", dns.TypeSOA, dns.ExtendedErrorCodeStaleAnswer},
		{"web.ns.svc.global.", dns.TypeANY, dns.ExtendedErrorCodeStaleAnswer},
		{"nope.ns.svc.clusterset.local.", dns.TypeA, dns.ExtendedErrorCodeStaleNXDOMAINAnswer},
	} {
		for _, edns := range []bool{false, true} {
			r := new(dns.Msg).SetQuestion(row.name, row.qtype)
			if edns {
				r.SetEdns0(1232, true)
			}
			w := &discard{}
			if _, err := c.ServeDNS(context.Background(), w, r); err != nil {
				t.Fatal(err)
			}
			m := w.msg
			for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
				for _, rr := range section {
					if soa, ok := rr.(*dns.SOA); ok && soa.Minttl > staleTTL {
						t.Errorf("%s: a missing name may be kept for %d s", row.name, soa.Minttl)
					}
					if rr.Header().Ttl > staleTTL && rr.Header().Rrtype != dns.TypeOPT {
						t.Errorf("%s: TTL %d", row.name, rr.Header().Ttl)
					}
				}
			}
			opt := m.IsEdns0()
			if !edns {
				if opt != nil {
					t.Errorf("%s: EDNS for a client that speaks none", row.name)
				}
				continue
			}
			if opt == nil || len(opt.Option) != 1 || opt.Option[0].(*dns.EDNS0_EDE).InfoCode != row.code || opt.UDPSize() != 1232 || !opt.Do() {
				t.Errorf("%s: got %v, want extended error %d", row.name, opt, row.code)
			}
		}
	}
	if !c.Ready() {
		t.Error("not ready, though there are answers")
	}
	c.index.Publish()
	if m := ask(t, c, "clusterset.local.", dns.TypeSOA); m.Answer[0].Header().Ttl != 600 || m.Answer[0].(*dns.SOA).Minttl != 600 {
		t.Errorf("still stale: %v", m)
	}
}

// A secondary that takes the zone from a stale server doesn't keep it for long.
func TestATransferOfAStaleZoneHasShortTTLs(t *testing.T) {
	c := newTestPlugin(t)
	c.ttl = 600
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	c.index.Restore(headless("hl", 3), 7)
	ch, err := c.Transfer("clusterset.local.", 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rrs := range ch {
		for _, rr := range rrs {
			n++
			if rr.Header().Ttl > staleTTL {
				t.Errorf("TTL of %s", rr)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d records", n)
	}
}
