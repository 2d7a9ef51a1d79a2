package random

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/fleettest"
)

// doubt is a question that a server answered wrongly.
type doubt struct {
	server int
	name   string
	qtype  string
}

// Zones are the zones that servers are asked about.
var Zones = []string{"clusterset.local", "global"}

// Check returns nil once every server answers every question as the oracle does, no object of an un-exported service is
// left, and the conditions, the credentials' rights and the endpoints of last resort are right.
func (r *Run) Check() error {
	w, err := r.Observe()
	if err != nil {
		return err
	}
	if err := w.marksHonoured(); err != nil {
		return err
	}
	oracle := make([]map[string]*Zone, len(r.Servers))
	for i, s := range r.Servers {
		oracle[i] = map[string]*Zone{}
		for _, zone := range Zones {
			oracle[i][zone] = w.Zone(zone, s)
		}
	}
	suspects, first := r.compare(w, oracle, r.suspects, 1)
	if first == nil {
		suspects, first = r.compare(w, oracle, r.everything(w), 20)
	}
	r.suspects = suspects
	if first != nil {
		return first
	}
	return errors.Join(r.leftovers(w), w.conditions(), r.Strays(w), r.readable(w), w.Extending(r.Returning))
}

// everything returns every question for every server.
func (r *Run) everything(w *World) []doubt {
	var all []doubt
	for _, name := range r.questions(w) {
		for i := range r.Servers {
			for _, qtype := range []string{"A", "AAAA", "SRV"} {
				all = append(all, doubt{i, name, qtype})
			}
		}
	}
	return all
}

// compare asks questions and returns those with a wrong answer, and an error about the first few. It stops when it has
// found enough of them.
func (r *Run) compare(w *World, oracle []map[string]*Zone, all []doubt, enough int) ([]doubt, error) {
	var mu sync.Mutex
	var wrong []doubt
	var errs []error
	var group sync.WaitGroup
	const askers = 8
	for n := range askers {
		group.Go(func() {
			for i := n; i < len(all); i += askers {
				q := all[i]
				zone := Zones[0]
				if !strings.HasSuffix(q.name, zone) {
					zone = Zones[1]
				}
				want := oracle[q.server][zone].Answer(q.name, q.qtype)
				got := r.ask(q)
				mu.Lock()
				if got != want {
					wrong = append(wrong, q)
					if len(errs) < 5 {
						errs = append(errs, fmt.Errorf("dig %s %s at %s (%s):\n  got  %s\n  want %s\n%s",
							q.name, q.qtype, r.Servers[q.server].Member.Spec.Name, r.Servers[q.server].At, got, want, w.describe(q.name)))
					}
				}
				stop := len(wrong) >= enough
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	group.Wait()
	if len(wrong) == 0 {
		return nil, nil
	}
	return wrong, fmt.Errorf("%d wrong answers, or more:\n%w", len(wrong), errors.Join(errs...))
}

// ask asks over UDP and, as any client does, again over TCP if the answer was truncated.
func (r *Run) ask(q doubt) string {
	s := r.Servers[q.server]
	reply, err := s.Reply(q.name, q.qtype)
	if err == nil && reply.Truncated {
		reply, err = fleettest.Exchange(context.Background(), s.Addr(), q.name, q.qtype, "tcp")
	}
	if err != nil {
		return err.Error()
	}
	return ReplyText(reply)
}

// ReplyText formats a reply as the oracle does.
func ReplyText(reply *dns.Msg) string {
	switch {
	case reply.Rcode != dns.RcodeSuccess:
		return dns.RcodeToString[reply.Rcode]
	case len(reply.Answer) == 0:
		return "NODATA"
	}
	var answer, additional []string
	for _, rr := range reply.Answer {
		answer = append(answer, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	if len(sortedSet(answer)) != len(answer) {
		return "the same twice: " + strings.Join(answer, ", ")
	}
	for _, rr := range reply.Extra {
		if h := rr.Header(); h.Rrtype != dns.TypeOPT {
			additional = append(additional, h.Name+" "+dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String()))
		}
	}
	return answerText(answer, additional)
}

// describe lists what the clusters export under a name.
func (w *World) describe(name string) string {
	var b strings.Builder
	for _, key := range w.Keys() {
		if !strings.Contains("."+name, fmt.Sprintf(".%s.%s.svc.", key.Name, key.Namespace)) {
			continue
		}
		for _, p := range w.Parts(key) {
			fmt.Fprintf(&b, "  %s in %q, network %q with %q, since %s (drained: %v; only for %q: %v): %s %v %v %v\n", p.Name, p.In, p.Network, p.External, p.since.Format("15:04:05"), p.Drained,
				p.to, p.only, p.service.Spec.Type, p.service.Spec.ClusterIPs, p.service.Spec.IPFamilies, p.service.Spec.Ports)
			if stated, exported := p.external(); stated != nil {
				fmt.Fprintf(&b, "    external %v of %v\n", exported, stated)
			}
			for _, s := range p.slices {
				fmt.Fprintf(&b, "    %s", s.Name)
				for _, q := range s.Ports {
					fmt.Fprintf(&b, " %s:%d/%s", deref(q.Name), deref(q.Port), deref(q.Protocol))
				}
				for _, e := range s.Endpoints {
					fmt.Fprintf(&b, " %v host=%q zone=%q ready=%v", e.Addresses, deref(e.Hostname), deref(e.Zone), e.Conditions.Ready == nil || *e.Conditions.Ready)
				}
				fmt.Fprintln(&b)
			}
		}
	}
	return b.String()
}
