package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/topology"
)

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
func (s *Server) asked(ctx context.Context, q url.Values) (a question, err error) {
	if text := q.Get("changes"); text != "" {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&a.list); err != nil {
			return a, fmt.Errorf("changes: want a list of changes, each with one of %s: %w", preview.Kinds, err)
		}
	}
	for i := range a.list {
		if e := a.list[i].Export; e != nil {
			is := s.current()
			from := slices.IndexFunc(is.sources, func(from *Source) bool { return from.Local != nil && from.Cluster == e.From })
			if from < 0 {
				return a, fmt.Errorf("%s: the Service is read in the cluster that would export it; start the console with --context for it", &a.list[i])
			}
			e.Context = is.sources[from].Context
			notes, err := s.options.Records(ctx, e)
			if err != nil {
				return a, fmt.Errorf("%s: %w", &a.list[i], err)
			}
			a.notes = append(a.notes, notes...)
		}
	}
	a.shown = s.current()
	if a.after = a.set.state; len(a.list) > 0 {
		after, notes, err := a.set.state.Apply(a.list...)
		if err != nil {
			return a, err
		}
		a.after, a.notes = after, append(a.notes, notes...)
	}
	return a, nil
}

// about is what a request asks about a service and a place, which is the parameter at.
func (s *Server) about(ctx context.Context, q url.Values, at string) (key types.NamespacedName, from topology.Location, a question, err error) {
	if key, err = preview.ParseService(q.Get("service")); err != nil {
		return key, from, a, fmt.Errorf("service: %w", err)
	}
	if from, err = place.Parse(q.Get(at)); err != nil {
		return key, from, a, fmt.Errorf("%s: %w", at, err)
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

// memory is the last value that was computed for a State and changes. It is computed for one request at a time, as it takes seconds in a large set.
type memory[T any] struct {
	mu    sync.Mutex
	of    *preview.State
	list  []preview.Change
	value T
}

// get returns the value for the changes, with the records of their exports: the last one, or what compute makes of the Result.
func (m *memory[T]) get(ctx context.Context, is *question, o preview.Options, compute func(*preview.Result) T) (none T, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != is.set.state || !reflect.DeepEqual(m.list, is.list) {
		result, err := is.set.state.Preview(ctx, is.list, o)
		if err != nil {
			return none, err
		}
		m.of, m.list, m.value = is.set.state, is.list, compute(result)
	}
	return m.value, nil
}

// whatIf answers /api/whatif.
func (s *Server) whatIf(ctx context.Context, q url.Values) (*WhatIf, error) {
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(is.list) == 0 {
		return nil, errors.New("changes: none is given; want at least one")
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
