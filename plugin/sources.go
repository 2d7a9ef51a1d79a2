package clusterset

import (
	"sync"

	"github.com/coredns/caddy"
)

// sources are the sources of one Corefile. Server blocks that read the same objects share one, and so one set of watches.
type sources struct {
	mu    sync.Mutex
	byKey map[string]*source
}

type sourcesKey struct{}

// started are the Corefiles whose sources may be running.
var started struct {
	mu  sync.Mutex
	all map[*sources]bool
}

// sourcesOf returns the sources of the Corefile that c reads.
func sourcesOf(c *caddy.Controller) *sources {
	if ss, ok := c.Get(sourcesKey{}).(*sources); ok {
		return ss
	}
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

// get returns the source that a stanza asks for, a new one for the first to do so.
func (ss *sources) get(o *options) (*source, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.byKey[o.sourceKey()]; s != nil {
		return s, nil
	}
	f, err := newFeed(o)
	if err != nil {
		return nil, err
	}
	s := newSource(f)
	ss.byKey[o.sourceKey()] = s
	return s, nil
}

func (ss *sources) close() {
	started.mu.Lock()
	delete(started.all, ss)
	started.mu.Unlock()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byKey {
		s.close()
	}
}

// closeAbandoned stops the sources of Corefiles that no instance runs: CoreDNS drops the new instance of a reload that
// fails half-way, without calling what it registered.
func closeAbandoned() error {
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
