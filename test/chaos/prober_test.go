package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/random"
)

const (
	// probeEvery is the interval between two questions to a server.
	probeEvery = 8 * time.Millisecond
	// probePatience is how long a stub resolver waits for a server before it asks again (resolv.conf's timeout). A later
	// answer counts as late.
	probePatience = 5 * time.Second
)

// answers are the expected answers of one server, by question.
type answers map[question]string

type question struct{ name, qtype string }

func (q question) String() string { return q.name + " " + q.qtype }

// prober asks every server for every exported name, over and over. The expected answers can change with the phase of a cluster. Then they must
// come in the order of the phases, and never return to an earlier one.
type prober struct {
	servers []*probed
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// probed is one server as the prober sees it.
type probed struct {
	name string

	mu        sync.Mutex
	addr      string
	questions []question
	stages    []answers        // one for each phase, in order
	reached   map[question]int // the stage that each question's answers have reached
	// owed has, for each stage, the questions whose answer the stage changes and that haven't got the new answer yet.
	owed    []map[question]bool
	looking int  // the stage whose owed questions are asked first
	excused bool // the server may be silent or answer SERVFAIL
	counts  probeCounts
}

// probeCounts counts the questions by how they were answered.
type probeCounts struct {
	asked, unanswered int // unanswered counts excused servers only
	wrong, missing    int
	late              int
	examples          []string // wrong answers
}

func (c *probeCounts) add(o probeCounts) {
	c.asked += o.asked
	c.unanswered += o.unanswered
	c.wrong += o.wrong
	c.missing += o.missing
	c.late += o.late
	c.examples = append(c.examples, o.examples...)
}

func (c *probeCounts) bad() int { return c.wrong + c.missing + c.late }

// startProber starts asking the questions of the first stage.
func startProber(servers []random.Server, stage []answers, seed uint64) *prober {
	ctx, stop := context.WithCancel(context.Background())
	p := &prober{stop: stop}
	for i, s := range servers {
		server := &probed{name: s.Member.Spec.Name, addr: s.Addr(), stages: []answers{stage[i]}, reached: map[question]int{}}
		p.servers = append(p.servers, server)
		server.questions = slices.SortedFunc(maps.Keys(stage[i]), func(a, b question) int { return strings.Compare(a.String(), b.String()) })
		rng := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // repeatable on purpose
		rng.Shuffle(len(server.questions), func(i, j int) {
			server.questions[i], server.questions[j] = server.questions[j], server.questions[i]
		})
		p.done.Go(func() { server.run(ctx) })
	}
	return p
}

// end stops asking.
func (p *prober) end() {
	p.stop()
	p.done.Wait()
}

// each does something with each server.
func (p *prober) each(do func(i int, s *probed)) {
	for i, s := range p.servers {
		s.mu.Lock()
		do(i, s)
		s.mu.Unlock()
	}
}

// expect sets the stages of each server's expected answers from now on.
func (p *prober) expect(stages ...[]answers) {
	p.each(func(i int, s *probed) {
		s.stages, s.owed, s.looking = nil, nil, 0
		for n, stage := range stages {
			s.stages, s.owed = append(s.stages, stage[i]), append(s.owed, nil)
			if n > 0 {
				s.owed[n] = differing(stages[n-1][i], stage[i])
			}
		}
		clear(s.reached)
	})
}

// differing returns the questions whose answers before and after differ.
func differing(before, after answers) map[question]bool {
	all := map[question]bool{}
	for q, answer := range after {
		if before[q] != answer {
			all[q] = true
		}
	}
	return all
}

// look gives priority to the questions whose answers a stage changes, until each new answer was seen.
func (p *prober) look(stage int) { p.each(func(_ int, s *probed) { s.looking = stage }) }

// unseen returns an error if a server other than except hasn't given all answers that a stage changes.
func (p *prober) unseen(stage, except int) error {
	var errs []error
	p.each(func(i int, s *probed) {
		for q := range s.owed[stage] {
			if i != except {
				errs = append(errs, fmt.Errorf("%s: %d answers haven't changed, such as dig %s from %s to %s",
					s.name, len(s.owed[stage]), q, s.stages[stage-1][q], s.stages[stage][q]))
			}
			break
		}
	})
	return errors.Join(errs...)
}

// excuse sets whether a server may be silent.
func (p *prober) excuse(server int, excused bool) {
	s := p.servers[server]
	s.mu.Lock()
	s.excused = excused
	s.mu.Unlock()
}

// moved sets the address of a server that was restarted.
func (p *prober) moved(server int, addr string) {
	s := p.servers[server]
	s.mu.Lock()
	s.addr = addr
	s.mu.Unlock()
}

// collect returns the counts since its last call.
func (p *prober) collect() (all probeCounts) {
	p.each(func(_ int, s *probed) {
		all.add(s.counts)
		s.counts = probeCounts{}
	})
	return all
}

func (s *probed) run(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		q, addr, excused := s.questions[i%len(s.questions)], s.addr, s.excused
		if s.looking < len(s.owed) && i%2 == 0 {
			for q = range s.owed[s.looking] {
				break
			}
		}
		s.mu.Unlock()
		patience := probePatience
		if excused {
			patience /= 5 // an excused server may not answer
		}
		got, err := askOnce(ctx, addr, q, patience)
		if ctx.Err() == nil {
			s.judge(q, addr, got, err)
		}
	}
}

