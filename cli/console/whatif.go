package console

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/clusterset/clusterset/cli/preview"
)

// memory is the last value that was computed for a State and changes. Only the request that holds the place uses it.
type memory[T any] struct {
	of      *preview.State
	changes string
	value   T
}

// get returns the value for a State and changes: the last one, or what compute makes of the Result. An export depends on more than the
// hub's records, so it is always computed.
func (m *memory[T]) get(ctx context.Context, state *preview.State, list []preview.Change, o preview.Options, compute func(*preview.Result) T) (none T, err error) {
	text, err := json.Marshal(list)
	if err != nil {
		return none, badRequest("changes: %w", err)
	}
	exports := slices.ContainsFunc(list, func(c preview.Change) bool { return c.Export != nil })
	if exports || m.of != state || m.changes != string(text) {
		result, err := state.Preview(ctx, list, o)
		if err != nil {
			return none, badRequest("%w", err)
		}
		*m = memory[T]{state, string(text), compute(result)}
	}
	return m.value, nil
}

// whatIf answers /api/whatif. It computes one answer at a time.
func (s *Server) whatIf(ctx context.Context, q query) (any, error) {
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(is.list) == 0 {
		return nil, badRequest("changes: none is given; want at least one")
	}
	return s.lastWhatIf.get(ctx, is.set.state, is.list, s.options.Preview, func(result *preview.Result) *WhatIf {
		w := &WhatIf{Summary: result.Summary, Services: []Changed{}, Notes: is.notes, Changes: is.words, Command: s.options.Flags.preview(is.list)}
		for i := range result.Services {
			svc := &result.Services[i]
			changed := Changed{Namespace: svc.Namespace, Name: svc.Name, Effects: svc.Effects, Conflicts: len(svc.Conflicts)}
			for j := range svc.Cells {
				changed.Places += len(svc.Cells[j].Places)
			}
			w.Services = append(w.Services, changed)
		}
		return w
	})
}
