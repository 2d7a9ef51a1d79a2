package index

import (
	"slices"
	"strings"
	"time"
)

// Snapshot is the state of all services at one moment. It never changes. A nil Snapshot means that nothing is known
// yet.
type Snapshot struct {
	services   tree
	namespaces map[string]struct{}
	ranker     *ranker
	serial     uint32
	known      time.Time // of an earlier state
}

// Stale reports whether the snapshot is an earlier state (Index.Restore) that may be outdated.
func (s *Snapshot) Stale() bool { return !s.known.IsZero() }

// Known returns when an earlier state was last known to be right.
func (s *Snapshot) Known() time.Time { return s.known }

// Service returns the service of that key, "<name>.<namespace>" in lower case, or nil if it doesn't exist.
func (s *Snapshot) Service(key string) *Service {
	svc := s.services.get(key)
	if svc == nil || !svc.exists() {
		return nil
	}
	return svc
}

// HasNamespace reports whether any service exists in the namespace.
func (s *Snapshot) HasNamespace(ns string) bool {
	_, ok := s.namespaces[ns]
	return ok
}

// Serial returns the serial, which grows with every change that can affect an answer, and only then.
func (s *Snapshot) Serial() uint32 { return s.serial }

// Services returns the services that exist, sorted by key.
func (s *Snapshot) Services() []*Service {
	all := make([]*Service, 0, s.services.size)
	s.services.root.all(func(svc *Service) bool {
		if svc.exists() {
			all = append(all, svc)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *Service) int { return strings.Compare(string(a.key), string(b.key)) })
	return all
}
