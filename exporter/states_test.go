package exporter

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

// A service is forgotten once nothing is known of it any more, and not before.
func TestStateEndsWithAllOfItsParts(t *testing.T) {
	cases := map[string]func(*serviceState){
		"failing":  func(s *serviceState) { s.failing.note(true) },
		"refusing": func(s *serviceState) { s.refusing.note(true) },
		"missing":  func(s *serviceState) { s.missing.note(true) },
		"external": func(s *serviceState) { s.external = map[string]string{} },
		"told":     func(s *serviceState) { s.told.says = 1 },
		"counted":  func(s *serviceState) { s.counted.state = stateExported },
		"wrote":    func(s *serviceState) { s.wrote.from = 1 },
		"unread":   func(s *serviceState) { s.unread = unread{kindService + "web.shop": {}} },
	}
	if n := reflect.TypeFor[serviceState]().NumField(); n != len(cases) {
		t.Errorf("%d of %d parts have a case", len(cases), n)
	}
	for part, set := range cases {
		var all states
		known := all.get(web)
		set(known)
		all.tidy(web)
		if all.get(web) != known {
			t.Errorf("%s is forgotten", part)
		}
		*known = serviceState{}
		all.tidy(web)
		if len(all.of) > 0 {
			t.Errorf("after %s a service without a state is remembered", part)
		}
	}
}

func TestSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s since
		for _, step := range []struct {
			is   bool
			want time.Duration
		}{{true, 0}, {true, time.Second}, {true, 2 * time.Second}, {false, 0}, {false, 0}, {true, 0}} {
			if got := s.note(step.is); got != step.want {
				t.Errorf("%v: for %s, want %s", step.is, got, step.want)
			}
			elapse(time.Second)
		}
	})
}
