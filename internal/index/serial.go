package index

import (
	"sync"
	"time"
)

// Serials gives out the serials of zones (rule A52 of docs/spec/answers.md). The Indexes of a process share one, so that those of a server
// that takes over in a reload go on after those of the one before. Its zero value is ready, and starts from the clock.
type Serials struct {
	mu   sync.Mutex
	last uint32
}

// next always grows, and follows the clock if it can, so that servers of one zone that see the same changes agree within a second.
func (s *Serials) next(now time.Time) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, uint32(now.Unix())) //nolint:gosec // serials wrap (RFC 1982)
	return s.last
}
