package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// between is the shortest time between two events of a stream, and alive the longest without a sign of life.
	between, alive = 500 * time.Millisecond, 15 * time.Second
)

// events serves a stream of Changes: server-sent events, https://html.spec.whatwg.org/multipage/server-sent-events.html.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d pages of this console are open already; close one", maxStreams), http.StatusServiceUnavailable)
		return
	}
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, err := fmt.Fprint(w, "retry: 2000\n\n")
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for seen := int64(-1); err == nil; {
		change, changed := s.since(seen)
		if len(change.Changed) > 0 {
			data, _ := json.Marshal(change) //nolint:errchkjson // numbers and words
			_, err = fmt.Fprintf(w, "event: change\ndata: %s\n\n", data)
			seen = change.Version
		}
		if err == nil {
			err = out.Flush()
		}
		pause := time.NewTimer(between)
		select {
		case <-pause.C:
		case <-r.Context().Done():
			pause.Stop()
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-tick.C:
			if err == nil {
				_, err = fmt.Fprint(w, ": alive\n\n")
			}
		}
	}
}

// since returns what has changed since a version, and a channel that is closed at the next change. For a negative version everything has
// changed.
func (s *Server) since(version int64) (Change, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Change{Version: s.version}
	for _, t := range []Topic{TopicSources, TopicClusters, TopicServices, TopicHistory} {
		if version < 0 || s.news[t] > version {
			c.Changed = append(c.Changed, t)
		}
	}
	return c, s.changed
}
