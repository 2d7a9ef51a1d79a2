package narrow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// page is a page of an API server's list. The items are passed on undecoded.
type page struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue,omitempty"`
	} `json:"metadata"`
	Items json.RawMessage `json:"items"`
}

// listPeers lists the namespace of each peer, with all its pages, and replies with the items as one list. It sends one
// request after the other: client-go uses it only with API servers that don't stream lists (before 1.32).
//
// This cluster's own namespace comes first, because it may always be read, and its reply's header and status apply to the
// whole list. A peer's namespace that can't be read is left out; the watch adds it later.
func (t *transport) listPeers(r *http.Request, l *list) (*http.Response, error) {
	var whole page
	all := &bytes.Buffer{}
	for i, namespace := range l.peers {
		query, version := r.URL.Query(), ""
		items := &bytes.Buffer{}
		for {
			reply, err := t.next.RoundTrip(inNamespace(r, namespace, query))
			if err != nil {
				return nil, err
			}
			if reply.StatusCode != http.StatusOK {
				if i == 0 {
					return reply, nil
				}
				_ = reply.Body.Close()
				break
			}
			p, err := decodePage(reply)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", namespace, err)
			}
			if version == "" {
				version = p.Metadata.ResourceVersion
			}
			if whole.Kind == "" {
				whole = p
			}
			if content := bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(p.Items), []byte("[")), []byte("]")); len(content) > 0 && string(content) != "null" {
				if items.Len() > 0 {
					items.WriteByte(',')
				}
				items.Write(content)
			}
			if p.Metadata.Continue == "" {
				t.selection.read(l, namespace, version)
				if all.Len() > 0 && items.Len() > 0 {
					all.WriteByte(',')
				}
				all.Write(items.Bytes())
				break
			}
			query.Set("continue", p.Metadata.Continue)
			query.Del("resourceVersion") // the pages belong to the first page's version
			query.Del("resourceVersionMatch")
		}
	}
	whole.Metadata.Continue = ""
	whole.Items = append(append([]byte("["), all.Bytes()...), ']')
	content, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("put the peers' lists together: %w", err)
	}
	return reply(r, http.StatusOK, content), nil
}

func decodePage(reply *http.Response) (p page, err error) {
	defer func() { _ = reply.Body.Close() }()
	if err := isJSON(reply); err != nil {
		return p, err
	}
	content, err := io.ReadAll(reply.Body)
	if err != nil {
		return p, fmt.Errorf("read the reply: %w", err)
	}
	if err := json.Unmarshal(content, &p); err != nil {
		return p, fmt.Errorf("decode the reply: %w", err)
	}
	return p, nil
}

// isJSON returns an error for replies that can't be combined.
func isJSON(reply *http.Response) error {
	if kind := reply.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return fmt.Errorf("the hub replies in %q, want application/json", kind)
	}
	return nil
}

// inNamespace returns the request r, which is for all namespaces, for one namespace.
func inNamespace(r *http.Request, namespace string, query url.Values) *http.Request {
	of := r.Clone(r.Context())
	before, kind, _ := strings.Cut(r.URL.Path, group)
	of.URL.Path = before + group + "namespaces/" + namespace + "/" + kind
	of.URL.RawPath, of.URL.RawQuery = "", query.Encode()
	return of
}

func reply(r *http.Request, status int, content []byte) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(content)), Body: io.NopCloser(bytes.NewReader(content)),
	}
}
