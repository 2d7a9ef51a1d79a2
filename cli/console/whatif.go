package console

import (
	"context"
	"encoding/json"

	"github.com/clusterset/clusterset/cli/preview"
)

// memory is the last answer of /api/whatif. Only the request that holds the place uses it.
type memory struct {
	of      *preview.State
	changes string
	answer  *WhatIf
}

// whatIf answers /api/whatif. It computes one answer at a time.
func (s *Server) whatIf(ctx context.Context, q query) (any, error) {
	c, err := s.changes(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(c.list) == 0 {
		return nil, badRequest("changes: none is given; want at least one")
	}
	is := s.current()
	text, err := json.Marshal(c.list)
	if err != nil {
		return nil, badRequest("changes: %w", err)
	}
	if s.last.of == is.set.state && s.last.changes == string(text) && !exports(c.list) {
		return s.last.answer, nil
	}
	result, err := is.set.state.Preview(ctx, c.list, s.options.Preview)
	if err != nil {
		return nil, badRequest("%w", err)
	}
	w := &WhatIf{Version: is.version, Summary: result.Summary, Services: []Changed{}, Notes: append(c.notes, result.Notes...), Changes: c.words, Command: s.options.Flags.preview(c.list)}
	for i := range result.Services {
		svc := &result.Services[i]
		changed := Changed{Namespace: svc.Namespace, Name: svc.Name, Effects: svc.Effects, Conflicts: len(svc.Conflicts)}
		for j := range svc.Cells {
			changed.Places += len(svc.Cells[j].Places)
		}
		w.Services = append(w.Services, changed)
	}
	s.last = memory{is.set.state, string(text), w}
	return w, nil
}

// exports reports whether a change is an export, which depends on more than the hub's records.
func exports(changes []preview.Change) bool {
	for i := range changes {
		if changes[i].Export != nil {
			return true
		}
	}
	return false
}
