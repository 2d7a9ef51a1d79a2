package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/clusterset/clusterset/test/process"
)

// Program is a command that can be started, stopped, killed and started again. All its runs write to one log. Its methods
// are not safe for concurrent use, unless they say so.
type Program struct {
	// Name identifies the program in errors.
	Name string
	// Path is the binary.
	Path string
	// Args returns the arguments for each start, and reserves the ports.
	Args func() ([]string, error)
	// Up returns nil once the program serves.
	Up func(context.Context) error
	// Log is the file to which the program's output is appended.
	Log string

	process *process.Process // nil before the first start
	pid     atomic.Int64
	judged  int64 // how much of Log was searched for data races
}

// races are the reports that Races has yet to return.
var races struct {
	sync.Mutex
	reports []string
}

// Races returns the data races that were reported by programs that have ended, each once.
func Races() []string {
	races.Lock()
	defer races.Unlock()
	reports := races.reports
	races.reports = nil
	return reports
}

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// Start starts the program unless it is running, and waits until it is up, for two minutes at most. If another process has
// taken a port that was free a moment ago, Start tries again.
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
		err = fmt.Errorf("start %s: %w\n%s", p.Name, err, process.LogSince(p.Log, from, 30))
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
	// Not ctx: the process outlives the call.
	cmd := exec.CommandContext(context.Background(), p.Path, args...)
	cmd.Env = bareEnvironment(filepath.Dir(p.Log))
	if p.process, err = process.StartWithLog(cmd, p.Log); err != nil {
		return err
	}
	p.pid.Store(int64(p.process.PID()))
	return p.process.Await(ctx, startTimeout, p.Up)
}

// bareEnvironment omits this process's variables, because the program would obey KUBECONFIG, CLUSTERSET_* and the variables
// for proxies.
func bareEnvironment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}
}

// Running reports whether the program is running.
func (p *Program) Running() bool { return p.process.Running() }

// PID returns the process ID of the current or last run, or 0 before the first. It is safe for concurrent use.
func (p *Program) PID() int { return int(p.pid.Load()) }

// Stop asks the program to end, kills it if it hasn't ended within a minute, and returns its exit code.
func (p *Program) Stop() int {
	defer p.judge()
	return p.process.Stop(stopTimeout)
}

// Kill ends the program with SIGKILL.
func (p *Program) Kill() {
	p.process.Kill()
	p.judge()
}

// judge looks for data races in what was logged since it was last called.
func (p *Program) judge() {
	log, _ := os.ReadFile(p.Log) // there is none before the first start
	from := min(p.judged, int64(len(log)))
	p.judged = int64(len(log))
	if report := process.DataRace(string(log[from:])); report != "" {
		races.Lock()
		defer races.Unlock()
		races.reports = append(races.reports, p.Name+": "+report)
	}
}

// Pause stops the program with SIGSTOP. Its connections stay open, but it answers nothing.
func (p *Program) Pause() { _ = p.process.Signal(syscall.SIGSTOP) }

// Resume continues the program after Pause.
func (p *Program) Resume() { _ = p.process.Signal(syscall.SIGCONT) }
