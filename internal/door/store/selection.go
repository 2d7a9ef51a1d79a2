package store

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
)

// read makes the readings follow the selection. Those that are as wanted stay. The others go on until their successors have been read, unless
// their clusters aren't selected any more. The caller has locked s.
func (s *Store) read() {
	if s.ctx == nil || s.ctx.Err() != nil || !s.selected.peered {
		return
	}
	wanted := s.wanted()
	for namespace := range wanted {
		is, next := s.shown[namespace], s.pending[namespace]
		switch {
		case next.fresh():
		case is.fresh():
			next.end()
			delete(s.pending, namespace)
		default:
			next.end()
			s.pending[namespace] = s.begin(namespace, services, endpoints)
			s.pending[namespace].late = next != nil && next.late
		}
	}
	for namespace, r := range s.pending {
		if !wanted[namespace] {
			r.end()
			delete(s.pending, namespace)
		}
	}
	s.show()
}

// wanted returns the namespaces to be read, "" for all.
func (s *Store) wanted() map[string]bool {
	all := map[string]bool{}
	for _, peer := range s.selected.peers {
		all[api.MemberNamespace(peer)] = true
	}
	if s.selected.peers == nil {
		all[""] = true
	}
	return all
}

// show makes readings that have been read take their places, unless they wait for others: which export of a service decides is known when all have
// been read. The caller has locked s.
func (s *Store) show() {
	if s.ready() {
		for namespace, r := range s.pending {
			if !r.done() {
				r.late = true
				continue
			}
			s.shown[namespace].end()
			s.shown[namespace] = r
			delete(s.pending, namespace)
		}
		s.patient, s.impatient = nil, false
	}
	s.drop()
	s.look()
	s.showMembers()
}

// ready reports whether what has been read is shown: nothing before this cluster's own records are, and then when all have been read, or have been
// waited for. The caller has locked s.
func (s *Store) ready() bool {
	done, waits, own := false, false, s.readingOf(s.options.Cluster) != nil
	for namespace, r := range s.pending {
		done = done || r.done()
		waits = waits || !r.done() && !r.late
		own = own || r.done() && (namespace == "" || namespace == api.MemberNamespace(s.options.Cluster))
	}
	switch {
	case !done:
		s.patient, s.impatient = nil, false
	case waits && s.patient == nil:
		var t *time.Timer
		t = time.AfterFunc(patience, func() {
			s.update(func() {
				if s.patient == t {
					s.impatient = true
					s.show()
				}
			})
		})
		s.patient = t
	}
	return done && own && (!waits || s.impatient)
}

// drop ends readings that aren't wanted any more. That of all clusters stays until those of the peers are shown, and the other way round. The caller
// has locked s.
func (s *Store) drop() {
	wanted, waits := s.wanted(), false
	for _, r := range s.pending {
		waits = waits || !r.late
	}
	for namespace, r := range s.shown {
		if wanted[namespace] || namespace == "" && waits || wanted[""] && s.shown[""] == nil {
			continue
		}
		r.end()
		delete(s.shown, namespace)
	}
}

// look makes the view that of what is shown and selected, and notes what changes by that. The caller has locked s.
func (s *Store) look() {
	was := s.view
	s.view = map[string]*cluster{}
	for _, r := range s.shown {
		for name, c := range r.clusters {
			if s.readingOf(name) == r {
				s.view[name] = c
			}
		}
	}
	s.differ(was, s.view)
}

// differ notes what differs between two views. The caller has locked s.
func (s *Store) differ(was, is map[string]*cluster) {
	for name, c := range is {
		if was[name] != c {
			difference(was[name], c, func(key types.NamespacedName) { s.changed(name, key) })
		}
	}
	for name, c := range was {
		if is[name] == nil {
			difference(c, nil, func(key types.NamespacedName) { s.changed(name, key) })
		}
	}
}

// known returns what can be read of a cluster, nil if it is nothing. The caller has locked s.
func (s *Store) known(k kind, name string) *cluster {
	switch {
	case k != members:
		return s.view[name]
	case s.members != nil:
		return s.members.clusters[name]
	}
	return nil
}

// readingOf returns the reading that a cluster's records are read from, nil if there is none. The caller has locked s.
func (s *Store) readingOf(cluster string) *reading {
	if s.selected.peers != nil && !slices.Contains(s.selected.peers, cluster) {
		return nil
	}
	if r := s.shown[api.MemberNamespace(cluster)]; r != nil {
		return r
	}
	return s.shown[""]
}
