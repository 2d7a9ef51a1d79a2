package clusterset_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coredns/caddy"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// liveServer is a CoreDNS in this process. It can be reloaded.
type liveServer struct {
	instance *caddy.Instance
	udp, tcp string
}

// startLive starts CoreDNS with a Corefile whose servers listen on 127.0.0.1:0.
func startLive(t *testing.T, corefile string) *liveServer {
	t.Helper()
	instance, err := caddy.Start(liveInput(corefile))
	if err != nil {
		t.Fatalf("start CoreDNS: %v\n%s", err, corefile)
	}
	s := &liveServer{instance: instance}
	t.Cleanup(func() {
		s.instance.ShutdownCallbacks() // Stop doesn't run these callbacks, and they stop clusterset's sources
		if err := s.instance.Stop(); err != nil {
			t.Errorf("stop CoreDNS: %v", err)
		}
	})
	listener := listening(instance)[0]
	s.udp, s.tcp = listener.LocalAddr().String(), listener.Addr().String()
	return s
}

// listening returns the servers that have sockets. That of the express path has none.
func listening(instance *caddy.Instance) (servers []caddy.ServerListener) {
	for _, s := range instance.Servers() {
		if s.Addr() != nil {
			servers = append(servers, s)
		}
	}
	return servers
}

// reload does the same as the reload plugin and SIGUSR1.
func (s *liveServer) reload(corefile string) error {
	instance, err := s.instance.Restart(liveInput(corefile))
	s.instance = instance
	return err
}

func liveInput(corefile string) caddy.Input {
	return caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"}
}

// ask sends a question such as "A web.ns.svc.global" and returns the sorted data of the reply's records, or its rcode or
// NODATA if there are none.
func (s *liveServer) ask(question string) (string, error) { return askAt(s.udp, question) }

func askAt(udp, question string) (string, error) {
	m, err := exchangeAt(udp, question)
	if err != nil {
		return "", err
	}
	switch {
	case m.Rcode != dns.RcodeSuccess:
		return dns.RcodeToString[m.Rcode], nil
	case len(m.Answer) == 0:
		return "NODATA", nil
	}
	var data []string
	for _, rr := range m.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return strings.Join(data, ", "), nil
}

func exchangeAt(udp, question string) (*dns.Msg, error) {
	qtype, name, _ := strings.Cut(question, " ")
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[qtype])
	client := dns.Client{Timeout: exchangeTimeout}
	m, _, err := client.Exchange(m, udp)
	if err != nil {
		return nil, fmt.Errorf("dig %s: %w", question, err)
	}
	return m, nil
}

// expect waits until each question has the wanted answer.
func (s *liveServer) expect(t *testing.T, want map[string]string) {
	t.Helper()
	kube.Eventually(t, func() error {
		for question, answer := range want {
			got, err := s.ask(question)
			if err != nil {
				return err
			}
			if got != answer {
				return fmt.Errorf("dig %s: got %s, want %s", question, got, answer)
			}
		}
		return nil
	})
}

// askAlong asks the questions repeatedly in the background. The returned function stops it after one last round, and fails
// the test if any reply wasn't among the allowed ones.
func (s *liveServer) askAlong(t *testing.T, allowed map[string][]string) (stop func()) {
	t.Helper()
	done, stopping := make(chan struct{}), make(chan struct{})
	var wrong []string
	rounds := 0
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for last := false; !last; rounds++ {
			select {
			case <-stopping:
				last = true
			case <-tick.C:
			}
			for question, answers := range allowed {
				got, err := s.ask(question)
				switch {
				case len(wrong) > 20:
				case err != nil:
					wrong = append(wrong, err.Error())
				case !slices.Contains(answers, got):
					wrong = append(wrong, fmt.Sprintf("dig %s: got %s, want one of %q", question, got, answers))
				}
			}
		}
	}()
	var once sync.Once
	end := func() { once.Do(func() { close(stopping) }); <-done }
	t.Cleanup(end)
	return func() {
		t.Helper()
		end()
		if len(wrong) > 0 {
			t.Errorf("wrong answers in %d rounds:\n%s", rounds, strings.Join(wrong, "\n"))
		}
	}
}

// logLines collects what clusterset logs.
type logLines struct {
	clog.Listener // nil; every method that is called is defined below
	mu            sync.Mutex
	lines         []string
}

// recordLog collects clusterset's log lines until the test ends.
func recordLog(t *testing.T) *logLines {
	t.Helper()
	l := &logLines{}
	if err := clog.RegisterListener(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clog.DeregisterListener(l) })
	return l
}

func (*logLines) Name() string { return "test" }

func (l *logLines) add(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, v...))
}

func (l *logLines) Debug(string, ...any)                {}
func (l *logLines) Debugf(string, string, ...any)       {}
func (l *logLines) Info(_ string, v ...any)             { l.add("%s", fmt.Sprint(v...)) }
func (l *logLines) Infof(_, format string, v ...any)    { l.add(format, v...) }
func (l *logLines) Warning(_ string, v ...any)          { l.add("%s", fmt.Sprint(v...)) }
func (l *logLines) Warningf(_, format string, v ...any) { l.add(format, v...) }
func (l *logLines) Error(_ string, v ...any)            { l.add("%s", fmt.Sprint(v...)) }
func (l *logLines) Errorf(_, format string, v ...any)   { l.add(format, v...) }

// forget drops the lines collected so far.
func (l *logLines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
}

// has reports whether one line contains all the words.
func (l *logLines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// expect waits until one line contains all the words.
func (l *logLines) expect(t *testing.T, words ...string) {
	t.Helper()
	kube.Eventually(t, func() error {
		if l.has(words...) {
			return nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("no line has %q in:\n%s", words, strings.Join(l.lines, "\n"))
	})
}
