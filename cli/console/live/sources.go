package live

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterset/clusterset/cli/console"
)

// Sources are all sources of a console.
type Sources struct {
	console  *console.Server
	checking chan struct{} // a place for each that may be made at once
}

// NewSources returns the Sources of a console, which has none yet.
func NewSources(c *console.Server) *Sources {
	return &Sources{console: c, checking: make(chan struct{}, maxCheckUps)}
}

// source is one of the Sources.
type source struct {
	*Sources
	number int
}

// add adds a source that hasn't answered yet.
func (s *Sources) add(o console.Source) source {
	o.State, o.Since = console.Loading, time.Now()
	return source{s, s.console.AddSource(o)}
}

// set sets the state of a source. An error overrides it. other, if it isn't nil, sets what else is known.
func (s source) set(state console.State, err error, other func(*console.Source)) {
	now := time.Now()
	s.console.ChangeSource(s.number, func(is *console.Source) {
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
	})
}

func (s source) get() console.Source { return s.console.Source(s.number) }

// Files shows the objects of files.
func (s *Sources) Files(path string, objects []runtime.Object) {
	s.add(console.Source{Role: console.RoleFiles, Context: path}).set(console.Live, nil, nil)
	s.console.SetRecords(objects)
}

// sleep reports whether the time has passed before the context is done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
