package clusterset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/kube"
)

// apiProxy stands in front of the API server and does to requests what API servers under stress, load balancers and networks
// do to them.
type apiProxy struct {
	t          *testing.T
	kubeconfig string

	mu      sync.Mutex
	fault   http.HandlerFunc // answers instead of the API server, where it is set
	faults  int              // how many requests it answered
	streams map[*watchStream]bool
}

// startProxy starts a proxy and writes a kubeconfig that leads to it.
func startProxy(t *testing.T, control *kube.ControlPlane) *apiProxy {
	t.Helper()
	config := control.Config()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &apiProxy{t: t, streams: map[*watchStream]bool{}, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // each event at once
		ModifyResponse: p.holdStream,
		ErrorLog:       log.New(io.Discard, "", 0), // of the streams that it is told to break
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := p.faultOf(r); fault != nil {
			fault(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.begin(status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)) // or a leaked watch would hold up Close
		p.end(nil)
		server.CloseClientConnections()
		server.Close()
	})
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		CurrentContext: "proxy",
	}, p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// begin makes every request get the fault's answer; nil ends that.
func (p *apiProxy) begin(fault http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.faults = fault, 0
}

func (p *apiProxy) faultOf(r *http.Request) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil && isOurs(r) {
		p.faults++
	}
	return p.fault
}

// isOurs reports whether the request is for a kind that we watch.
func isOurs(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/apis/") }

// faulted says how many requests got the fault's answer.
func (p *apiProxy) faulted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// watched returns the resources that are being watched, one for each watch.
func (p *apiProxy) watched() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var resources []string
	for s := range p.streams {
		resources = append(resources, s.resource)
	}
	return resources
}

// end ends all watches that are under way: each gets a last piece of stream, if there is one for its media type, and then the
// error of last, or a proper end.
func (p *apiProxy) end(last func(mediaType string) ([]byte, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		delete(p.streams, s)
		var piece []byte
		var err error
		if last != nil {
			if piece, err = last(s.mediaType); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				p.t.Error(err)
			}
		}
		go func() { // the client may be slow to read
			_, _ = s.out.Write(piece)
			s.out.CloseWithError(err) // nil is io.EOF
			_ = s.upstream.Close()
		}()
	}
}

// watchStream is a watch under way.
type watchStream struct {
	resource, mediaType string
	upstream            io.ReadCloser
	out                 *io.PipeWriter
}

// holdStream puts a pipe into a watch, so that it can be ended from here.
func (p *apiProxy) holdStream(r *http.Response) error {
	query := r.Request.URL.Query()
	if isWatch, _ := strconv.ParseBool(query.Get("watch")); !isWatch || r.StatusCode != http.StatusOK {
		return nil
	}
	in, out := io.Pipe()
	s := &watchStream{filepath.Base(r.Request.URL.Path), r.Header.Get("Content-Type"), r.Body, out}
	p.mu.Lock()
	p.streams[s] = true
	p.mu.Unlock()
	go func() {
		_, err := io.Copy(out, s.upstream)
		out.CloseWithError(err)
		_ = s.upstream.Close()
	}()
	r.Body = &heldStream{in, func() {
		p.mu.Lock()
		delete(p.streams, s)
		p.mu.Unlock()
		_ = s.upstream.Close()
	}}
	return nil
}

type heldStream struct {
	*io.PipeReader
	closed func()
}

func (h *heldStream) Close() error {
	h.closed()
	return h.PipeReader.Close()
}

// status answers with an error as the API server writes it.
func status(code int, reason metav1.StatusReason, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(failure(code, reason))
	}
}

func failure(code int, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "as the test wants it", //nolint:gosec // HTTP codes
	}
}

// expired is the event with which an API server ends a watch whose history etcd has compacted.
func expired(mediaType string) ([]byte, error) {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return nil, errors.New("unknown media type " + mediaType)
	}
	object, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, metav1.Unversioned), failure(http.StatusGone, metav1.StatusReasonExpired))
	if err != nil {
		return nil, err
	}
	var stream bytes.Buffer
	event := &metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: object}}
	encoder := scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, metav1.Unversioned)
	err = encoder.Encode(event, info.StreamSerializer.Framer.NewFrameWriter(&stream))
	return stream.Bytes(), err
}

// torn is half an event and a broken connection.
func torn(mediaType string) ([]byte, error) {
	piece, err := expired(mediaType)
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return piece[:len(piece)/2], err
}
