package exporter

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// serviceStates remembers the services that something is known of. Each is reconciled by one worker at a time, which alone uses its state.
type serviceStates struct {
	mu      sync.Mutex
	of      map[types.NamespacedName]*serviceState
	expired map[types.NamespacedName]bool // those whose withdrawn record was deleted, and isn't to be written again
}

// expire notes that the withdrawn record of a service is being deleted.
func (s *serviceStates) expire(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired == nil {
		s.expired = map[types.NamespacedName]bool{}
	}
	s.expired[key] = true
}

// wasExpired reports, once, whether the withdrawn record of a service was deleted.
func (s *serviceStates) wasExpired(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.expired[key]
	delete(s.expired, key)
	return was
}

func (s *serviceStates) get(key types.NamespacedName) *serviceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[key] == nil {
		if s.of == nil {
			s.of = map[types.NamespacedName]*serviceState{}
		}
		s.of[key] = &serviceState{}
	}
	return s.of[key]
}

// tidy forgets a service of which nothing is known any more.
func (s *serviceStates) tidy(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.of[key]; *k == (serviceState{writes: k.writes}) {
		delete(s.of, key)
	}
}

// known returns the services that something is known of.
func (s *serviceStates) known() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.of))
}

// serviceState is what is remembered of a service from one reconcile to the next.
type serviceState struct {
	failing  onset // to write its records
	refusing onset // the hub, to take them
	missing  onset // its Service, while its ServiceExport may still exist
	revision int64 // of its record, as this process wrote it last
	exported bool  // that record, on the hub or as it was last seen there, isn't withdrawn
	counted  entry
	writes   *rate.Limiter
}

// lost reports whether the hub lacks a record that importers may need to hear from, of a service that isn't exported any more: somebody deleted it, or
// the hub was restored.
func (k *serviceState) lost(now time.Time) bool {
	return k.exported || k.revision >= now.Add(-withdrawnFor).UnixMilli()
}

// A service's records and the conditions of its ServiceExport are written writesAtOnce times at once, and then every writeEvery, whoever causes it
// (rule C79 of docs/spec/control-plane.md).
const (
	writeEvery   = time.Second / 5
	writesAtOnce = 20
)

// mayWrite reports whether the service may be written now. If not, it may be after writeEvery.
func (k *serviceState) mayWrite() bool {
	if k.writes == nil {
		k.writes = rate.NewLimiter(rate.Every(writeEvery), writesAtOnce)
	}
	return k.writes.Allow()
}

// onset is when something that still is so began.
type onset struct{ time.Time }

// note records whether it is so, and returns for how long it has been.
func (s *onset) note(is bool) time.Duration {
	if !is {
		*s = onset{}
		return 0
	}
	if s.IsZero() {
		s.Time = time.Now()
	}
	return time.Since(s.Time)
}
