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
	"runtime"
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
	others  time.Duration // processor time that our other children had used by then
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
	p.started, p.others, p.exited = time.Now(), cpuOfAll(), make(chan struct{})
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child ends, so that thread is held here.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return nil
}

// kill ends the program at once.
func (p *process) kill() {
	if p == nil || p.cmd == nil || p.cmd.Process == nil { // it never started
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
