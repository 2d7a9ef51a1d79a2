package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/test/page"
)

const flagsPage = "../docs/flags.md"

const flagsHead = `# Command line

<!-- Generated from the commands by make generate. -->

` + "`" + `clusterset COMMAND --help` + "`" + ` has all flags of a command, with examples. This page has the commands, and the flags that are set most often.

A flag that isn't on the command line is read from the environment, ` + "`" + `--hub-kubeconfig` + "`" + ` as ` + "`" + `CLUSTERSET_HUB_KUBECONFIG` + "`" + `. An empty variable counts
as unset. The chart sets flags of ` + "`" + `member` + "`" + ` and ` + "`" + `hub` + "`" + ` by its [values](../charts/clusterset/values.yaml), and others by ` + "`" + `extraArgs` + "`" + `.

Exit codes: 0 success; 1 failure; 2 usage error; 3 (preview only) a name would lose its last endpoint. An error is one line on stderr.

Completion: ` + "`" + `source <(clusterset completion bash)` + "`" + `. For ` + "`" + `kubectl clusterset` + "`" + `, link the program as ` + "`" + `kubectl_complete-clusterset` + "`" + ` in the PATH.

## Commands

| command | |
|---|---|
`

// flagGroup are flags of a command, in the order of the page.
type flagGroup struct {
	command string
	flags   []string
}

// flagSections are the flags that docs/flags.md has: those that people set most often. --help has all.
var flagSections = []struct {
	title string
	of    []flagGroup
}{
	{"Flags of many commands", []flagGroup{
		{"status", []string{"kubeconfig", "context", "hub-kubeconfig", "hub-context", "output", "request-timeout"}},
		{"drain", []string{"dry-run", "wait", "timeout"}},
	}},
	{"clusterset join", []flagGroup{
		{"join", []string{"zone", "region", "cidrs", "community", "network", "external-cidrs", "hub-server", "install-crds", "rejoin"}},
	}},
	{"clusterset member", []flagGroup{
		{"member", []string{
			"data-path", "prefer", "export-namespaces", "exclude-export-namespaces", "import-namespaces", "exclude-namespaces",
			"create-namespaces", "extend-everywhere", "beacon-addresses",
		}},
	}},
	{"clusterset hub", []flagGroup{
		{"hub", []string{"manage-members", "hub-server", "suspect-after", "expire-after", "forget-after"}},
	}},
	{"clusterset explain", []flagGroup{
		{"explain", []string{"from", "manifests"}},
	}},
	{"clusterset doctor", []flagGroup{
		{"doctor", []string{"dns", "for"}},
	}},
	{"clusterset preview", []flagGroup{
		{"preview", []string{"file", "for", "from", "data-path"}},
	}},
	{"clusterset console", []flagGroup{
		{"console", []string{"context", "port", "manifests"}},
	}},
	{"clusterset test", []flagGroup{
		{"test", []string{"context", "image", "keep"}},
	}},
}

// docs/flags.md agrees with the commands. UPDATE=1 rewrites it.
func TestFlagsPageIsFresh(t *testing.T) {
	root := newRoot()
	var b strings.Builder
	b.WriteString(flagsHead)
	for _, cmd := range documented(root) {
		fmt.Fprintf(&b, "| `clusterset %s` | %s |\n", cmd.Use, textOf(cmd))
	}
	for _, section := range flagSections {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | |\n|---|---|\n", section.title)
		for _, of := range section.of {
			writeFlags(t, &b, root, of)
		}
	}
	page.Fresh(t, flagsPage, b.String())
}

// documented are the commands directly below one, in the order of the help.
func documented(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(child *cobra.Command) bool {
		return child.Hidden || child.Name() == "help" || child.Name() == "completion" // added by cobra
	})
}

// textOf is what a command is for, and the commands below it.
func textOf(cmd *cobra.Command) string {
	text, sep := cmd.Short, ": "
	for _, child := range documented(cmd) {
		text += sep + "`" + child.Name() + "`"
		sep = ", "
	}
	return text
}

func writeFlags(t *testing.T, b *strings.Builder, root *cobra.Command, of flagGroup) {
	t.Helper()
	cmd, _, err := root.Find([]string{of.command})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range of.flags {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			t.Fatalf("clusterset %s has no flag --%s, which %s names", of.command, name, flagsPage)
		}
		kind, usage := pflag.UnquoteUsage(f)
		name = "--" + name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		fmt.Fprintf(b, "| `%s` | %s%s |\n", name, strings.ReplaceAll(usage, "|", `\|`), defaultOf(f))
	}
}

// defaultOf returns a flag's default value as an addition to its text, or "" if the text describes the default or there is none to speak of.
func defaultOf(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	if value == "" || value == "false" || strings.Contains(f.Usage, "(default: ") {
		return ""
	}
	return " (default: " + value + ")"
}
