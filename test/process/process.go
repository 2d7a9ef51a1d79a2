// Package process starts and ends the programs of tests, benchmarks and the demo. Each process ends when this one does, at
// the latest, even if this one is killed.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/poll"
)

// Process is one run of a program. A nil *Process has never run.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has ended and Wait has returned
}

// Start starts cmd in its own process group. The command's context should outlive the process.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = WithoutOrphans()
	started := make(chan error, 1)
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child ends, not when the process does. So
		// this goroutine keeps the thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// StartWithLog is [Start] with the output appended to a file.
func StartWithLog(cmd *exec.Cmd, log string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	cmd.Stdout, cmd.Stderr = out, out
	return Start(cmd)
}

// StartFor starts cmd for a test and kills it when the test ends. A data race in it fails the test. If the test has failed, it logs about
// and the process's output. With -short the test is skipped.
func StartFor(t testing.TB, cmd *exec.Cmd, about string) (*Process, *Output) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a program")
	}
	output := &Output{}
	cmd.Stdout, cmd.Stderr = output, output
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if DataRace(output.String()) != "" {
			t.Error("a data race")
		}
		if t.Failed() {
			t.Logf("%s\n%s", about, output)
		}
	})
	return p, output
}

// CombinedOutput is [exec.Cmd.CombinedOutput], except that the command's children end too when its context ends.
func CombinedOutput(cmd *exec.Cmd) ([]byte, error) {
	cmd.SysProcAttr = WithoutOrphans()
	cmd.Cancel = func() error { return killGroup(cmd) }
	runtime.LockOSThread() // see Start
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}

// Await polls up until it returns nil, for a limited time. It gives up when the process ends.
func (p *Process) Await(ctx context.Context, limit time.Duration, up func(context.Context) error) error {
	return poll.Within(ctx, limit, func(ctx context.Context) error {
		if !p.Running() {
			return poll.Permanent(fmt.Errorf("it ended: %s", p.cmd.ProcessState))
		}
		return up(ctx)
	})
}

// Running reports whether the process is running.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// PID returns the process ID, or 0 if the process has never run.
func (p *Process) PID() int {
	if p == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Signal sends a signal to the process. It returns [os.ErrProcessDone] if the process isn't running.
func (p *Process) Signal(sig os.Signal) error {
	if !p.Running() {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(sig)
}

// Stop asks the process to end, kills it if it hasn't ended within grace, and returns its exit code, or -1 if a signal ended
// it.
func (p *Process) Stop(grace time.Duration) int {
	if p == nil {
		return 0
	}
	_ = p.Signal(syscall.SIGTERM) // an error means it has already ended
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
		p.Kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// Kill ends the process and its group with SIGKILL.
func (p *Process) Kill() {
	if p.Running() { // otherwise its ID may belong to another process by now
		_ = killGroup(p.cmd)
		<-p.exited
	}
}

func killGroup(leader *exec.Cmd) error { return syscall.Kill(-leader.Process.Pid, syscall.SIGKILL) }
