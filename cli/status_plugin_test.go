package cli

import (
	"bytes"
	"strings"
	"testing"
)

// If the program is started under the name that kubectl looks for, the usage shows commands as kubectl users type them.
func TestHelpAsKubectlPlugin(t *testing.T) {
	for started, want := range map[string]string{
		"/usr/local/bin/clusterset":                "clusterset",
		"/home/me/.krew/bin/kubectl-clusterset":    "kubectl clusterset",
		`kubectl-clusterset.exe`:                   "kubectl clusterset",
		"/opt/kubectl-clusterset/clusterset.linux": "clusterset",
	} {
		root := newRoot()
		asPlugin(root, started)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"help", "drain"})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, "Usage:\n  "+want+" drain CLUSTER") {
			t.Errorf("%s:\n%s", started, text)
		}
	}
}

// The help lists each command once, and each for users says which exit codes it has.
func TestHelpListsEachCommandOnce(t *testing.T) {
	_, help, _ := cli(t, "--help")
	for _, cmd := range newRoot().Commands() {
		if n := strings.Count(help, "\n  "+cmd.Name()+" ") + strings.Count(help, "\n  clusterset "+cmd.Name()+" "); n != 1 {
			t.Errorf("%s is there %d times:\n%s", cmd.Name(), n, help)
		}
	}
	for _, name := range []string{"status", "explain", "drain", "undrain", "doctor"} {
		if _, stdout, _ := cli(t, "help", name); !strings.Contains(stdout, "Exit codes: 0") {
			t.Errorf("%s: %s", name, stdout)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	if _, said, _ := cli(t, "--version"); !strings.HasPrefix(said, "clusterset ") {
		t.Errorf("--version prints %q", said)
	}
}
