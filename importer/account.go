package importer

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// accounts let each source cluster's changes through at its own pace (C39). A cluster's changed services wait in its account, each once. A few at a
// time are handed to the workers, and what they write is charged to the clusters that changed the service. While an account is overdrawn, none
// is handed over. What is reconciled meanwhile for another reason takes the cluster's change with it, and the account is charged too.
type accounts struct {
	clock       clock.WithDelayedExecution
	rate, burst float64 // bytes a second, bytes
	window      int     // how many services of one cluster the workers have at a time
	add         func(service types.NamespacedName)

	mu     sync.Mutex
	of     map[string]*account
	causes map[types.NamespacedName]*causes
}

type account struct {
	level   float64 // bytes that may be written, negative if it is overdrawn
	at      time.Time
	waiting []types.NamespacedName
	handed  int  // services that the workers have
	timed   bool // whether a look is due when it isn't overdrawn any more
}

// causes are the clusters that changed a service: those in whose accounts it waits, those for which the workers have it or will have it, and those
// that owe for a reconcile that has to be repeated.
type causes struct{ waiting, handed, owing []string }

func newAccounts(c clock.WithDelayedExecution, o Options) *accounts {
	lateGauge.WithLabelValues(o.Cluster).Set(0) // so that the metric exists from the start; a cluster's own changes never wait
	return &accounts{
		clock: c, rate: float64(o.WriteRate), burst: float64(o.WriteBurst), window: max(1, o.Concurrency*3/4),
		of: map[string]*account{}, causes: map[types.NamespacedName]*causes{},
	}
}

// changed records that a cluster changed a service.
func (a *accounts) changed(cluster string, service types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.causes[service]
	if c == nil {
		c = &causes{}
		a.causes[service] = c
	}
	if slices.Contains(c.handed, cluster) || slices.Contains(c.waiting, cluster) {
		return
	}
	c.waiting = append(c.waiting, cluster)
	of := a.account(cluster)
	of.waiting = append(of.waiting, service)
	a.hand(cluster, of)
}

// account returns a cluster's account as of now.
func (a *accounts) account(cluster string) *account {
	of, now := a.of[cluster], a.clock.Now()
	if of == nil {
		of = &account{level: a.burst, at: now}
		a.of[cluster] = of
	}
	of.level, of.at = min(a.burst, of.level+a.rate*now.Sub(of.at).Seconds()), now
	return of
}

// hand hands services of a cluster to the workers, as many as they may have of it.
func (a *accounts) hand(cluster string, of *account) {
	for len(of.waiting) > 0 && of.handed < a.window && of.level > 0 {
		service := of.waiting[0]
		of.waiting = of.waiting[1:]
		a.take(a.causes[service], cluster)
		a.add(service)
	}
	overdrawn := of.level <= 0 && len(of.waiting) > 0
	if overdrawn && !of.timed {
		of.timed = true
		a.clock.AfterFunc(time.Duration((1-of.level)/a.rate*float64(time.Second))+time.Millisecond, func() { a.look(cluster) })
	}
	waiting := 0
	if overdrawn {
		waiting = len(of.waiting)
	}
	lateGauge.WithLabelValues(cluster).Set(float64(waiting))
}

// take moves a cluster to those for which the workers have a service.
func (a *accounts) take(c *causes, cluster string) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w string) bool { return w == cluster })
	if !slices.Contains(c.handed, cluster) {
		c.handed = append(c.handed, cluster)
		a.of[cluster].handed++
	}
}

func (a *accounts) look(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.account(cluster)
	of.timed = false
	a.hand(cluster, of)
}

// begin returns the clusters for whose changes a service is about to be reconciled, whatever the reason: it is as the store has it.
func (a *accounts) begin(service types.NamespacedName) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.causes[service]
	if c == nil {
		return nil
	}
	for _, cluster := range slices.Clone(c.waiting) {
		of := a.of[cluster]
		of.waiting = slices.DeleteFunc(of.waiting, func(w types.NamespacedName) bool { return w == service })
		a.take(c, cluster)
	}
	for _, cluster := range c.owing {
		a.take(c, cluster)
	}
	clusters := c.handed
	c.handed, c.owing = nil, nil
	return clusters
}

// end charges what was written to the clusters that changed the service. If that wasn't all, they also pay for the next time.
func (a *accounts) end(service types.NamespacedName, clusters []string, bytes int64, finished bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cluster := range clusters {
		of := a.account(cluster)
		of.level -= float64(bytes) / float64(len(clusters))
		of.handed--
		if !finished {
			a.causes[service].owing = append(a.causes[service].owing, cluster)
		}
	}
	if c := a.causes[service]; c != nil && len(c.waiting)+len(c.handed)+len(c.owing) == 0 {
		delete(a.causes, service)
	}
	for _, cluster := range clusters {
		a.hand(cluster, a.of[cluster])
	}
}
