package narrow

import (
	"slices"
	"time"

	"github.com/clusterset/clusterset/api"
)

// place is how far a peer's namespace has been read.
type place struct {
	// version is the resource version from which its next watch continues; "" until all initial events have been passed on.
	version string
	since   time.Time // when that happened first
	begun   bool      // an event has been passed on
}

// settle is how long the reader may take to apply the events that it received.
const settle = 10 * time.Second

// Unread says whether some records of a visible cluster may not have been read, because the right to read them is not there
// yet or the hub is slow. A missing record then doesn't mean that it was deleted.
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

// read records that all of a namespace's records up to a version have been passed on.
func (s *Selection) read(l *list, namespace, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := l.places[namespace]
	if p.version == "" {
		p.since = time.Now()
	}
	p.version = version
}

// passed records that an event has been passed on.
func (s *Selection) passed(l *list, namespace, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := l.places[namespace]
	p.begun = true
	if p.version != "" {
		p.version = version
	}
}

// from returns the version from which a namespace's watch continues, or "" for a watch that begins with all records. It
// fails if only a part of the initial events was passed on, because deletions would be missed.
func (s *Selection) from(l *list, namespace string) (version string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := l.places[namespace]
	return p.version, p.version != "" || !p.begun
}

// spoil makes the reader list again.
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
