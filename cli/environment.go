package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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

// fillIn sets the flags that aren't on the command line.
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

// envName returns the environment variable of a flag.
func envName(flag string) string {
	return "CLUSTERSET_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
