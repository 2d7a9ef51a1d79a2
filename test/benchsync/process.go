package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a program that serves metrics.
type process struct {
	name    string
	metrics string // host:port
	dns     string // host:port, of CoreDNS
	log     string
	cmd     *exec.Cmd
	exited  chan struct{}
	started time.Time
}

// start starts a program. It ends with ctx at the latest.
func (b *bench) start(ctx context.Context, p *process, binary string, args ...string) error {
	p.log = filepath.Join(b.dir, p.name+".log")
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()                // the child has its own
	p.cmd = exec.CommandContext(ctx, binary, args...) //nolint:gosec // our own binaries
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir} // not the caller's KUBECONFIG
	p.cmd.SysProcAttr = withoutOrphans()
	p.started, p.exited = time.Now(), make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return nil
}

// kill ends the program at once.
func (p *process) kill() {
	if p == nil || p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// pollEvery is as seldom as the figures allow: an agent that is asked for its metrics all the time spends more on that than
// on its work.
const pollEvery = 250 * time.Millisecond

// scraper doesn't ask for compression, for the same reason.
var scraper = http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: time.Minute}

// await polls until ok returns true. It gives up when the process ends.
func (b *bench) await(ctx context.Context, p *process, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		done, err := ok()
		if done {
			return nil
		}
		last = err
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended while we waited until %s\n%s", p.name, what, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting until %s: %w (last: %w)\n%s", what, ctx.Err(), last, p.tail())
		case <-tick.C:
		}
	}
}

// cpu returns the processor time that the program has used. On a busy machine it says more than the clock does; it is 0 where
// there is no /proc.
func (p *process) cpu() time.Duration {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// tail is the end of the log.
func (p *process) tail() string {
	content, _ := os.ReadFile(p.log)
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// scrape reads the program's metrics.
func (p *process) scrape(ctx context.Context) (samples, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := scraper.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return samples(strings.Split(string(text), "\n")), err
}

// samples are metrics in Prometheus's text format.
type samples []string

// sum adds up the series of a name that have all the labels, each as name="value".
func (s samples) sum(name string, labels ...string) (sum float64) {
series:
	for _, line := range s {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue series
			}
		}
		value, _ := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		sum += value
	}
	return sum
}

// freeAddr returns an address that is free for UDP and TCP.
func freeAddr() (string, error) {
	var err error
	for range 100 {
		var tcp net.Listener
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
		addr := tcp.Addr().String()
		var udp net.PacketConn
		udp, err = net.ListenPacket("udp", addr)
		_ = tcp.Close()
		if err == nil {
			_ = udp.Close()
			return addr, nil
		}
	}
	return "", err
}
