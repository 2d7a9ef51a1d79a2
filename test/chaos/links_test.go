package chaos

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleettest"
)

// wires has the connections of a fleet to API servers: one from each process to each API server that it uses. Those to other members are
// fleettest.Paths.
type wires struct {
	seed uint64

	mu  sync.Mutex
	all map[wireEnds]*wire
}

// wireEnds identifies a wire by the folder of the cluster whose API server is used, and by the client's user.
type wireEnds struct{ cluster, client string }

// wire is one client's connection to one API server.
type wire struct {
	*faultproxy.Link
	of     *fleettest.Cluster
	client string
	// api answers in place of the API server. It is created at first use.
	api *faultproxy.API
}

// wireUp makes every process of a fleet reach its API servers through a link. The fleet must not be launched yet.
func wireUp(f *fleettest.Fleet, seed uint64) *wires {
	w := &wires{seed: seed, all: map[wireEnds]*wire{}}
	f.Hub.Address = func(client string) (string, error) { return w.address(&f.Hub.Cluster, client) }
	for _, m := range f.Members {
		m.Address = func(client string) (string, error) { return w.address(&m.Cluster, client) }
	}
	return w
}

func (w *wires) address(c *fleettest.Cluster, client string) (string, error) {
	wire, err := w.get(c, client)
	if err != nil {
		return "", err
	}
	return "https://" + wire.Addr(), nil
}

// get returns a client's wire to a cluster.
func (w *wires) get(c *fleettest.Cluster, client string) (*wire, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ends := wireEnds{c.Dir, client}
	if w.all[ends] == nil {
		link, err := faultproxy.NewLink(host(c), w.seed+uint64(len(w.all)))
		if err != nil {
			return nil, err
		}
		w.all[ends] = &wire{Link: link, of: c, client: client}
	}
	return w.all[ends], nil
}

// host returns the host:port on which the API server listens.
func host(c *fleettest.Cluster) string { return strings.TrimPrefix(c.Plane.URL(), "https://") }

// close closes all wires.
func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wire := range w.all {
		wire.Close()
		if wire.api != nil {
			wire.api.Close()
		}
	}
}

// mend removes every fault from the wires.
func (w *wires) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wire := range w.all {
		wire.Set(faultproxy.Condition{})
		wire.direct()
	}
}

// disturbed returns how often the links' conditions have made a difference so far.
func (w *wires) disturbed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, wire := range w.all {
		n += wire.Disturbed()
	}
	return n
}

// direct stops intercepting requests.
func (w *wire) direct() {
	if w.api != nil {
		w.api.Begin(nil)
		w.api.Edit(nil)
	}
	w.Lead(host(w.of))
}

// intercept sends requests through an API that can answer in place of the API server.
func (w *wire) intercept() (*faultproxy.API, error) {
	if w.api == nil {
		// It needs the API server's own certificate, because clients would refuse any other.
		pki := func(file string) string { return filepath.Join(w.of.Dir, "pki", file) }
		certificate, err := tls.LoadX509KeyPair(pki("apiserver.crt"), pki("apiserver.key"))
		if err != nil {
			return nil, err
		}
		if w.api, err = faultproxy.NewAPI(w.identity(), &certificate); err != nil {
			return nil, err
		}
	}
	w.Lead(w.api.Addr())
	return w.api, nil
}

// identity returns the configuration with which intercepted requests reach the API server. A member's agent sends its own
// token to the hub. All other clients have certificates, which a proxy can't forward.
func (w *wire) identity() *rest.Config {
	if strings.HasPrefix(w.client, "clusterset-") {
		return w.of.Plane.ConfigFor(w.client)
	}
	config := w.of.Plane.ConfigFor("nobody")
	config.CertData, config.KeyData = nil, nil
	return config
}
