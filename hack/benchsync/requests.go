package main

import (
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/clusterset/clusterset/api"
)

// requests counts the requests that a hub has answered, by kind and second. Attempts to reach a hub that is away aren't among them.
type requests struct {
	mu      sync.Mutex
	began   time.Time
	seconds tally
}

// clear returns what was counted since it was last called.
func (c *requests) clear() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.seconds
	c.began, c.seconds = time.Now(), nil
	return was
}

func (c *requests) count(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	second := int(time.Since(c.began) / time.Second)
	for len(c.seconds) <= second {
		c.seconds = append(c.seconds, map[string]int{})
	}
	c.seconds[second][kind]++
}

// through returns a transport that counts the requests that next answers.
func (c *requests) through(next http.RoundTripper) http.RoundTripper { return counter{c, next} }

type counter struct {
	*requests
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := c.next.RoundTrip(r)
	if err == nil {
		c.count(kindOf(r, reply.StatusCode))
	}
	return reply, err
}

// kindOf names a kind of requests, such as "watch" or "create (403)".
func kindOf(r *http.Request, status int) string {
	kind := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
	query := r.URL.Query()
	switch path.Base(r.URL.Path) {
	case "exportedservices", "exportedendpoints", "memberclusters":
		if r.Method == http.MethodGet {
			kind = "list"
		}
		if query.Get("watch") != "" {
			kind = "watch"
		}
	case api.HeartbeatLease:
		kind += " Lease"
	}
	if status >= http.StatusBadRequest {
		kind += fmt.Sprintf(" (%d)", status)
	}
	return kind
}
