// Package live keeps a console up to date: it follows the hub's records, asks for its heartbeats, reads the members, and asks each what
// `clusterset doctor` asks.
package live

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
)

const (
	// look is the time between two reads of a member, and of a source's Events.
	look = 15 * time.Second
	// checkUpEvery is the time between two check-ups of a source.
	checkUpEvery = 5 * time.Minute
	// checkUpPatience bounds one, and maxCheckUps how many sources are checked at once.
	checkUpPatience = 30 * time.Second
	maxCheckUps     = 4
)

// Sources are all sources of a console.
type Sources struct {
	console  *console.Server
	checking chan struct{} // a place for each check-up that may be made at once
}

// NewSources returns the Sources of a console, which has none yet.
func NewSources(c *console.Server) *Sources {
	return &Sources{console: c, checking: make(chan struct{}, maxCheckUps)}
}

// Files shows the objects of files.
func (s *Sources) Files(path string, objects []runtime.Object) {
	s.add(console.Source{Role: console.RoleFiles, Context: path}).set(console.Live, nil, nil)
	s.console.SetRecords(objects)
}

// source is one of the Sources. Only one goroutine may read it.
type source struct {
	*Sources
	number      int
	cluster     *objects.Cluster
	controllers []string // which write Events there
	asks        func(context.Context) *doctor.Facts
	told, asked time.Time // when Events were read, and when it was checked
}

// add adds a source that hasn't answered yet.
func (s *Sources) add(o console.Source) *source {
	o.State, o.Since = console.Loading, time.Now()
	return &source{Sources: s, number: s.console.AddSource(o)}
}

func (s *source) get() console.Source { return s.console.Source(s.number) }

// set sets the state of a source. An error overrides it. other, if it isn't nil, sets what else is known.
func (s *source) set(state console.State, err error, other func(*console.Source)) {
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

// more reads, from time to time, what controllers said in Events, and makes a check-up.
func (s *source) more(ctx context.Context) {
	if time.Since(s.told) >= look {
		s.told = time.Now()
		s.tell(ctx)
	}
	if time.Since(s.asked) >= checkUpEvery {
		s.checkUp(ctx)
	}
}

// checkUp asks what only the doctor wants to know, unless the source can't be reached or others are being asked. If it doesn't answer, what it
// said before is kept.
func (s *source) checkUp(ctx context.Context) {
	if state := s.get().State; state == console.Away || state == console.Loading {
		return
	}
	select {
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	default:
		return
	}
	within, cancel := context.WithTimeout(ctx, checkUpPatience)
	defer cancel()
	facts := s.asks(within)
	for _, server := range []*doctor.Server{facts.Cluster, facts.Hub} {
		if server != nil && server.Err != nil {
			return
		}
	}
	if ctx.Err() == nil {
		s.asked = time.Now()
		s.console.ChangeSource(s.number, func(is *console.Source) { is.Asked = facts })
	}
}

// maxEvents bounds the Events that are read of one controller at a time. A storm of them is never the reason that the API server suffers.
const maxEvents = 5000

// tell passes on what controllers said in Events.
func (s *source) tell(ctx context.Context) {
	events, err := s.events(ctx)
	if ctx.Err() == nil {
		s.console.SetEvents(s.number, events, err)
	}
}

func (s *source) events(ctx context.Context) (all []console.Happened, err error) {
	from := s.get()
	for _, controller := range s.controllers {
		var list eventsv1.EventList
		if err := s.cluster.List(ctx, &list, client.MatchingFields{"reportingController": controller}, client.Limit(maxEvents)); err != nil {
			return all, s.cluster.Words(err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			h := console.Happened{
				ID: string(e.UID), Time: e.EventTime.Time, Context: from.Context, Cluster: from.Cluster,
				What: e.Regarding.Kind, Namespace: e.Regarding.Namespace, Name: e.Regarding.Name, Reason: e.Reason, Message: e.Note, Warning: e.Type == corev1.EventTypeWarning,
			}
			if e.Series != nil {
				h.Time, h.Count = e.Series.LastObservedTime.Time, int(e.Series.Count)
			}
			all = append(all, h)
		}
		if list.Continue != "" {
			err = fmt.Errorf("there are more than %d of %s: some are missing here", maxEvents, controller)
		}
	}
	return all, err
}
