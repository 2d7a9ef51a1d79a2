package fleettest

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/process"
)

type tests func() int

func (f tests) Run() int { return f() }

// A program that reports a data race goes on, and is killed in the end. Tests that noticed nothing fail all the same.
func TestARaceInAProgramFailsTheRun(t *testing.T) {
	p := &fleet.Program{
		Name: "the shell", Path: "/bin/sh", Log: filepath.Join(t.TempDir(), "log"),
		Args: func() ([]string, error) {
			return []string{"-c", "echo WARNING: DATA RACE; echo ready; exec sleep 600"}, nil
		},
	}
	p.Up = func(context.Context) error {
		if !strings.Contains(process.LogSince(p.Log, 0, 10), "ready") {
			return errors.New("not ready")
		}
		return nil
	}
	code := run(tests(func() int {
		if err := p.Start(t.Context()); err != nil {
			t.Error(err)
		}
		p.Kill()
		return 0
	}))
	if code == 0 {
		t.Error("the run succeeded")
	}
	if code := run(tests(func() int { return 0 })); code != 0 {
		t.Errorf("exit code %d without a race", code)
	}
}
