package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// configHelp is part of the help of every command that has a configuration.
const configHelp = `

Every flag can also be set in the environment (--hub-kubeconfig as CLUSTERSET_HUB_KUBECONFIG) and in a YAML file given with
--config (hub-kubeconfig: …). A flag counts before the environment, and that before the file. An empty variable is none.`

// configured gives a command a --config flag and has its flags filled in, before it runs, from the environment and the
// file.
func configured(cmd *cobra.Command) *cobra.Command {
	cmd.Long += configHelp
	cmd.Flags().String("config", "", "YAML `file` with values for flags that are set neither here nor in the environment")
	cmd.Args = noArgs
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return fillIn(cmd.Flags(), os.LookupEnv) }
	return cmd
}

// fillIn sets the flags that the command line doesn't.
func fillIn(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	if err := fromEnvironment(flags, lookup); err != nil {
		return err
	}
	path := flags.Lookup("config").Value.String()
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return usagef("read configuration: %w", err)
	}
	return fromFile(flags, path, content)
}

func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
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
		if err := flags.Set(f.Name, value); err != nil { // which marks it as changed
			first = usagef("environment variable %s: %w", name, err)
		}
	})
	return first
}

// envName returns the environment variable of a flag.
func envName(flag string) string {
	return "CLUSTERSET_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromFile sets flags that are still unset. A key that is no flag is refused: a setting that silently isn't one costs
// somebody an afternoon.
func fromFile(flags *pflag.FlagSet, path string, content []byte) error {
	object, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return usagef("read configuration %s: %w", path, err)
	}
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber() // else a million is 1e+06, which no flag understands
	if err := decoder.Decode(&values); err != nil {
		return usagef("read configuration %s: want keys and values: %w", path, err)
	}
	for key, value := range values {
		f := flags.Lookup(key)
		if f == nil || key == "config" || key == "help" {
			return usagef("configuration %s: unknown key %q; the keys are the flags: %s", path, key, strings.Join(flagNames(flags), ", "))
		}
		if f.Changed || value == nil {
			continue
		}
		if err := setFrom(flags, f, value); err != nil {
			return usagef("configuration %s: %s: %w", path, key, err)
		}
	}
	return nil
}

func setFrom(flags *pflag.FlagSet, f *pflag.Flag, value any) error {
	switch v := value.(type) {
	case []any:
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			return fmt.Errorf("want one value, not a list")
		}
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = fmt.Sprint(item)
		}
		f.Changed = true
		return list.Replace(items)
	case map[string]any:
		return fmt.Errorf("want a value or a list, not a mapping")
	default:
		return flags.Set(f.Name, fmt.Sprint(v))
	}
}

func flagNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	slices.Sort(names)
	return names
}
