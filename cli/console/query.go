package console

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/topology"
)

// query has the parameters of a request.
type query struct{ url.Values }

// maxChanges limits the changes of a request.
const maxChanges = 32

// question is what a request is about: what is shown, and the changes of its parameter changes.
type question struct {
	shown
	list  []preview.Change
	notes []string
	after *preview.State // the State after them
}

// changed reports whether there are changes.
func (a *question) changed() bool { return a.after != a.set.state }

// asked parses the parameter changes, reads what its exports need, and applies the changes.
func (s *Server) asked(ctx context.Context, q query) (a question, err error) {
	if text := q.Get("changes"); text != "" {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&a.list); err != nil {
			return a, badRequest("changes: want a list of changes, each with one of %s: %w", preview.Kinds, err)
		}
	}
	if len(a.list) > maxChanges {
		return a, badRequest("there are %d changes; want %d at most", len(a.list), maxChanges)
	}
	for i := range a.list {
		if e := a.list[i].Export; e != nil {
			is := s.current()
			from := is.member(func(from *Source) bool { return from.Local != nil && from.Cluster == e.From })
			if from == nil {
				return a, badRequest("%s: the Service is read in the cluster that would export it; start the console with --context for it", &a.list[i])
			}
			e.Context = from.Context
			notes, err := s.options.Records(ctx, e, is.set.state.Networks(a.list...))
			if err != nil {
				return a, badRequest("%s: %w", &a.list[i], err)
			}
			a.notes = append(a.notes, notes...)
		}
	}
	a.shown = s.current()
	if a.after = a.set.state; len(a.list) > 0 {
		after, notes, err := a.set.state.Apply(a.list...)
		if err != nil {
			return a, badRequest("%w", err)
		}
		a.after, a.notes = after, append(a.notes, notes...)
	}
	return a, nil
}

// about is what a request asks about a service and a place, which is the parameter at.
func (s *Server) about(ctx context.Context, q query, at string) (key types.NamespacedName, from topology.Location, a question, err error) {
	if key, err = preview.ParseService(q.Get("service")); err != nil {
		return key, from, a, badRequest("service: %w", err)
	}
	if from, err = place.Parse(q.Get(at)); err != nil {
		return key, from, a, badRequest("%s: %w", at, err)
	}
	a, err = s.asked(ctx, q)
	return key, from, a, err
}

// WhatIf is the answer of /api/whatif: what the changes do in the whole set.
type WhatIf struct {
	Summary  preview.Summary `json:"summary"`
	Services []Changed       `json:"services"`
	Notes    []string        `json:"notes,omitempty"`
}

// Changed is a service that changes, without its cells: Places is the number of places where it does.
type Changed struct {
	preview.Service
	Places int `json:"places,omitempty"`
}

// memory is the last value that was computed for a State and changes. Only the request that holds the place uses it.
type memory[T any] struct {
	of    *preview.State
	list  []preview.Change
	value T
}

// get returns the value for the changes, with the records of their exports: the last one, or what compute makes of the Result.
func (m *memory[T]) get(ctx context.Context, is *question, o preview.Options, compute func(*preview.Result) T) (none T, err error) {
	if m.of != is.set.state || !reflect.DeepEqual(m.list, is.list) {
		result, err := is.set.state.Preview(ctx, is.list, o)
		if err != nil {
			return none, badRequest("%w", err)
		}
		*m = memory[T]{is.set.state, is.list, compute(result)}
	}
	return m.value, nil
}

// whatIf answers /api/whatif. It computes one answer at a time.
func (s *Server) whatIf(ctx context.Context, q query) (*WhatIf, error) {
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(is.list) == 0 {
		return nil, badRequest("changes: none is given; want at least one")
	}
	return s.lastWhatIf.get(ctx, &is, s.options.Preview, func(result *preview.Result) *WhatIf {
		w := &WhatIf{Summary: result.Summary, Services: []Changed{}, Notes: is.notes}
		for _, svc := range result.Services {
			changed := Changed{Service: svc}
			for i := range svc.Cells {
				changed.Places += len(svc.Cells[i].Places)
			}
			changed.Cells = nil
			w.Services = append(w.Services, changed)
		}
		return w
	})
}
