package store

import (
	"context"
	"time"
)

// reading has the records of one namespace on the hub, or of all, or the MemberClusters. The store's mutex guards what
// changes.
type reading struct {
	store *Store
	feeds map[kind]*feed
	stop  context.CancelFunc

	ended    bool
	stale    bool // another one must take its place
	late     bool // it has been waited for
	listed   map[kind]bool
	quota    quota
	clusters map[string]*cluster
}

// begin begins a reading. The caller has locked s.
func (s *Store) begin(namespace string, kinds ...kind) *reading {
	r := &reading{
		store: s, feeds: map[kind]*feed{}, listed: map[kind]bool{}, clusters: map[string]*cluster{},
		quota: newQuota(s.options.MaxMemory, s.options.Cluster),
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(s.ctx)
	for _, k := range kinds {
		f := &feed{of: r, kind: k, namespace: namespace, closed: time.Now()}
		r.feeds[k] = f
		s.running.Go(func() { f.run(ctx) })
	}
	return r
}

// end ends a reading, if it is one.
func (r *reading) end() {
	if r != nil {
		r.ended = true
		r.stop()
	}
}

// fresh reports whether it is a reading that needn't begin again.
func (r *reading) fresh() bool { return r != nil && !r.stale }

// done reports whether it has read everything.
func (r *reading) done() bool { return len(r.listed) == len(r.feeds) }
