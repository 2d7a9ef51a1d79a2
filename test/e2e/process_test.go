package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is a command that a test starts, stops, kills and starts again. It has one log for all its lives.
type program struct {
	name string // of the log
	path string
	// args returns what to start it with, afresh for each life: it reserves the ports.
	args func() ([]string, error)
	// up returns nil once the program serves.
	up  func(context.Context) error
	log string

	process *process // nil before the first start
}

// process is one life of a program.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it has ended and been waited for
}

// start starts the program unless it runs, and waits until it is up. A port that was free a moment ago can be somebody
// else's now, so that a start that fails for it is tried again.
func (p *program) start(ctx context.Context) error {
	if p.running() {
		return nil
	}
	var err error
	for range 5 {
		var from int64
		if info, statErr := os.Stat(p.log); statErr == nil {
			from = info.Size()
		}
		if err = p.startOnce(ctx); err == nil {
			return nil
		}
		p.kill()
		err = fmt.Errorf("start %s: %w\n%s", p.name, err, logSince(p.log, from, 30))
		if !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	return err
}

func (p *program) startOnce(ctx context.Context) error {
	args, err := p.args()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the child has its own
	// Not ctx: the process outlives the call.
	cmd := exec.CommandContext(context.Background(), p.path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	// Nothing of ours: KUBECONFIG, CLUSTERSET_* and proxies would all be obeyed.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(p.log), "TMPDIR=" + os.TempDir()}
	cmd.SysProcAttr = withoutOrphans()
	started := make(chan error, 1)
	life := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child ends, so that thread is held here.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(life.exited)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.process = life
	return until(ctx, startTimeout, func(ctx context.Context) error {
		select {
		case <-life.exited:
			return permanent{fmt.Errorf("it ended: %s", cmd.ProcessState)}
		default:
			return p.up(ctx)
		}
	})
}

func (p *program) running() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.process.exited:
		return false
	default:
		return true
	}
}

// stop asks the program to end and returns its exit code. It does not wait for ever.
func (p *program) stop() int {
	if p.process == nil {
		return 0
	}
	if p.running() {
		_ = p.process.cmd.Process.Signal(syscall.SIGTERM)
		patience := time.NewTimer(stopTimeout)
		defer patience.Stop()
		select {
		case <-p.process.exited:
		case <-patience.C:
			p.kill()
		}
	}
	return p.process.cmd.ProcessState.ExitCode()
}

// kill ends the program without letting it say goodbye.
func (p *program) kill() {
	if p.running() {
		_ = p.process.cmd.Process.Kill()
		<-p.process.exited
	}
}

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// permanent is an error that waiting won't mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// until polls f until it returns nil. It is kube.Eventually for code that has no test.
func until(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil || errors.As(err, new(permanent)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not so within %s: %w", within, err)
		case <-tick.C:
		}
	}
}

// freePort returns a port of 127.0.0.1 that is free for UDP and TCP. It looks below the range from which the kernel takes
// ports for outgoing connections, of which the control planes have hundreds.
func freePort() (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		addr := net.JoinHostPort("127.0.0.1", port)
		var udp net.PacketConn
		var tcp net.Listener
		if udp, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		tcp, err = net.Listen("tcp", addr)
		_ = udp.Close()
		if err != nil {
			continue
		}
		_ = tcp.Close()
		return port, nil
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// logSince returns the last lines of a log from an offset on, under its name.
func logSince(path string, from int64, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	b = b[min(from, int64(len(b))):]
	all := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("--- %s\n    %s", filepath.Base(path), bytes.Join(all, []byte("\n    ")))
}
