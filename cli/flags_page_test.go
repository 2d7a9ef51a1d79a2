package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/test/page"
)

const flagsPage = "../docs/flags.md"

const flagsHead = `# Flags of clusterset

<!-- Generated from the commands by make generate. -->

Most commands read the flags that are not on the command line from the environment. An empty variable counts as unset.

A shell completes them with ` + "`source <(clusterset completion bash)`" + `, and those of ` + "`kubectl clusterset`" + ` where the program
is in the PATH as ` + "`kubectl_complete-clusterset`" + ` too, which can be a link.

Exit codes: 0 success; 1 failure; 2 usage error; 3 (preview only) a name would lose its last endpoint. An error is one
line on stderr.
`

// docs/flags.md agrees with the commands. UPDATE=1 rewrites it.
func TestFlagsPageIsFresh(t *testing.T) {
	root := newRoot()
	var b strings.Builder
	b.WriteString(flagsHead)
	commandsOf(root, func(cmd *cobra.Command) { writeFlags(&b, cmd) })
	page.Fresh(t, flagsPage, b.String())
}

// commandsOf visits the runnable commands in the order of the help.
func commandsOf(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, child := range cmd.Commands() {
		if child.Hidden || child.Name() == "help" || child.Name() == "completion" { // added by cobra
			continue
		}
		if child.Runnable() {
			visit(child)
		}
		commandsOf(child, visit)
	}
}

func writeFlags(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
	configured := cmd.PreRunE != nil
	first := true
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		if first {
			fmt.Fprint(b, "\n| flag | default | environment | |\n|---|---|---|---|\n")
			first = false
		}
		kind, usage := pflag.UnquoteUsage(f)
		name, env := "--"+f.Name, ""
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		if configured {
			env = "`" + envName(f.Name) + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, defaultOf(f), env, strings.ReplaceAll(usage, "|", `\|`))
	})
}

// defaultOf returns a flag's default value, or "" if the flag's text describes the default.
func defaultOf(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}
