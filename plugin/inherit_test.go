package clusterset

import (
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
					x := index.New(index.Options{Namespaces: namespaces})
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
