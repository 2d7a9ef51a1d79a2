package console

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

const root = "../.."

// build builds the programs, or links to those that are already built.
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

// consoled is a running `clusterset console`.
type consoled struct {
	url string // with the token
	*process.Process
}

// start starts a console that ends with the test.
func start(t testing.TB, args ...string) *consoled {
	t.Helper()
	chromium(t)
	c, err := launch(binaries(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// theSet starts a console that reads the set that most tests use, and that the pictures show.
func theSet(t testing.TB) *consoled {
	t.Helper()
	return start(t, "--manifests", "testdata/set")
}

func launch(bin fleet.Binaries, args ...string) (*consoled, error) {
	cmd := bin.Command(context.Background(), workDir, append([]string{"console", "--no-open"}, args...)...)
	var stdout, stderr process.Output
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(&stderr, os.Stderr)
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	c := &consoled{Process: p}
	err = p.Await(context.Background(), kube.Patience, func(context.Context) error {
		line, _, whole := strings.Cut(stdout.String(), "\n")
		at := strings.Index(line, "http://127.0.0.1:")
		if !whole || at < 0 {
			return fmt.Errorf("its first line is %q", line)
		}
		c.url = line[at:]
		return nil
	})
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, stderr.String())
	}
	return c, nil
}
