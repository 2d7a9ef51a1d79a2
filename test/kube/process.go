package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/clusterset/clusterset/test/poll"
)

// process is one running program of the control plane.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string        // path of its output
	exited chan struct{} // closed once it has ended and Wait has returned
	err    error         // how it ended; read it after exited is closed
}

// startProcess runs path in its own process group, and appends its output to
// log. The process ends with this one at the latest, even if this one is
// killed.
func startProcess(path string, args []string, log string) (*process, error) {
	name := baseName(path)
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: open log: %w", name, err)
	}
	// Not the caller's context: the process outlives the call.
	cmd := exec.CommandContext(context.Background(), path, args...)
	p := &process{name: name, cmd: cmd, log: log, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// None of the caller's environment: the programs would obey KUBECONFIG,
	// KUBERNETES_SERVICE_HOST, ETCD_* and proxies.
	p.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
		// Collecting garbage takes a third of what kube-apiserver computes while
		// it starts, and tests start it by the dozen. It costs memory instead.
		"GOGC=400",
	}
	p.cmd.SysProcAttr = ownGroup()

	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread that started
		// the child ends, not when the process does. So this goroutine keeps
		// the thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = out.Close() }() // the child has its own
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// ready polls probe until it succeeds. It fails at once if the process ends
// first. Its error quotes the end of the process's log.
func (p *process) ready(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.exited:
			cancel(fmt.Errorf("it ended: %w", exitError(p.err)))
		case <-ctx.Done():
		}
	}()
	if err := poll.Until(ctx, probe); err != nil {
		return fmt.Errorf("wait for %s: %w\n%s", p.name, err, logTail(p.log, 20))
	}
	return nil
}

// stop asks the process to end and kills it if it does not within grace. A kill
// is not an error, because the process has ended.
func (p *process) stop(grace time.Duration) {
	if p == nil {
		return
	}
	// An error means it has already ended.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
		p.kill()
	}
}

// kill ends the process and its group with SIGKILL.
func (p *process) kill() {
	if p == nil {
		return
	}
	select {
	case <-p.exited:
		// Its number may belong to another process by now.
		return
	default:
	}
	_ = killGroup(p.cmd.Process.Pid)
	<-p.exited
}

// signal sends a signal to the process, if it runs.
func (p *process) signal(sig syscall.Signal) error {
	if p == nil {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(sig)
}

// killGroup kills the process group that pid leads.
func killGroup(pid int) error {
	return syscall.Kill(-pid, syscall.SIGKILL)
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

func baseName(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// logTail returns the last lines of a log, indented, preceded by its name.
func logTail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("--- the end of %s\n    %s", baseName(path), bytes.Join(all, []byte("\n    ")))
}
