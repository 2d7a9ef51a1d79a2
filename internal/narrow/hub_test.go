package narrow

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// aHub is an API server with records. It keeps all changes since its last compaction. It is also a transport.
type aHub struct {
	noStreams bool // it doesn't support watches that begin with a list

	mu        sync.Mutex
	version   int
	oldest    int                       // the oldest version that a watch can resume from
	records   map[string]map[string]int // versions, by namespace and name
	history   []change
	forbidden map[string]bool // by namespace
	silent    map[string]bool // namespaces in which watches get no answer
	changed   chan struct{}   // closed with each change
	cut       chan struct{}   // closed to end all watches
	requests  []string
}

type change struct {
	kind, namespace, name string
	version               int
}

func newHub() *aHub {
	return &aHub{
		version: 100, records: map[string]map[string]int{}, forbidden: map[string]bool{}, silent: map[string]bool{},
		changed: make(chan struct{}), cut: make(chan struct{}),
	}
}

func (h *aHub) do(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *aHub) put(namespace, name string) {
	h.do(func() {
		if h.records[namespace] == nil {
			h.records[namespace] = map[string]int{}
		}
		kind := "MODIFIED"
		if h.records[namespace][name] == 0 {
			kind = "ADDED"
		}
		h.version++
		h.records[namespace][name] = h.version
		h.history = append(h.history, change{kind, namespace, name, h.version})
	})
}

func (h *aHub) remove(namespace, name string) {
	h.do(func() {
		if h.records[namespace][name] == 0 {
			return
		}
		h.version++
		delete(h.records[namespace], name)
		h.history = append(h.history, change{"DELETED", namespace, name, h.version})
	})
}

func (h *aHub) forbid(yes bool, namespaces ...string) {
	h.do(func() {
		for _, n := range namespaces {
			h.forbidden[n] = yes
		}
	})
}

func (h *aHub) endWatches() {
	h.do(func() {
		close(h.cut)
		h.cut = make(chan struct{})
	})
}

func (h *aHub) compact() { h.do(func() { h.oldest = h.version }) }

// asked returns the requests since its last call.
func (h *aHub) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.requests
	h.requests = nil
	slices.Sort(asked)
	return asked
}

func (h *aHub) has(namespaces ...string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, namespace := range namespaces {
		for name, version := range h.records[namespace] {
			all = append(all, fmt.Sprint(namespace, "/", name, "@", version))
		}
	}
	slices.Sort(all)
	return all
}

func (h *aHub) RoundTrip(r *http.Request) (*http.Response, error) {
	query, namespace := r.URL.Query(), ""
	_, path, _ := strings.Cut(r.URL.Path, group)
	if parts := strings.Split(path, "/"); len(parts) == 3 {
		namespace = parts[1]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	kind := "list"
	if query.Get("watch") != "" {
		kind = "watch"
	}
	h.requests = append(h.requests, kind+" "+namespace)
	version, _ := strconv.Atoi(query.Get("resourceVersion"))
	initial := query.Get("sendInitialEvents") == "true"
	switch {
	case h.forbidden[namespace]:
		return reply(r, http.StatusForbidden, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)), nil
	case kind == "list":
		return h.list(r, namespace, query.Get("limit"), query.Get("continue")), nil
	case h.silent[namespace]:
		h.mu.Unlock()
		<-r.Context().Done()
		h.mu.Lock()
		return nil, r.Context().Err()
	case initial && h.noStreams:
		return reply(r, http.StatusUnprocessableEntity, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)), nil
	case !initial && version > 0 && version < h.oldest:
		return expired(r)
	}
	body, to := io.Pipe()
	var first []string
	whole := initial || version == 0
	if whole {
		for _, n := range slices.Sorted(maps.Keys(h.records)) {
			for _, name := range slices.Sorted(maps.Keys(h.records[n])) {
				if namespace == "" || n == namespace {
					first = append(first, eventOf(change{"ADDED", n, name, h.records[n][name]}))
				}
			}
		}
		version = h.version
	}
	annotations := ""
	if initial {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	if whole {
		first = append(first, fmt.Sprintf(`{"type":"BOOKMARK","object":{%s,"metadata":{"resourceVersion":"%d"%s}}}`, typed, version, annotations))
	}
	go h.serve(r.Context(), to, namespace, first, version, h.cut)
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

const typed = `"kind":"ExportedService","apiVersion":"clusterset.dev/v1alpha1"`

func objectOf(c change) string {
	return fmt.Sprintf(`{%s,"metadata":{"namespace":%q,"name":%q,"uid":"%s-%s","resourceVersion":"%d"}}`, typed, c.namespace, c.name, c.namespace, c.name, c.version)
}

func eventOf(c change) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, c.kind, objectOf(c)) }

// serve writes the events after a version, in one namespace or in all.
func (h *aHub) serve(ctx context.Context, to *io.PipeWriter, namespace string, first []string, after int, cut chan struct{}) {
	for _, line := range first {
		if _, err := io.WriteString(to, line+"\n"); err != nil {
			return
		}
	}
	for {
		h.mu.Lock()
		changed, events := h.changed, []string(nil)
		for _, c := range h.history {
			if c.version > after && (namespace == "" || c.namespace == namespace) {
				events = append(events, eventOf(c))
			}
		}
		after = h.version
		h.mu.Unlock()
		for _, line := range events {
			if _, err := io.WriteString(to, line+"\n"); err != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			_ = to.CloseWithError(ctx.Err())
			return
		case <-cut:
			_ = to.Close()
			return
		case <-changed:
		}
	}
}

// list replies with a page. The continue token is the name after which the next page begins.
func (h *aHub) list(r *http.Request, namespace, limit, after string) *http.Response {
	var items []string
	more := ""
	n, _ := strconv.Atoi(limit)
	for _, ns := range slices.Sorted(maps.Keys(h.records)) {
		for _, name := range slices.Sorted(maps.Keys(h.records[ns])) {
			if namespace != "" && ns != namespace || after != "" && ns+"/"+name <= after {
				continue
			}
			if n > 0 && len(items) == n {
				break
			}
			items = append(items, objectOf(change{namespace: ns, name: name, version: h.records[ns][name]}))
			more = ns + "/" + name
		}
	}
	if n == 0 || len(items) < n {
		more = ""
	}
	return reply(r, http.StatusOK, fmt.Appendf(nil, `{"kind":"ExportedServiceList","apiVersion":"clusterset.dev/v1alpha1","metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`,
		h.version, more, strings.Join(items, ",")))
}
