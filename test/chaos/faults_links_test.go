package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleettest"
)

// linkFaults happen between a process and an API server.
var linkFaults = []fault{
	{group: "partition", name: "member from hub, connections refused", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.cutFromHub(faultproxy.Condition{Refused: true})
	}},
	{group: "partition", name: "member from hub, packets dropped", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.cutFromHub(faultproxy.Condition{ToServer: true, ToClient: true})
	}},
	{group: "partition", name: "one way: what the member sends is dropped", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.cutFromHub(faultproxy.Condition{ToServer: true})
	}},
	{group: "partition", name: "one way: what the hub sends is dropped", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.cutFromHub(faultproxy.Condition{ToClient: true})
	}},
	{group: "partition", name: "member from hub, for less than it takes to be suspected", promise: noChange, does: func(c *run) {
		c.disturb(places[0].wire(c), faultproxy.Condition{ToServer: true, ToClient: true})
	}},
	{group: "partition", name: "hub from all members for longer than it takes to expire", promise: noChange, silent: true, does: func(c *run) {
		for _, m := range c.Members {
			c.wire(&c.Hub.Cluster, m.Spec.Name).Set(faultproxy.Condition{ToServer: true, ToClient: true})
		}
		c.watch(expireAfter + c.between(0, 4*time.Second))
		for _, m := range c.Members {
			c.wire(&c.Hub.Cluster, m.Spec.Name).Set(good)
		}
		c.watch(suspectAfter)
	}},
	{group: "partition", name: "agent from its own API server", promise: noChange, does: func(c *run) { c.disturb(places[1].wire(c), c.anyCut(places[1])) }},
	{group: "partition", name: "DNS from its API server", promise: noChange, does: func(c *run) { c.disturb(places[2].wire(c), c.anyCut(places[2])) }},
	{group: "partition", name: "hub process from its API server", promise: noChange, does: func(c *run) { c.disturb(places[3].wire(c), c.anyCut(places[3])) }},
	{group: "partition", name: "hub process from its API server for longer than it takes to expire", promise: noChange, silent: true, does: func(c *run) {
		w := places[3].wire(c)
		before := w.Disturbed()
		w.Set(c.anyCut(places[3]))
		c.watch(expireAfter + c.between(0, 4*time.Second))
		c.feels(w, before)
		w.Set(good)
		c.watch(suspectAfter)
	}},
	{group: "link", name: "slow: 0.1 to 1 s each way", promise: noChange, does: func(c *run) {
		c.disturb(c.anyPlace().wire(c), faultproxy.Condition{Delay: c.between(100*time.Millisecond, time.Second)})
	}},
	{group: "link", name: "lossy: a tenth of the pieces late by up to 3 s, a hundredth breaks the connection", promise: noChange, does: func(c *run) {
		c.disturb(c.anyPlace().wire(c), faultproxy.Condition{Stalls: 100, Resets: 10})
	}},
	{group: "link", name: "flapping: cut and mended every second or so", promise: noChange, does: func(c *run) {
		at := c.anyPlace()
		w := at.wire(c)
		before := w.Disturbed()
		for left := 5 + c.IntN(5); left > 0; left-- {
			w.Set(c.anyCut(at))
			c.churn(1)
			c.watch(c.between(100*time.Millisecond, 2*time.Second))
			if left == 1 {
				c.feels(w, before)
			}
			w.Set(good)
			c.watch(c.between(100*time.Millisecond, time.Second))
		}
	}},
	{group: "link", name: "all links lossy and slow at once", promise: noChange, does: func(c *run) {
		before := make([]int, len(places))
		for i, p := range places {
			w := p.wire(c)
			before[i] = w.Disturbed()
			w.Set(faultproxy.Condition{Stalls: 50, Resets: 5, Delay: c.between(10*time.Millisecond, 300*time.Millisecond)})
		}
		c.churn(10)
		c.watch(c.between(5*time.Second, 15*time.Second))
		for i, p := range places {
			c.feels(p.wire(c), before[i])
		}
	}},
}

// cutFromHub cuts the victim off from the hub until it has expired.
func (c *run) cutFromHub(condition faultproxy.Condition) {
	c.Helper()
	w := places[0].wire(c)
	w.Set(condition)
	c.fallsSilent()
	c.churn(3)
	w.Set(good)
}

// disturb puts a link into a condition for some seconds, and longer if no traffic has felt it yet.
func (c *run) disturb(w *wire, condition faultproxy.Condition) {
	c.Helper()
	before := w.Disturbed()
	w.Set(condition)
	c.churn(5)
	c.watch(c.between(4*time.Second, 15*time.Second))
	c.feels(w, before)
	w.Set(good)
}

// feels makes traffic on a link until its condition has made a difference more often than before.
func (c *run) feels(w *wire, before int) {
	c.Helper()
	c.until(func() error {
		if w.Disturbed() > before {
			return nil
		}
		return errors.Join(stir(context.Background(), w.of), fmt.Errorf("nothing that %s sent or was sent felt the link's condition", w.client))
	})
}

// anyCut returns a random way to cut a link that its traffic feels.
func (c *run) anyCut(at place) faultproxy.Condition {
	cuts := []faultproxy.Condition{{Refused: true}, {ToServer: true, ToClient: true}, {ToClient: true}, {ToServer: true}}
	if at.listens {
		cuts = cuts[:3]
	}
	return cuts[c.IntN(len(cuts))]
}

func (c *run) anyPlace() place { return places[c.IntN(len(places))] }

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

// each does something with each wire.
func (w *wires) each(do func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wire := range w.all {
		do(wire)
	}
}

func (w *wires) close() {
	w.each(func(w *wire) {
		w.Close()
		if w.api != nil {
			w.api.Close()
		}
	})
}

// mend removes every fault from the wires.
func (w *wires) mend() {
	w.each(func(w *wire) {
		w.Set(faultproxy.Condition{})
		w.direct()
	})
}

// disturbed returns how often the links' conditions have made a difference so far.
func (w *wires) disturbed() (n int) {
	w.each(func(w *wire) { n += w.Disturbed() })
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
