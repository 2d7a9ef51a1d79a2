package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset/clusterset/api"
)

// traffic counts what the hub's API server sends to one or more members: decompressed response bodies, without headers, framing and TLS.
type traffic struct {
	mu sync.Mutex
	received
}

type received struct {
	open      int // open watches
	events    int // watch events about records
	records   int // bytes of ExportedServices and ExportedEndpoints
	members   int // bytes of MemberClusters
	bookmarks int // bytes
	other     int // bytes, mostly responses to heartbeats
}

func (r received) minus(s received) received {
	return received{r.open - s.open, r.events - s.events, r.records - s.records, r.members - s.members, r.bookmarks - s.bookmarks, r.other - s.other}
}

func (r received) String() string {
	return fmt.Sprintf("%d events of records; bytes: records %d, MemberClusters %d, bookmarks %d, responses to heartbeats and others %d",
		r.events, r.records, r.members, r.bookmarks, r.other)
}

func (t *traffic) now() received {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received
}

// through returns a transport that counts the response bodies of next.
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
	body := &counted{ReadCloser: reply.Body, traffic: c.traffic, of: &c.traffic.other}
	switch path.Base(r.URL.Path) {
	case "exportedservices", "exportedendpoints":
		body.of = &c.traffic.records
	case "memberclusters":
		body.of = &c.traffic.members
	}
	if r.URL.Query().Get("watch") != "" && reply.StatusCode == http.StatusOK {
		c.traffic.mu.Lock()
		c.traffic.open++
		c.traffic.mu.Unlock()
		body.watch = true
	}
	reply.Body = body
	return reply, nil
}

// counted is the body of a response. A watch sends one line per event.
type counted struct {
	io.ReadCloser
	traffic *traffic
	of      *int
	watch   bool
	line    []byte // the part of an unfinished line that has been read
	closed  sync.Once
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.traffic.mu.Lock()
	defer c.traffic.mu.Unlock()
	if !c.watch {
		*c.of += n
		return n, err
	}
	for left := p[:n]; len(left) > 0; {
		line, after, ended := bytes.Cut(left, []byte("\n"))
		c.line, left = append(c.line, line...), after
		switch {
		case !ended:
		case bytes.HasPrefix(c.line, []byte(`{"type":"BOOKMARK"`)):
			c.traffic.bookmarks += len(c.line) + 1
			c.line = c.line[:0]
		default:
			*c.of += len(c.line) + 1
			if c.of == &c.traffic.records {
				c.traffic.events++
			}
			c.line = c.line[:0]
		}
	}
	return n, err
}

// Close implements io.Closer.
func (c *counted) Close() error {
	c.closed.Do(func() {
		if c.watch {
			c.traffic.mu.Lock()
			c.traffic.open--
			c.traffic.mu.Unlock()
		}
	})
	return c.ReadCloser.Close()
}

// tap puts a counting proxy between a member's agent and the hub. It takes effect when the agent is next started.
func (b *bench) tap(m *member, t *traffic) (remove func(), err error) {
	next, err := rest.TransportFor(rest.AnonymousClientConfig(b.hub.Plane.Config()))
	if err != nil {
		return nil, err
	}
	hub, err := url.Parse(b.hub.Plane.URL())
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(m.HubKubeconfig)
	if err != nil {
		return nil, err
	}
	forward := func(r *httputil.ProxyRequest) {
		r.SetURL(hub)
		r.Out.Header.Del("Accept-Encoding") // so that the transport decompresses what t counts
	}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: forward, Transport: t.through(next), ErrorLog: log.New(io.Discard, "", 0)})
	proxy.EnableHTTP2 = true
	proxy.StartTLS()
	for _, cluster := range config.Clusters {
		cluster.Server = proxy.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	}
	return func() { proxy.CloseClientConnections(); proxy.Close() }, clientcmd.WriteToFile(*config, m.HubKubeconfig)
}

// watchAs opens the watches of a cluster's agent, with its account, until ctx ends. It discards what it receives.
func (b *bench) watchAs(ctx context.Context, cluster string, peers []string, t *traffic) error {
	config := b.hub.Plane.Config()
	in := "system:serviceaccounts:" + api.MemberNamespace(cluster)
	config.Impersonate = rest.ImpersonationConfig{UserName: agentOnHub(cluster), Groups: []string{"system:serviceaccounts", in, "system:authenticated"}}
	config.Dial = (&net.Dialer{}).DialContext // so that each cluster has its own connections
	next, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	transport := t.through(next)
	paths := []string{"memberclusters"}
	for _, kind := range []string{"exportedservices", "exportedendpoints"} {
		for _, peer := range peers {
			paths = append(paths, "namespaces/"+api.MemberNamespace(peer)+"/"+kind)
		}
		if peers == nil {
			paths = append(paths, kind)
		}
	}
	for _, of := range paths {
		query := url.Values{
			"watch": {"true"}, "sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}, "allowWatchBookmarks": {"true"},
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.hub.Plane.URL()+"/apis/clusterset.dev/v1alpha1/"+of+"?"+query.Encode(), http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("Accept", "application/json")
		reply, err := openWatch(transport, r) //nolint:bodyclose // the goroutine below closes it
		if err != nil {
			return fmt.Errorf("%s watches %s: %w", cluster, of, err)
		}
		go func() { _, _ = io.Copy(io.Discard, reply.Body); _ = reply.Body.Close() }()
	}
	return nil
}

// openWatch opens a watch. Like an agent's client, it waits for an API server that has just started, which refuses watches until its caches are
// filled.
func openWatch(transport http.RoundTripper, r *http.Request) (*http.Response, error) {
	for tries := 1; ; tries++ {
		reply, err := transport.RoundTrip(r)
		if err != nil || reply.StatusCode == http.StatusOK {
			return reply, err
		}
		_ = reply.Body.Close()
		if reply.StatusCode != http.StatusTooManyRequests || tries == 60 {
			return nil, errors.New(reply.Status)
		}
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-time.After(time.Second):
		}
	}
}
