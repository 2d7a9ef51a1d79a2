package store

import "time"

const (
	// DefaultMaxMemory is how much memory one cluster's records may take here: about what 5,000 services of twenty endpoints do.
	DefaultMaxMemory = 16 << 20
	// readAgain is how often what was left out for want of memory is read again, if there is room.
	readAgain = 10 * time.Minute
)

// fits reports whether records of a feed's kind may take this many bytes of a cluster's memory (rule C58 of docs/spec/control-plane.md). What a
// list under way has is counted beside what is stored. The caller has locked s.
func (f *feed) fits(name string, size int) bool {
	s, other := f.store, endpoints-f.kind
	if s.options.MaxMemory == 0 || name == s.options.Cluster {
		return true
	}
	rest := 0
	if c := s.clusters[name]; c != nil {
		rest = c.size[other]
	}
	if beside := s.feeds[scope{other, f.namespace}]; beside != nil {
		rest = max(rest, beside.listing[name])
	}
	return size+rest <= s.options.MaxMemory
}

// setOver notes whether something of a cluster is left out. The caller has locked s.
func (s *Store) setOver(name string, c *cluster, over bool) {
	if c.over == over {
		return
	}
	c.over = over
	if s.over == nil {
		s.over = map[string]bool{}
	}
	s.over[name] = over
}

// readLeftOut reads again what was left out, where a quarter of the room is free. The caller has locked s.
func (s *Store) readLeftOut() {
	for name, c := range s.clusters {
		if c.over && c.size[services]+c.size[endpoints] <= s.options.MaxMemory/4*3 {
			s.setOver(name, c, false)
			for _, f := range s.feedsOf(name) {
				s.end(f.scope)
			}
		}
	}
	s.follow()
}
