package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Contexts are completed from the kubeconfig that the command would read, in every command that has them.
func TestContextsAreCompleted(t *testing.T) {
	write := func(contexts ...string) string {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		content := "apiVersion: v1\nkind: Config\ncontexts:\n"
		for _, c := range contexts {
			content += "- {name: " + c + ", context: {cluster: x}}\n"
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("KUBECONFIG", write("shanghai", "beijing"))
	other := write("hub")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "--context", ""}, "beijing\nshanghai\n"},
		{[]string{"test", "--context", ""}, "beijing\nshanghai\n"},
		{[]string{"preview", "down", "--hub-context", ""}, "beijing\nshanghai\n"},
		{[]string{"join", "--hub-kubeconfig", other, "--hub-context", ""}, "hub\n"},
	} {
		_, stdout, _ := cli(t, append([]string{"__complete"}, tc.args...)...)
		if got, _, _ := strings.Cut(stdout, ":"); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.args, got, tc.want)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	_, flag, _ := cli(t, "--version")
	_, command, _ := cli(t, "version")
	if flag != command || !strings.HasPrefix(flag, "clusterset ") {
		t.Errorf("--version prints %q, version %q", flag, command)
	}
	if _, data, _ := cli(t, "version", "-o", "json"); !strings.Contains(data, `"what": "command line"`) {
		t.Error(data)
	}
}
