package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
)

// traffic counts what a hub's API server answers to one or more members: decompressed response bodies, without headers, framing and TLS.
// Attempts to reach a hub that is away aren't counted.
type traffic struct {
	mu sync.Mutex
	received
}

type received struct {
	requests int
	refused  int // of the requests
	open     int // watches
	events   int // watch events about records
	records  int // bytes of ExportedServices and ExportedEndpoints
}

func (r received) minus(s received) received {
	return received{r.requests - s.requests, r.refused - s.refused, r.open - s.open, r.events - s.events, r.records - s.records}
}

// taken returns how many requests weren't refused.
func (r received) taken() int { return r.requests - r.refused }

func (r received) String() string {
	return fmt.Sprintf("%d events of records in %d bytes", r.events, r.records)
}

func (t *traffic) now() received {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received
}

func (t *traffic) count(change func(*received)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.received)
}

// through returns a transport that counts the answers of next.
func (t *traffic) through(next http.RoundTripper) http.RoundTripper { return counting{t, next} }

type counting struct {
	*traffic
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	c.count(func(all *received) {
		all.requests++
		if reply.StatusCode >= http.StatusBadRequest {
			all.refused++
		}
	})
	kind := path.Base(r.URL.Path)
	body := &counted{ReadCloser: reply.Body, traffic: c.traffic, records: kind == "exportedservices" || kind == "exportedendpoints"}
	if r.URL.Query().Get("watch") != "" && reply.StatusCode == http.StatusOK {
		body.watch = true
		c.count(func(all *received) { all.open++ })
	}
	reply.Body = body
	return reply, nil
}

// counted is the body of an answer. A watch's has one line per event.
type counted struct {
	io.ReadCloser
	traffic        *traffic
	records, watch bool
	line           []byte // the part of an unfinished line that has been read
	closed         sync.Once
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	switch {
	case !c.records:
	case !c.watch:
		c.traffic.count(func(all *received) { all.records += n })
	default:
		c.line = append(c.line, p[:n]...)
		for line, after, ended := bytes.Cut(c.line, []byte("\n")); ended; line, after, ended = bytes.Cut(c.line, []byte("\n")) {
			if !bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
				c.traffic.count(func(all *received) { all.events, all.records = all.events+1, all.records+len(line)+1 })
			}
			c.line = after
		}
	}
	return n, err
}

// Close implements io.Closer.
func (c *counted) Close() error {
	c.closed.Do(func() {
		if c.watch {
			c.traffic.count(func(all *received) { all.open-- })
		}
	})
	return c.ReadCloser.Close()
}
