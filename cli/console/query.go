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

// changes are the changes of a request, and their effect on a State.
type changes struct {
	list  []preview.Change
	notes []string
	words []string
}

// changes parses the parameter changes, and reads what its exports need.
func (s *Server) changes(ctx context.Context, q query) (c changes, err error) {
	text := q.Get("changes")
	if text == "" {
		return c, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c.list); err != nil {
		return c, badRequest("changes: want a list of changes, each with one of %s: %w", preview.Kinds, err)
	}
	if len(c.list) > maxChanges {
		return c, badRequest("there are %d changes; want %d at most", len(c.list), maxChanges)
	}
	for i := range c.list {
		if e := c.list[i].Export; e != nil {
			if s.options.Records == nil {
				return c, badRequest("%s: the Service is read in the cluster that would export it; start the console with --context for it", c.list[i].String())
			}
			notes, err := s.options.Records(ctx, e, s.current().set.state.Networks(c.list...))
			if err != nil {
				return c, badRequest("%s: %w", c.list[i].String(), err)
			}
			c.notes = append(c.notes, notes...)
		}
		c.words = append(c.words, c.list[i].String())
	}
	return c, nil
}

// after returns what is shown, the changes of a request, and the State after them.
func (s *Server) after(ctx context.Context, q query) (is shown, c changes, after *preview.State, err error) {
	if c, err = s.changes(ctx, q); err == nil {
		is = s.current()
		after, err = c.apply(is.set.state)
	}
	return is, c, after, err
}

// apply returns the State after the changes.
func (c *changes) apply(state *preview.State) (*preview.State, error) {
	if len(c.list) == 0 {
		return state, nil
	}
	after, notes, err := state.Apply(c.list...)
	if err != nil {
		return nil, badRequest("%w", err)
	}
	c.notes = append(c.notes, notes...)
	return after, nil
}
