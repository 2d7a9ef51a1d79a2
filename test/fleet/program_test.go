package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/process"
)

// A program that ends instead of serving gives an error with its output, and doesn't count as running.
func TestStartOfAProgramThatEnds(t *testing.T) {
	p := &Program{
		Name: "the shell", Path: "/bin/sh", Log: filepath.Join(t.TempDir(), "log"),
		Args: func() ([]string, error) { return []string{"-c", "echo no such flag; exit 3"}, nil },
		Up:   func(context.Context) error { return errors.New("it isn't up") },
	}
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "start the shell: it ended: exit status 3") || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("got %v", err)
	}
	if p.Running() {
		t.Error("it runs")
	}
}

// Stop returns the exit code of a program that ends when asked to. The program can be started again.
func TestLivesOfAProgram(t *testing.T) {
	p := &Program{
		Name: "the shell", Path: "/bin/sh", Log: filepath.Join(t.TempDir(), "log"),
		Args: func() ([]string, error) {
			return []string{"-c", `trap "exit 7" TERM; echo ready; while :; do sleep 0.01; done`}, nil
		},
	}
	lives := 1
	p.Up = func(context.Context) error {
		if strings.Count(process.LogSince(p.Log, 0, 10), "ready") < lives {
			return errors.New("not ready")
		}
		return nil
	}
	for ; lives <= 2; lives++ {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !p.Running() {
			t.Error("it doesn't run")
		}
		if code := p.Stop(); code != 7 {
			t.Errorf("exit code %d", code)
		}
	}
}

// A data race is noticed in each run of a program, whether it is stopped or killed.
func TestRacesOfAProgram(t *testing.T) {
	runs := 0
	p := &Program{
		Name: "the shell", Path: "/bin/sh", Log: filepath.Join(t.TempDir(), "log"),
		Args: func() ([]string, error) {
			runs++
			return []string{"-c", fmt.Sprintf("echo WARNING: DATA RACE; echo Write %d; echo ==================; echo ready %[1]d; exec sleep 600", runs)}, nil
		},
	}
	p.Up = func(context.Context) error {
		if !strings.Contains(process.LogSince(p.Log, 0, 1), fmt.Sprint("ready ", runs)) {
			return errors.New("not ready")
		}
		return nil
	}
	for _, end := range []func(){func() { p.Stop() }, p.Kill, p.Kill} {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		end()
		p.Kill()
	}
	want := []string{"the shell: WARNING: DATA RACE\nWrite 1", "the shell: WARNING: DATA RACE\nWrite 2", "the shell: WARNING: DATA RACE\nWrite 3"}
	if got := Races(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
