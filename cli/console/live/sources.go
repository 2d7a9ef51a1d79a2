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
	"github.com/clusterset/clusterset/cli/view"
)

const (
	// look is the time between two reads of a member, and of a source's Events.
	look = 15 * time.Second
	// checkUpEvery is the time between two check-ups of a source, and checkUpPatience bounds one.
	checkUpEvery, checkUpPatience = 5 * time.Minute, 30 * time.Second
)

// source is one of a console's sources.
type source struct {
	console     *console.Server
	number      int
	cluster     *objects.Cluster
	controllers []string // which write Events there
	asks        func(context.Context) *doctor.Facts
	asked       time.Time // when it was checked
}

// add adds a source that hasn't answered yet.
func add(to *console.Server, o console.Source) *source {
	o.State, o.Since = console.Loading, time.Now()
	return &source{console: to, number: to.AddSource(o)}
}

// Files shows the objects of files.
func Files(to *console.Server, path string, objects []runtime.Object) {
	add(to, console.Source{Role: console.RoleFiles, Context: path}).set(console.Live, nil, nil)
	to.SetRecords(objects)
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

// more passes on what controllers said in Events, and makes a check-up if it is time.
func (s *source) more(ctx context.Context) {
	events, err := s.events(ctx)
	if ctx.Err() == nil {
		s.console.SetEvents(s.number, events, err)
	}
	if time.Since(s.asked) >= checkUpEvery {
		s.checkUp(ctx)
	}
}

// checkUp asks what only the doctor wants to know, unless the source can't be reached. If it doesn't answer, what it said before is kept.
func (s *source) checkUp(ctx context.Context) {
	if state := s.get().State; state == console.Away || state == console.Loading {
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
				ID: string(e.UID), Time: e.EventTime.Time, Context: from.Context, Cluster: from.Cluster, Warning: e.Type == corev1.EventTypeWarning,
				Problem: view.Problem{What: e.Regarding.Kind, Namespace: e.Regarding.Namespace, Name: e.Regarding.Name, Reason: e.Reason, Message: e.Note},
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