// judge compares an answer with the expected ones and counts it.
func (s *probed) judge(q question, addr, got string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.asked++
	var timeout interface{ Timeout() bool }
	switch {
	case (err != nil || got == "SERVFAIL") && (s.excused || addr != s.addr):
		s.counts.unanswered++
		return
	case errors.As(err, &timeout) && timeout.Timeout():
		s.counts.late++
	case err != nil:
		s.counts.missing++
	default:
		for i := s.reached[q]; i < len(s.stages); i++ {
			if want := s.stages[i][q]; want == got || want == anyAnswer {
				s.reached[q] = i
				if i < len(s.owed) {
					delete(s.owed[i], q)
				}
				return
			}
		}
		s.counts.wrong++
	}
	s.example(q, got, err)
}

// example keeps one of the first bad answers.
func (s *probed) example(q question, got string, err error) {
	if len(s.counts.examples) < 5 {
		var want []string
		for _, stage := range s.stages[s.reached[q]:] {
			want = append(want, stage[q])
		}
		if err != nil {
			got = err.Error()
		}
		s.counts.examples = append(s.counts.examples, fmt.Sprintf("%s %s: dig %s: got %s, want %s",
			time.Now().Format("15:04:05.000"), s.name, q, got, strings.Join(slices.Compact(want), ", later ")))
	}
}

// askOnce asks a question once over UDP, and then over TCP if the reply was truncated.
func askOnce(ctx context.Context, addr string, q question, patience time.Duration) (string, error) {
	query := new(dns.Msg).SetQuestion(dns.Fqdn(q.name), dns.StringToType[q.qtype])
	query.SetEdns0(4096, false)
	client := dns.Client{Timeout: patience}
	r, _, err := client.ExchangeContext(ctx, query, addr)
	if err == nil && r.Truncated {
		client.Net = "tcp"
		r, _, err = client.ExchangeContext(ctx, query, addr)
	}
	if err != nil {
		return "", fmt.Errorf("dig @%s %s: %w", addr, q, err)
	}
	return random.ReplyText(r), nil
}

// A server that never ranks a suspected cluster last gives no wrong answer, because the answers of the previous phase are allowed
// until they change. The prober must report such answers as missing, and must recognize them when a server gives them.
func TestTheProberMissesAnswersThatNeverChange(t *testing.T) {
	q := question{"a.example", "A"}
	ready, suspected, expired := answers{q: "192.0.2.1"}, answers{q: "192.0.2.2"}, answers{q: "NXDOMAIN"}
	for _, test := range []struct {
		name, misses string
		gives        []string
	}{
		{"a server that follows", "", []string{ready[q], suspected[q]}},
		{"a server that ignores Suspect", "1 answers haven't changed, such as dig a.example A from 192.0.2.1 to 192.0.2.2", []string{ready[q]}},
		{"a server that skips Suspect", "1 answers haven't changed", []string{ready[q], expired[q]}},
	} {
		s := &probed{name: "xicheng", reached: map[question]int{}}
		p := &prober{servers: []*probed{s}}
		p.expect([]answers{ready}, []answers{suspected}, []answers{expired})
		for _, answer := range test.gives {
			s.judge(q, "", answer, nil)
		}
		if err := p.unseen(1, -1); (err == nil) != (test.misses == "") || err != nil && !strings.Contains(err.Error(), test.misses) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.misses)
		}
		if bad := s.counts.bad(); bad != 0 {
			t.Errorf("%s: %d answers were bad: %v", test.name, bad, s.counts.examples)
		}
		if err := p.unseen(1, 0); err != nil {
			t.Errorf("%s: the victim's own server needn't follow, but: %v", test.name, err)
		}
	}
}
