package clusterset

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
)

// awayCluster is a feed whose API server can't be reached.
type awayCluster struct {
	idle
	statefile.Cluster
}

func (a awayCluster) identity() statefile.Cluster { return a.Cluster }

// A new server that can't reach the API server answers from what the old one knows. Rules A54 and A55 of docs/spec/answers.md.
func TestAReloadWhileTheAPIServerIsAwayKeepsAnswering(t *testing.T) {
	here := statefile.Cluster{Server: "https://here", CAs: []string{"ca"}}
	for _, row := range []struct {
		name          string
		cluster       statefile.Cluster
		before, after []string // namespaces
		answers       bool
	}{
		{"the same", here, nil, nil, true},
		{"fewer namespaces", here, nil, []string{"ns"}, true},
		{"more namespaces", here, []string{"ns"}, []string{"ns", "other"}, false},
		{"another API server", statefile.Cluster{Server: "https://there", CAs: here.CAs}, nil, nil, false},
		{"another CA", statefile.Cluster{Server: here.Server, CAs: []string{"other"}}, nil, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := func(cluster statefile.Cluster, namespaces []string) (c *ClusterSet, end func()) {
					s := newSource(awayCluster{Cluster: cluster})
					x := index.New(index.Options{Namespaces: namespaces, Serials: &serials})
					s.indexes, s.corefile = []*index.Index{x}, &sources{byKey: map[string]*source{"": s}}
					forget := register(t, s)
					s.start()
					return &ClusterSet{index: x, source: s}, func() {
						forget()
						s.close()
					}
				}
				old, end := begin(here, row.before)
				defer func() { end() }() //nolint:gocritic // it changes
				syncAll(old.source, numberedVIP(1))
				for reload := range 2 { // the second is of a server that hasn't reached the API server either
					c, endNew := begin(row.cluster, row.after)
					c.await(time.Second)
					known := c.index.Snapshot()
					if got := known != nil && known.Stale() && known.Service("web.ns") != nil; got != row.answers {
						t.Errorf("reload %d: answers: %v", reload, got)
					}
					if known != nil && known.Serial() < old.index.Snapshot().Serial() {
						t.Errorf("the serial goes back to %d", known.Serial())
					}
					end()
					if old, end = c, endNew; !row.answers {
						return
					}
				}
				syncAll(old.source, numberedVIP(2))
				if old.index.Snapshot().Stale() {
					t.Error("still stale")
				}
			})
		})
	}
}

// Of the servers of a reload, source_stale is that of the one which goes on.
func TestStaleIsThatOfTheServerThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := func() (s *source, end func()) {
			s = newSource(awayCluster{Cluster: thisCluster})
			s.label, s.indexes = "reloaded", []*index.Index{index.New(index.Options{})}
			s.corefile = &sources{byKey: map[string]*source{"": s}}
			forget := register(t, s)
			s.start()
			return s, func() {
				forget()
				s.close()
				s.endMetrics()
			}
		}
		inherit := func(s *source) { (&ClusterSet{index: s.indexes[0], source: s}).await(time.Second) }
		expect := func(step string, want float64) {
			t.Helper()
			if got := testutil.ToFloat64(staleGauge.WithLabelValues("reloaded")); got != want {
				t.Errorf("%s: source_stale is %v, want %v", step, got, want)
			}
		}
		first, endFirst := begin()
		syncAll(first, numberedVIP(1))
		failing, endFailing := begin()
		inherit(failing)
		endFailing()
		expect("a reload failed while the API server was away", 0)
		away, endAway := begin()
		inherit(away)
		endFirst()
		expect("a reload while the API server is away", 1)
		back, endBack := begin()
		syncAll(back, numberedVIP(1))
		endAway()
		expect("a reload when the API server is back", 0)
		endBack()
	})
}

