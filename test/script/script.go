// Package script runs tests that are written as scripts. A case is a few lines of commands that the test defines, as in
//
//	withdraw
//	held 10s 'its record was deleted'
//	gone
//
// A txtar archive has many cases. The rules that they prove are cited in its comment.
package script

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"
	"rsc.io/script"
	"rsc.io/script/scripttest"
)

// Command is what a script can do or expect. An error fails the case, unless its line begins with an exclamation mark.
type Command func(args ...string) error

// Run runs each case of an archive with the commands of a world of its own, and with advance, which takes how long to wait. Time is that of
// package synctest.
func Run(t *testing.T, archive string, world func(*testing.T) map[string]Command) {
	t.Helper()
	cases, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases.Files) == 0 {
		t.Fatalf("%s has no cases", archive)
	}
	for _, c := range cases.Files {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &script.Engine{Cmds: map[string]script.Cmd{"advance": command(For(advance))}}
				for name, run := range world(t) {
					engine.Cmds[name] = command(run)
				}
				state, err := script.NewState(t.Context(), ".", []string{})
				if err != nil {
					t.Fatal(err)
				}
				scripttest.Run(t, engine, state, archive+", "+c.Name, strings.NewReader(string(c.Data)))
			})
		})
	}
}

func command(run Command) script.Cmd {
	return script.Command(script.CmdUsage{}, func(_ *script.State, args ...string) (script.WaitFunc, error) { return nil, run(args...) })
}

// None is a command without arguments that can't fail.
func None(run func()) Command {
	return func(args ...string) error {
		if len(args) > 0 {
			return script.ErrUsage
		}
		run()
		return nil
	}
}

// One is a command with one argument.
func One(run func(string) error) Command {
	return func(args ...string) error {
		if len(args) != 1 {
			return script.ErrUsage
		}
		return run(args[0])
	}
}

// OneOrMore is a command with an argument that others may follow.
func OneOrMore(run func(string, ...string) error) Command {
	return func(args ...string) error {
		if len(args) == 0 {
			return script.ErrUsage
		}
		return run(args[0], args[1:]...)
	}
}

// For is a command with a duration that other arguments may follow.
func For(run func(time.Duration, ...string) error) Command {
	return OneOrMore(func(arg string, more ...string) error {
		d, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		return run(d, more...)
	})
}

func advance(d time.Duration, _ ...string) error {
	Elapse(d)
	return nil
}

// Elapse lets time go on, in which others act. It is synctest's time, which costs none.
func Elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
