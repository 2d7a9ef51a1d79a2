package console

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// between is the shortest time between two events of a stream, and alive the longest without a sign of life.
	between, alive = 500 * time.Millisecond, 15 * time.Second
)

// events serves a stream of server-sent events, which say that something of what is shown has changed: https://html.spec.whatwg.org/multipage/server-sent-events.html.
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
	var seen <-chan struct{}
	for err == nil {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if changed != seen {
			_, err = fmt.Fprint(w, "data: changed\n\n")
			seen = changed
		}
		if err == nil {
			err = out.Flush()
		}
		select {
		case <-time.After(between):
		case <-r.Context().Done():
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
