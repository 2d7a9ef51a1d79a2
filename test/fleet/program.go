package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/clusterset/clusterset/test/poll"
)

// Program is a command that can be started, stopped, killed and started again. All its runs write to one log. Its methods
// are for one goroutine at a time.
type Program struct {
	// Name identifies it in errors.
	Name string
	// Path is the binary.
	Path string
	// Args returns the arguments for each start. It reserves the ports.
	Args func() ([]string, error)
	// Up returns nil once the program serves.
	Up func(context.Context) error
	// Log is the file to which its output is appended.
	Log string

	process *process // nil before the first start
}

// process is one run of a program.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it has ended and Wait has returned
}

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// Start starts the program unless it runs, and waits until it is up, for two minutes at most. Another process may have taken
// a port that was free a moment ago; Start then tries again.
func (p *Program) Start(ctx context.Context) error {
	if p.Running() {
		return nil
	}
	var err error
	for range 5 {
		var from int64
		if info, statErr := os.Stat(p.Log); statErr == nil {
			from = info.Size()
		}
		if err = p.startOnce(ctx); err == nil {
			return nil
		}
		p.Kill()
		err = fmt.Errorf("start %s: %w\n%s", p.Name, err, LogSince(p.Log, from, 30))
		if !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	return err
}

func (p *Program) startOnce(ctx context.Context) error {
	args, err := p.Args()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the child has its own
	// Not ctx: the process outlives the call.
	cmd := exec.CommandContext(context.Background(), p.Path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = bareEnvironment(filepath.Dir(p.Log))
	cmd.SysProcAttr = WithoutOrphans()
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
	return poll.Within(ctx, startTimeout, func(ctx context.Context) error {
		select {
		case <-life.exited:
			return poll.Permanent(fmt.Errorf("it ended: %s", cmd.ProcessState))
		default:
			return p.Up(ctx)
		}
	})
}

// bareEnvironment excludes this process's variables: the program would obey KUBECONFIG, CLUSTERSET_* and proxies.
func bareEnvironment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}
}

// Running says whether the program runs.
func (p *Program) Running() bool {
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

// PID is the current or last process's number; 0 before the first.
func (p *Program) PID() int {
	if p.process == nil {
		return 0
	}
	return p.process.cmd.Process.Pid
}

// Stop asks the program to end, kills it if it hasn't ended within a minute, and returns its exit code.
func (p *Program) Stop() int {
	if p.process == nil {
		return 0
	}
	if p.Running() {
		_ = p.process.cmd.Process.Signal(syscall.SIGTERM)
		patience := time.NewTimer(stopTimeout)
		defer patience.Stop()
		select {
		case <-p.process.exited:
		case <-patience.C:
			p.Kill()
		}
	}
	return p.process.cmd.ProcessState.ExitCode()
}

// Kill ends the program with SIGKILL.
func (p *Program) Kill() {
	if p.Running() {
		_ = p.process.cmd.Process.Kill()
		<-p.process.exited
	}
}

// Pause stops the program with SIGSTOP: its connections stay open, and nothing is answered.
func (p *Program) Pause() { p.signal(syscall.SIGSTOP) }

// Resume continues the program after Pause.
func (p *Program) Resume() { p.signal(syscall.SIGCONT) }

func (p *Program) signal(sig syscall.Signal) {
	if p.Running() {
		_ = p.process.cmd.Process.Signal(sig) // an error means it has just ended
	}
}
