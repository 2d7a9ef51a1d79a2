package connectivity

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clusterset/clusterset/internal/beacon"
)

// Family is an IP family.
type Family string

// The families.
const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

// Ask is one question: does a name, or an address, lead to a cluster?
type Ask struct {
	To     string `json:"to"`
	Kind   Kind   `json:"kind"`
	Family Family `json:"family"`
	// Host is the name to resolve, or else Address is what to connect to.
	Host    string `json:"host,omitempty"`
	Address string `json:"address,omitempty"`
	// Want is the one address that the name must have, empty if it may be any.
	Want    string `json:"want,omitempty"`
	Connect bool   `json:"connect,omitempty"`
}

// Outcome is how a question was answered.
type Outcome string

// The outcomes.
const (
	Works       Outcome = "Works"
	Unresolved  Outcome = "Unresolved"  // the name has no address of the family, or the DNS server doesn't answer or fails
	OtherAnswer Outcome = "OtherAnswer" // the name has other addresses than it must
	NoAnswer    Outcome = "NoAnswer"    // nothing answers at the address, or something there or before it refuses
	WrongServer Outcome = "WrongServer" // another cluster's server answers
)

// Answer is the answer to a question.
type Answer struct {
	Ask
	Outcome   Outcome  `json:"outcome"`
	Addresses []string `json:"addresses,omitempty"`
	// At is the address that failed.
	At string `json:"at,omitempty"`
	// Error is what the resolver or the network says.
	Error string `json:"error,omitempty"`
}

const (
	atOnce = 16              // how many questions are asked at a time
	each   = 5 * time.Second // how long one attempt at a name may take
	again  = time.Second     // how long after a failure the next attempt comes
)

// AnswerAll answers the questions. What fails is tried again for a while, so that the answers aren't about the first seconds.
func AnswerAll(ctx context.Context, asks []Ask, patience time.Duration) []Answer {
	return answerAll(ctx, asks, patience, (&net.Resolver{PreferGo: true}).LookupNetIP, func(ctx context.Context, at netip.AddrPort, cluster string) error {
		_, err := beacon.Dial(ctx, at, cluster)
		return err
	})
}

type (
	lookUp func(ctx context.Context, network, host string) ([]netip.Addr, error)
	dial   func(ctx context.Context, at netip.AddrPort, cluster string) error
)

func answerAll(ctx context.Context, asks []Ask, patience time.Duration, look lookUp, dial dial) []Answer {
	until := time.Now().Add(patience)
	answers := make([]Answer, len(asks))
	slots := make(chan struct{}, atOnce)
	var workers sync.WaitGroup
	for i, q := range asks {
		workers.Go(func() {
			for {
				slots <- struct{}{}
				answers[i] = q.once(ctx, look, dial)
				<-slots
				if answers[i].Outcome == Works || !time.Now().Before(until) {
					return
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(again):
				}
			}
		})
	}
	workers.Wait()
	return answers
}

func (q Ask) once(ctx context.Context, look lookUp, dial dial) Answer {
	a := Answer{Ask: q, Outcome: Works, Addresses: []string{q.Address}}
	if q.Host != "" {
		a.Addresses = nil
		ctx, cancel := context.WithTimeout(ctx, each)
		defer cancel()
		addresses, err := look(ctx, strings.Replace(string(q.Family), "IPv", "ip", 1), q.Host)
		if err != nil {
			a.Outcome, a.Error = Unresolved, err.Error()
			return a
		}
		for _, found := range addresses {
			a.Addresses = append(a.Addresses, found.Unmap().String())
		}
		slices.Sort(a.Addresses)
		if q.Want != "" && !slices.Equal(a.Addresses, []string{q.Want}) {
			a.Outcome = OtherAnswer
			return a
		}
	}
	if !q.Connect {
		return a
	}
	for _, address := range a.Addresses {
		at, err := netip.ParseAddr(address)
		if err != nil {
			a.Outcome, a.Error = NoAnswer, err.Error()
			return a
		}
		if err := dial(ctx, netip.AddrPortFrom(at, Port), q.To); err != nil {
			a.Outcome, a.At, a.Error = NoAnswer, netip.AddrPortFrom(at, Port).String(), err.Error()
			if errors.Is(err, beacon.ErrWrongCluster) {
				a.Outcome = WrongServer
			}
			return a
		}
	}
	return a
}

// asksFor returns what a cluster's client is asked, from what was seen in the clusters.
func asksFor(here *Facts, all []*Facts, namespace, zone string) []Ask {
	var asks []Ask
	for _, there := range all {
		to := there.Cluster
		for _, f := range here.families(there) {
			name := func(service string) string { return service + "." + namespace + ".svc." + zone + "." }
			if ip := addressOf(f, here.Imports[serviceOf(to)].IPs); ip != "" {
				asks = append(asks, Ask{To: to, Kind: Name, Family: f, Host: name(serviceOf(to)), Want: ip},
					Ask{To: to, Kind: ClusterSetIP, Family: f, Address: ip, Connect: true})
				if to != here.Cluster {
					asks = append(asks, Ask{To: to, Kind: OwnName, Family: f, Host: serviceOf(to), Connect: true})
				}
			}
			if _, there := here.Imports[headlessOf(to)]; there {
				asks = append(asks, Ask{To: to, Kind: Headless, Family: f, Host: name(headlessOf(to)), Connect: true})
			}
		}
	}
	return asks
}
