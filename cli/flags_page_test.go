package cli

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/test/page"
)

const flagsPage = "../docs/flags.md"

// flagRow is the row of a flag.
var flagRow = regexp.MustCompile("(?m)^\\| `(?:-\\w, )?--([\\w-]+).*$")

// docs/flags.md agrees with the commands. UPDATE=1 rewrites what it says of them. People write the rest, and choose the flags: those that are
// set most often, of the command that is the title of a section. --help has all.
func TestFlagsPageIsFresh(t *testing.T) {
	content, err := os.ReadFile(flagsPage)
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	sections := strings.Split(string(content), "\n## ")
	for i, section := range sections {
		switch title, _, _ := strings.Cut(section, "\n"); title {
		case "Commands":
			sections[i] = title + "\n\n| command | |\n|---|---|\n"
			for _, cmd := range documented(root) {
				sections[i] += fmt.Sprintf("| `clusterset %s` | %s |\n", cmd.Use, textOf(cmd))
			}
		default:
			sections[i] = flagRow.ReplaceAllStringFunc(section, func(row string) string {
				flag := flagRow.FindStringSubmatch(row)[1]
				command, is := strings.CutPrefix(title, "clusterset ")
				if !is { // of many commands
					command = map[string]string{"dry-run": "drain", "wait": "drain", "timeout": "drain"}[flag]
				}
				return rowOf(t, root, cmp.Or(command, "status"), flag)
			})
		}
	}
	page.Fresh(t, flagsPage, strings.Join(sections, "\n## "))
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

func rowOf(t *testing.T, root *cobra.Command, command, flag string) string {
	t.Helper()
	cmd, _, err := root.Find([]string{command})
	if err != nil {
		t.Fatal(err)
	}
	f := cmd.Flags().Lookup(flag)
	if f == nil {
		t.Fatalf("clusterset %s has no flag --%s, which %s names", command, flag, flagsPage)
	}
	kind, usage := pflag.UnquoteUsage(f)
	name := "--" + flag
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if kind != "" {
		name += " " + kind
	}
	return fmt.Sprintf("| `%s` | %s%s |", name, strings.ReplaceAll(usage, "|", `\|`), defaultOf(f))
}

// defaultOf returns a flag's default value as an addition to its text, or "" if the text describes the default or there is none to speak of.
func defaultOf(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	if value == "" || value == "false" || strings.Contains(f.Usage, "(default: ") {
		return ""
	}
	return " (default: " + value + ")"
}