// A stanza with a state file, too, goes on with what the server before the reload knew, if the file is of no use or older. Rules A52, A54 and
// A55 of docs/spec/answers.md.
func TestAReloadKeepsWhatTheStateFileLacks(t *testing.T) {
	here := statefile.Cluster{Server: "https://here", CAs: []string{"ca"}}
	there := statefile.Cluster{Server: "https://there", CAs: here.CAs}
	write := writeState
	defer func() { writeState = write }()
	const first, last, other = 1, 2, 3 // the addresses that the old server read first and last, and that of somebody else's file
	for _, row := range []struct {
		name     string
		old      bool              // the old server has the option
		cluster  statefile.Cluster // of the new server
		maxAge   time.Duration
		file     time.Duration // how old somebody else's file is, 0 for none
		writable int           // so many writes succeed
		lost     time.Duration // how long ago the old server lost the API server
		want     int           // 0 for SERVFAIL
	}{
		{"the file is written", true, here, 0, 0, 9, time.Minute, last},
		{"the option is new", false, here, 0, 0, 9, time.Minute, last},
		{"the option is new, and the file from another time", false, here, 0, time.Hour, 9, time.Minute, last},
		{"the option is new, and the file is newer", false, here, 0, time.Minute, 9, time.Hour, other},
		{"the file can't be written", true, here, 0, 0, 0, time.Minute, last},
		{"the file can't be written again", true, here, 0, 0, 1, time.Minute, last},
		{"the old server's state is too old", false, here, time.Hour, 0, 9, 2 * time.Hour, 0},
		{"the option is new, with a maximum age", false, here, time.Hour, 0, 9, time.Minute, last},
		{"another API server", false, there, 0, 0, 9, time.Minute, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "snapshot")
			synctest.Test(t, func(t *testing.T) {
				writeState = func(path string, s *statefile.State) error {
					if row.writable--; row.writable < 0 {
						return errors.New("the disk is full")
					}
					return write(path, s)
				}
				begin := func(cluster statefile.Cluster, kept bool) (c *ClusterSet, end func()) {
					s := keptSource(t, path, row.maxAge)
					s.feed = awayCluster{Cluster: cluster}
					s.corefile = &sources{byKey: map[string]*source{"": s}}
					s.keeper.cluster = func() statefile.Cluster { return cluster }
					if !kept {
						s.keeper = nil
					}
					forget := register(t, s)
					s.start()
					return &ClusterSet{index: s.indexes[0], source: s}, func() {
						forget()
						s.close()
					}
				}
				server, end := begin(here, row.old)
				syncAll(server.source, numberedVIP(first))
				pass(time.Minute) // the first write
				for range 200 {   // serials run ahead of the clock
					server.source.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(first), nil)
					server.source.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(last), nil)
				}
				server.source.reachable(index.KindServiceImport, false)
				pass(row.lost)
				if row.file > 0 {
					if err := write(path, &statefile.State{Known: time.Now().Add(-row.file), Cluster: here, Objects: []index.Object{numberedVIP(other)}}); err != nil {
						t.Fatal(err)
					}
				}
				for reload := range 2 { // the second is of a server that hasn't reached the API server either
					next, endNext := begin(row.cluster, true)
					next.await(time.Second)
					old, known := server.index.Snapshot(), next.index.Snapshot()
					end()
					server, end = next, endNext
					if row.want == 0 {
						if known != nil {
							t.Errorf("reload %d: answers", reload)
						}
						break
					}
					if known == nil {
						t.Errorf("reload %d: SERVFAIL for every name", reload)
						break
					}
					if got, want := known.Service("web.ns").Set(index.MCS).Addrs[0], numberedVIP(row.want).IPs[0]; got != want || !known.Stale() {
						t.Errorf("reload %d: answers %v, stale: %t, want %v", reload, got, known.Stale(), want)
					}
					if known.Serial() < old.Serial() {
						t.Errorf("reload %d: the serial goes back from %d to %d", reload, old.Serial(), known.Serial())
					}
				}
				if row.maxAge > 0 {
					pass(row.maxAge + agePoll)
					if server.index.Snapshot() != nil {
						t.Error("answers from a state that has reached its maximum age")
					}
				}
				end()
			})
		})
	}
}
