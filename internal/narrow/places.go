package narrow

import (
	"slices"
	"time"

	"github.com/clusterset/clusterset/api"
)

// place is how far a peer's namespace has been read.
type place struct {
	// version is the resource version that its next watch goes on from; "" until all that there was has been passed on.
	version string
	since   time.Time // when that was so first
	begun   bool      // something has been passed on
}

// settle is how long the reader may take to apply what has been passed on to it.
const settle = 10 * time.Second

// Unread says whether the records of a cluster that this member sees haven't all been read, because the right to is still to come, or the
// hub is slow: then that one is missing says nothing.
func (s *Selection) Unread(cluster string) bool {
	namespace := api.MemberNamespace(cluster)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.peers, namespace) {
		return false
	}
	for _, l := range s.lists {
		if p := l.places[namespace]; p == nil || p.version == "" || time.Since(p.since) < settle {
			return true
		}
	}
	return false
}

// read notes that all of a namespace's records up to a version have been passed on.
func (s *Selection) read(l *list, namespace, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := l.places[namespace]
	if p.version == "" {
		p.since = time.Now()
	}
	p.version = version
}

// passed notes that an event has been passed on.
func (s *Selection) passed(l *list, namespace, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := l.places[namespace]
	p.begun = true
	if p.version != "" {
		p.version = version
	}
}

// from returns the version that a namespace's watch goes on from; "" if it has to begin with all that there is. It can't where a part of
// that has been passed on: what was deleted meanwhile wouldn't be noticed.
func (s *Selection) from(l *list, namespace string) (version string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := l.places[namespace]
	return p.version, p.version != "" || !p.begun
}

// spoil has the reader list anew.
func (s *Selection) spoil(l *list) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.broken = true
}

func (s *Selection) spoiled(l *list) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.broken
}
