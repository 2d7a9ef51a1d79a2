package console

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/internal/topology"
)

// query has the parameters of a request.
type query struct{ url.Values }

func parseQuery(raw string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, badRequest("the parameters of the address can't be read: %w", err)
	}
	return query{values}, nil
}

// number returns a parameter between 0 and most.
func (q query) number(name string, usual, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, badRequest("%s is %q; want a number from 0 to %d", name, text, most)
	}
	return n, nil
}

// place reads a parameter that is a place.
func (q query) place(name string) (topology.Location, error) {
	l, err := place.Parse(q.Get(name))
	if err != nil {
		return l, badRequest("%s: %w", name, err)
	}
	return l, nil
}

// maxChanges limits the changes of a request.
const maxChanges = 32

// question is what a request is about: what is shown, and the changes of its parameter changes.
type question struct {
	shown
	list  []preview.Change
	words []string
	notes []string
	after *preview.State // the State after them
}

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
			if s.options.Records == nil {
				return a, badRequest("%s: the Service is read in the cluster that would export it; start the console with --context for it", &a.list[i])
			}
			notes, err := s.options.Records(ctx, e, s.current().set.state.Networks(a.list...))
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
	for i := range a.list { // only now: a change that can't be applied may say nothing
		a.words = append(a.words, a.list[i].String())
	}
	return a, nil
}
