package clusterset

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coredns/caddy"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/plugin/express"
)

// sources are the sources of one Corefile. Server blocks that read the same objects share one source and its watches.
type sources struct {
	mu       sync.Mutex
	byKey    map[string]*source
	lameduck time.Duration // the longest of all stanzas
}

type sourcesKey struct{}

// started has the Corefiles whose sources may be running.
var started struct {
	mu  sync.Mutex
	all map[*sources]bool
}

// sourcesOf returns the sources of the Corefile that c reads.
func sourcesOf(c *caddy.Controller) *sources {
	if ss, ok := c.Get(sourcesKey{}).(*sources); ok {
		return ss
	}
	_ = closeAbandoned() // left by a failed reload, if the running server has no clusterset stanza and so no OnRestartFailed
	ss := &sources{byKey: map[string]*source{}}
	c.Set(sourcesKey{}, ss)
	started.mu.Lock()
	defer started.mu.Unlock()
	if started.all == nil {
		started.all = map[*sources]bool{}
	}
	started.all[ss] = true
	c.OnShutdown(func() error {
		ss.close()
		return nil
	})
	return ss
}

// get returns the source that a stanza asks for. The first stanza to ask creates it.
func (ss *sources) get(o *options) (*source, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.byKey[o.sourceKey()]
	if s == nil {
		f, err := newFeed(o)
		if err != nil {
			return nil, err
		}
		s = newSource(f)
		s.label, s.corefile = ss.label(f.name()), ss
	}
	if err := ss.keep(s, o); err != nil {
		return nil, err
	}
	ss.byKey[o.sourceKey()] = s
	ss.lameduck = max(ss.lameduck, o.lameduck)
	return s, nil
}

// label names a source in metrics and logs: the name of its feed, with a number from the second one in the Corefile on.
func (ss *sources) label(name string) string {
	same := 1
	for _, s := range ss.byKey {
		if s.feed.name() == name {
			same++
		}
	}
	if same == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, same)
}

// keep gives a source the snapshot file that a stanza names. Each source has at most one file, and each file belongs to
// one source.
func (ss *sources) keep(s *source, o *options) error {
	if o.snapshot.path == "" {
		return nil
	}
	if s.keeper != nil && s.keeper.snapshotOptions != o.snapshot {
		return fmt.Errorf("snapshot %s: another stanza that reads the same API server says snapshot %s; use the same file and age in all", o.snapshot, s.keeper.snapshotOptions)
	}
	for _, other := range ss.byKey {
		if other != s && other.keeper != nil && other.keeper.path == o.snapshot.path {
			return fmt.Errorf("snapshot %s: another stanza, which reads another API server, has the same file; give each a file of its own", o.snapshot.path)
		}
	}
	if f, ok := s.feed.(*kubernetesFeed); ok && s.keeper == nil {
		s.keeper = newKeeper(o.snapshot, s, f.identity)
		f.recognised = s.keeper.recognised
	}
	return nil
}

func (ss *sources) close() {
	started.mu.Lock()
	delete(started.all, ss)
	started.mu.Unlock()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byKey {
		s.close()
		s.endMetrics()
	}
}

// running returns the started sources of all Corefiles. During a reload there are two Corefiles.
func running() []*source {
	started.mu.Lock()
	defer started.mu.Unlock()
	var all []*source
	for ss := range started.all {
		ss.mu.Lock()
		for _, s := range ss.byKey {
			if s.isStarted() {
				all = append(all, s)
			}
		}
		ss.mu.Unlock()
	}
	return all
}

// replacesOneThatAnswers reports whether ss is about to replace another Corefile's servers that already answer queries.
func (ss *sources) replacesOneThatAnswers() bool {
	return slices.ContainsFunc(running(), func(s *source) bool {
		return s.corefile != ss && slices.ContainsFunc(s.indexes, func(x *index.Index) bool { return x.Snapshot() != nil })
	})
}

// closeAbandoned stops the sources and closes the sockets of Corefiles that no instance runs. When a reload fails half-way, CoreDNS drops the
// new instance without calling its OnShutdown functions.
func closeAbandoned() error {
	express.CloseAbandoned()
	running := map[*sources]bool{}
	for _, instance := range caddy.Instances() {
		instance.StorageMu.RLock()
		if ss, ok := instance.Storage[sourcesKey{}].(*sources); ok {
			running[ss] = true
		}
		instance.StorageMu.RUnlock()
	}
	started.mu.Lock()
	var abandoned []*sources
	for ss := range started.all {
		if !running[ss] {
			abandoned = append(abandoned, ss)
		}
	}
	started.mu.Unlock()
	for _, ss := range abandoned {
		ss.close()
	}
	return nil
}
