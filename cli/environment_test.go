package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// settings has a value for one flag of each kind.
type settings struct {
	name  string
	every time.Duration
	list  []string
	on    bool
	n     int
}

func settingsFlags(s *settings) *pflag.FlagSet {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringVar(&s.name, "some-name", "default", "")
	flags.DurationVar(&s.every, "every", time.Second, "")
	flags.StringSliceVar(&s.list, "list", []string{"default"}, "")
	flags.BoolVar(&s.on, "enabled", false, "")
	flags.IntVar(&s.n, "number", 1, "")
	return flags
}

func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name string
		args string
		env  map[string]string
		want settings
	}{
		{"defaults", "", nil, settings{"default", time.Second, []string{"default"}, false, 1}},
		{
			"environment", "",
			map[string]string{"CLUSTERSET_SOME_NAME": "env", "CLUSTERSET_EVERY": "3s", "CLUSTERSET_LIST": "e1,e2", "CLUSTERSET_ENABLED": "true", "CLUSTERSET_NUMBER": "7000000"},
			settings{"env", 3 * time.Second, []string{"e1", "e2"}, true, 7000000},
		},
		{
			"flag over environment", "--some-name=flag --list=a --enabled=false",
			map[string]string{"CLUSTERSET_SOME_NAME": "env", "CLUSTERSET_LIST": "e1", "CLUSTERSET_ENABLED": "true", "CLUSTERSET_NUMBER": "5"},
			settings{"flag", time.Second, []string{"a"}, false, 5},
		},
		{"a flag set to nothing", "--list= --some-name=", map[string]string{"CLUSTERSET_SOME_NAME": "env", "CLUSTERSET_LIST": "e1"}, settings{"", time.Second, []string{}, false, 1}},
		{"an empty variable is none", "", map[string]string{"CLUSTERSET_SOME_NAME": ""}, settings{"default", time.Second, []string{"default"}, false, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got settings
			flags := settingsFlags(&got)
			if err := flags.Parse(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			if err := fillIn(flags, func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }); err != nil {
				t.Fatal(err)
			}
			if got.name != c.want.name || got.every != c.want.every || !slices.Equal(got.list, c.want.list) || got.on != c.want.on || got.n != c.want.n {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The variables that say what to bundle, or how other commands print, don't change what these print about a cluster of the bundle.
func TestABundlesCommandsReadNoVariables(t *testing.T) {
	for _, name := range []string{"CONTEXT", "HUB_CONTEXT", "OUTPUT"} {
		t.Setenv("CLUSTERSET_"+name, "strange")
	}
	c := bundled{nil, []string{"--kubeconfig", nowhere(t), "--context", "", "--hub-context", ""}}
	for _, command := range []string{"status", "services", "doctor"} {
		if got := string(c.output(t.Context(), command)); strings.Contains(got, "strange") || !strings.Contains(got, "can't be reached") {
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

func TestAWrongVariableIsNamed(t *testing.T) {
	var s settings
	err := fillIn(settingsFlags(&s), func(k string) (string, bool) { return "x", k == "CLUSTERSET_EVERY" })
	if err == nil || !strings.Contains(err.Error(), "CLUSTERSET_EVERY") {
		t.Errorf("got %v", err)
	}
}

func TestExitCodes(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	kubeconfig := nowhere(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"version", 0, ""},
		{"", 0, ""},
		{"help member", 0, ""},
		{"membr", exitUsage, "did you mean member?"},
		{"version extra", exitUsage, `unexpected argument "extra"`},
		{"member --no-such-flag", exitUsage, "unknown flag: --no-such-flag"},
		{"member", exitUsage, "--hub-kubeconfig is required"},
		{"member --hub-kubeconfig " + none + " --data-path tunnels", exitUsage, "pods, clusterips or none"},
		{"member --hub-kubeconfig " + none + " --heartbeat-interval soon", exitUsage, "invalid argument"},
		{"member --hub-kubeconfig " + none + " --heartbeat-interval 1ms", exitUsage, "at least 1s"},
		{"member --hub-kubeconfig " + none + " --workers 0", exitUsage, "at least 1"},
		{"member --hub-kubeconfig " + none + " --hub-secret x", exitUsage, "namespace/name"},
		{"member --hub-kubeconfig " + none + " --log-level loud", exitUsage, "debug, info, warn or error"},
		{"member --hub-kubeconfig " + none + " --kubeconfig " + kubeconfig, exitFailure, "clusterset join"},
		{"member --hub-kubeconfig " + kubeconfig + " --kubeconfig " + kubeconfig, exitUsage, "--cluster"},
		{"member --hub-kubeconfig " + kubeconfig + " --kubeconfig " + none, exitUsage, "load kubeconfig"},
		{"hub --suspect-after 10m", exitUsage, "--suspect-after is 10m0s, --expire-after 5m0s and --forget-after 24h0m0s; they must"},
		{"hub --log-format xml", exitUsage, "text or json"},
		{"join beijing", exitUsage, "--hub-kubeconfig or --hub-context is required"},
		{"join beijing --hub-context none", exitUsage, "there is no context"},
		{"leave beijing", exitUsage, "--hub-kubeconfig or --hub-context is required"},
		{"join --hub-kubeconfig " + none, exitUsage, "CLUSTER is missing: the cluster's name"},
		{"join beijing --hub-kubeconfig " + none, exitUsage, "load kubeconfig"},
		{"join beijing --hub-kubeconfig " + kubeconfig, exitFailure, "can't be reached"},
		{"leave Beijing --hub-kubeconfig " + none, exitUsage, "DNS label"},
		{"leave beijing --hub-kubeconfig " + kubeconfig, exitFailure, "can't be reached"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("clusterset %s: exit code %d, %s", c.args, code, stderr.String())
		}
		if code != 0 && strings.Count(strings.TrimSpace(stderr.String()), "\n") > 0 {
			t.Errorf("clusterset %s: the error isn't one line: %s", c.args, stderr.String())
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
