package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is the -o of a command that shows something.
type output struct{ format string }

// addFlag adds the flag to a configured command, which refuses other formats.
func (o *output) addFlag(cmd *cobra.Command, formats ...string) {
	cmd.Flags().StringVarP(&o.format, "output", "o", formats[0], "`format`: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	fill := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := fill(cmd, args); err != nil {
			return err
		}
		if !slices.Contains(formats, o.format) {
			return usagef("-o is %q; want %s", o.format, strings.Join(formats, ", "))
		}
		return nil
	}
}

func (o *output) wide() bool { return o.format == "wide" }

func (o *output) write(w io.Writer, value any, text func() string) error {
	switch o.format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	case "yaml":
		content, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "---\n%s", content)
		return err
	}
	_, err := io.WriteString(w, text())
	return err
}

// colours reports whether w is a terminal that shows colours (https://no-color.org).
func colours(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
