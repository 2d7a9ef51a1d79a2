package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
)

const root = "../.."

// build builds our programs, or finds them where they are built.
var build = sync.OnceValues(func() (fleet.Binaries, error) {
	return fleet.Build(context.Background(), root, filepath.Join(workDir, "bin"), "-s -w")
})

func binaries(t testing.TB) fleet.Binaries {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// process is a running `clusterset console`.
type process struct {
	url  string // with the token
	cmd  *exec.Cmd
	done chan struct{}
}

// run starts a console that ends with the test.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	chromium(t)
	c, err := launch(binaries(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return c
}

func launch(bin fleet.Binaries, args ...string) (*process, error) {
	cmd := bin.Command(context.Background(), workDir, append([]string{"console", "--no-open"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = io.MultiWriter(&stderr, os.Stderr)
	c := &process{cmd: cmd, done: make(chan struct{})}
	first := make(chan string, 1)
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child ends, so that thread is held here.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			first <- lines.Text()
		}
		close(first)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	line := <-first
	if at := strings.Index(line, "http://127.0.0.1:"); at >= 0 {
		c.url = line[at:]
		return c, nil
	}
	c.stop()
	return nil, fmt.Errorf("%s: its first line is %q\n%s", cmd, line, stderr.String())
}

// stop ends the console.
func (c *process) stop() {
	_ = c.cmd.Process.Kill()
	<-c.done
}
