package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A flag precedes its variable, which precedes the default. An empty variable is none, and one that is wrong is named.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct{ args, env, want string }{
		{"", "", "default 1s [default] false"},
		{"", "SOME_NAME=env EVERY=3s LIST=e1,e2 ENABLED=true", "env 3s [e1 e2] true"},
		{"--some-name=flag --list=a --enabled=false", "SOME_NAME=env LIST=e1 ENABLED=true", "flag 1s [a] false"},
		{"--list= --some-name=", "SOME_NAME=env LIST=e1", " 1s [] false"},
		{"", "SOME_NAME=", "default 1s [default] false"},
		{"", "EVERY=x", `environment variable CLUSTERSET_EVERY: invalid argument "x" for "--every" flag`},
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		name, every := flags.String("some-name", "default", ""), flags.Duration("every", time.Second, "")
		list, on := flags.StringSlice("list", []string{"default"}, ""), flags.Bool("enabled", false, "")
		if err := flags.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		for variable := range strings.FieldsSeq(c.env) {
			key, value, _ := strings.Cut(variable, "=")
			env["CLUSTERSET_"+key] = value
		}
		err := fillIn(flags, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
		got := fmt.Sprint(*name, " ", *every, " ", *list, " ", *on)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s and %s: got %q, want %q", c.env, c.args, got, c.want)
		}
	}
}

// The variables that say what to bundle, or how other commands print, don't change what these print about a cluster of the bundle.
func TestABundlesCommandsReadNoVariables(t *testing.T) {
	for _, name := range []string{"CONTEXT", "HUB_CONTEXT", "OUTPUT"} {
		t.Setenv("CLUSTERSET_"+name, "strange")
	}
	for _, command := range []string{"status", "services", "doctor"} {
		if got := string(printed(t.Context(), []string{command, "--kubeconfig", nowhere(t)})); strings.Contains(got, "strange") || !strings.Contains(got, "can't be reached") {
			t.Errorf("%s says %s", command, got)
		}
	}
}

// nowhere returns a kubeconfig of a server that isn't there.
func nowhere(t *testing.T) string {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// testdata/errors.txt has the codes of failures.
func TestExitCodes(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {}, {"help", "member"}} {
		if code, _, stderr := cli(t, args...); code != 0 {
			t.Errorf("clusterset %s: exit code %d, %s", args, code, stderr)
		}
	}
}

// Every flag has a description. Its environment variable has a name that a Service called clusterset can't set by accident (Kubernetes
// gives pods CLUSTERSET_PORT, CLUSTERSET_SERVICE_HOST and the like).
func TestFlagsAreDocumented(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.Short == "" {
			t.Errorf("%s says nothing", cmd.Name())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			env := envName(f.Name)
			if cmd.Name() == "console" && f.Name == "port" {
				return // users run the console, not pods
			}
			if f.Usage == "" || strings.Contains(env, "_PORT") || strings.Contains(env, "_SERVICE_") {
				t.Errorf("%s --%s: %q, %s", cmd.Name(), f.Name, f.Usage, env)
			}
		})
	}
}
