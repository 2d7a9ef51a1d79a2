// Package cli is the command line of clusterset: it turns flags, the environment and files into the options of the packages that do the
// work, prints what they return, and chooses the exit code.
//
// What a person runs is in the packages below it: each computes or renders one thing. The two processes, member and hub, are started here too.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/internal/heap"
	"github.com/clusterset/clusterset/internal/version"
)

// Exit codes.
const (
	exitFailure = 1 // the command failed
	exitUsage   = 2 // usage error
	exitLost    = 3 // a preview: a name would lose its last endpoint
)

// usageError is an error that the user can fix on the command line: a wrong flag, variable or file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the command line of this process, and ends it.
func Main() {
	tuneMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process whatever it waits for
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs one command line and returns the exit code. An error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return execute(ctx, newRoot(), args, stdout, stderr)
}

func execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "clusterset: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	switch {
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(lostError)):
		return exitLost
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "clusterset",
		Short: "Service names across clusters",
		Long: `clusterset resolves Service names across a set of clusters.

Each cluster of the set is a member: it exports Services to a hub, which is any Kubernetes API server, and imports what
the others export. CoreDNS with the clusterset plugin answers the names from what is imported.

Installed or linked as kubectl-clusterset in the PATH it is also kubectl clusterset.

Exit codes: 0 success; 1 failure; 2 usage error; 3 (preview only) a name would lose its last endpoint. An error is one
line on stderr.`,
		SilenceErrors: true, // run prints them
		SilenceUsage:  true, // a wrong flag shouldn't scroll its own error off the screen
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := "see " + cmd.CommandPath() + " --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return usagef("unknown command %q; %s", args[0], hint)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newMember(), newHub(), newJoin(), newLeave())
	root.AddCommand(newStatus(), newExplain(), newPreview(), newConsole(), newDrain(), newUndrain(), newDoctor(), newDNS(), newTest(), newServices(), newBundle())
	root.Version = version.String()
	root.SetVersionTemplate(programVersion())
	asPlugin(root, os.Args[0])
	return root
}

// noArgs refuses arguments, which are mostly flags without their dashes.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}

// gcRoom is how much garbage an agent may hold before a collection, or two fifths of its live heap if that is more. The agent of 250 clusters has
// 150 MiB of live heap. With 80 MiB of room, marking that took a quarter of its processor time.
const gcRoom = 112 << 20

func tuneMemory() { heap.Tune(100, gcRoom) }

// asPlugin makes the usage say `kubectl clusterset` if the program was started as kubectl's plugin, that is by the plugin's file
// name.
func asPlugin(root *cobra.Command, started string) {
	if strings.TrimSuffix(filepath.Base(started), ".exe") != "kubectl-clusterset" {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl clusterset"}
}

// environmentHelp is part of the help of every command that reads the environment.
const environmentHelp = `

Every flag can also be set in the environment (--hub-kubeconfig as CLUSTERSET_HUB_KUBECONFIG). A flag takes precedence. An
empty variable counts as unset.`

// configured makes a command read the flags that aren't on its command line from the environment.
func configured(cmd *cobra.Command) *cobra.Command {
	cmd.Long += environmentHelp
	cmd.Args = noArgs
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return fillIn(cmd.Flags(), os.LookupEnv) }
	return cmd
}

func fillIn(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || first != nil {
			return
		}
		name := envName(f.Name)
		value, ok := lookup(name)
		if !ok || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil { // this marks it as changed
			first = usagef("environment variable %s: %w", name, err)
		}
	})
	return first
}

func envName(flag string) string {
	return "CLUSTERSET_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func programVersion() string {
	return fmt.Sprintf("clusterset %s (%s, %s/%s)\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
