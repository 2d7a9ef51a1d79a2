package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/poll"
)

// server is a running coredns, pinned to the first core. Its load generator has the second.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd
	// net is the transport of ask, UDP if it is empty.
	net string
	// asked is the file of queries for this server alone, or empty if it gets the same queries as the others.
	asked string
}

// start runs coredns with one server block. Its body may contain the placeholders KUBECONFIG and, for further ports, PORT and PROFILES. A
// server whose name begins with "ours" runs our binary, every other server the stock one.
func (b *bench) start(ctx context.Context, name, zone, body string) (*server, error) {
	ports, err := freeport.Several(3)
	if err != nil {
		return nil, err
	}
	corefile := filepath.Join(b.dir, name+".Corefile")
	text := fmt.Sprintf("%s:%s {\n    bind 127.0.0.1\n%s\n}\n", zone, ports[0], body)
	text = strings.NewReplacer("KUBECONFIG", b.plane.Kubeconfig(), "CERTS", b.dir, "PORT", ports[1], "PROFILES", ports[2]).Replace(text)
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		return nil, err
	}
	s := &server{name: name, addr: "127.0.0.1:" + ports[0]}
	binary := b.stock
	if strings.HasPrefix(name, "ours") {
		binary = b.coredns
	}
	s.cmd = exec.CommandContext(ctx, "taskset", "-c", "0", binary, "-conf", corefile) //nolint:gosec // our own binary
	log, err := os.Create(filepath.Join(b.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	return s, s.cmd.Start()
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait()
}

// ask sends one query.
func (s *server) ask(name string, qtype uint16) (*dns.Msg, error) {
	c := &dns.Client{Timeout: 200 * time.Millisecond, Net: s.net, TLSConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // ourselves
	r, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), s.addr)
	return r, err
}

// await polls until the server answers a name. Any reply of the echo counts.
func (s *server) await(ctx context.Context, name string) error {
	return s.until(ctx, name, func(r *dns.Msg) bool { return len(r.Answer) > 0 || s.name == "echo" })
}

// awaitSync polls until the server returns NXDOMAIN for a name that doesn't exist, which it does once it has synced.
func (s *server) awaitSync(ctx context.Context) error {
	return s.until(ctx, "nope.ns-0.svc.clusterset.local.", func(r *dns.Msg) bool { return r.Rcode == dns.RcodeNameError })
}

func (s *server) until(ctx context.Context, name string, ok func(*dns.Msg) bool) error {
	return poll.Within(ctx, 5*time.Minute, func(context.Context) error {
		r, err := s.ask(name, dns.TypeA)
		if err == nil && !ok(r) {
			err = fmt.Errorf("%s answers %s with\n%s", s.name, name, r)
		}
		return err
	})
}

// cpu returns the processor time that the server has used, with its child processes.
func (s *server) cpu() (sum time.Duration, err error) {
	pids := []string{strconv.Itoa(s.cmd.Process.Pid)}
	for len(pids) > 0 {
		dir := "/proc/" + pids[0] + "/task/" + pids[0]
		children, err := os.ReadFile(dir + "/children")
		if err != nil {
			return 0, err
		}
		pids = append(pids[1:], strings.Fields(string(children))...)
		used, err := used(dir + "/../../stat")
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// used reads the processor time in /proc/PID/stat.
func used(stat string) (time.Duration, error) {
	b, err := os.ReadFile(stat) //nolint:gosec // of a process
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("short /proc/PID/stat")
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2) // USER_HZ is 100 on Linux
}
