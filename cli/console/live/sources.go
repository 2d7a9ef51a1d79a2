package live

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterset/clusterset/cli/console"
)

// Sources are the states of all sources of a console.
type Sources struct {
	console *console.Server

	checking chan struct{} // a place for each that may be made at once

	mu  sync.Mutex
	all []console.Source
}

// NewSources returns an empty Sources.
func NewSources(c *console.Server) *Sources {
	return &Sources{console: c, checking: make(chan struct{}, maxCheckUps)}
}

// source is one of the Sources.
type source struct {
	of *Sources
	at int
}

// add adds a source that hasn't answered yet.
func (s *Sources) add(o console.Source) source {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.State, o.Since = console.Loading, time.Now()
	s.all = append(s.all, o)
	s.console.SetSources(slices.Clone(s.all))
	return source{s, len(s.all) - 1}
}

// set sets the state of a source. An error overrides it. other, if it isn't nil, sets what else is known.
func (s source) set(state console.State, err error, other func(*console.Source)) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	is := &s.of.all[s.at]
	was, now := *is, time.Now()
	is.Error = ""
	switch {
	case err == nil:
		is.LastAnswer = now
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		state, is.Error = console.Refused, err.Error()
	default:
		state, is.Error = console.Away, err.Error()
	}
	if state != is.State {
		is.State, is.Since = state, now
	}
	if other != nil {
		other(is)
	}
	told := *is
	told.LastAnswer = was.LastAnswer // no news by itself
	if !reflect.DeepEqual(was, told) {
		s.of.console.SetSources(slices.Clone(s.of.all))
	}
}

// each calls f at once, and then in intervals until the context is done.
func each(ctx context.Context, interval time.Duration, f func()) {
	for {
		f()
		if !sleep(ctx, interval) {
			return
		}
	}
}

// sleep reports whether the time has passed before the context is done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s source) get() console.Source {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.of.all[s.at]
}

// Files shows the objects of files.
func (s *Sources) Files(path string, objects []runtime.Object) {
	s.add(console.Source{Role: console.RoleFiles, Context: path}).set(console.Live, nil, nil)
	s.console.SetRecords(objects)
}
