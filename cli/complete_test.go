package cli

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

// testCompletion completes clusters, places, services and namespaces from the hub where it is given, else from the local cluster.
func testCompletion(t *testing.T, s lookedAt) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	hub, member := []string{"--hub-kubeconfig", s.hub.Kubeconfig()}, []string{"--kubeconfig", s.member.Kubeconfig()}
	stranger, err := s.hub.KubeconfigFor("stranger")
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := cli(t, append(hub, "drain", "shanghai")...); code != 0 {
		t.Fatal(stderr)
	}
	defer cli(t, append(hub, "undrain", "shanghai")...)
	spec := func(spec string) {
		s.hub.Apply(t, []byte("{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: shanghai}, spec: {"+spec+"}}"))
	}
	spec("network: east, communities: [payments, default]")
	defer spec("")
	places := "beijing\nbeijing/cn-north-1a/cn-north-1\nshanghai\nshanghai/cn-east-1b/cn-east-1\n"
	for _, tc := range []struct {
		from []string
		args string // a dot is the word to complete, so far empty
		want string
	}{
		{hub, "drain .", "beijing\n"},
		{hub, "undrain .", "shanghai\n"},
		{hub, "drain beijing .", ""},
		{hub, "leave .", "beijing\nshanghai\n"},
		{hub, "join .", ""},
		{hub, "join --rejoin .", "beijing\nshanghai\n"},
		{hub, "preview down .", "beijing\nshanghai\n"},
		{hub, "preview down beijing .", "shanghai\n"},
		{hub, "preview place .", "beijing\nshanghai\n"},
		{hub, "preview drain beijing --from .", places},
		{hub, "preview unreachable beijing --from .", "beijing\nshanghai\n"},
		{hub, "preview unreachable beijing --from shanghai,.", "shanghai,beijing\nshanghai,shanghai\n"},
		{hub, "preview export shop/web --from .", "beijing\nshanghai\n"},
		{hub, "preview export-to shop/web --to .", "beijing\nshanghai\n"},
		{hub, "preview communities beijing --community .", "default\npayments\n"},
		{hub, "preview network beijing --to .", "east\n"},
		{hub, "join --network .", "east\n"},
		{hub, "join --community payments,.", "payments,default\npayments,payments\n"},
		{hub, "preview policy .", "shop/web\n"},
		{hub, "preview --for .", "shop/web\n"},
		{hub, "preview down --extended .", "shop/web\n"},
		{hub, "explain .", "shop/web\n"},
		{hub, "services --namespace .", "shop\n"},
		{member, "explain .", "shop/db\nshop/web\n"},
		{member, "explain shop/web --from .", places},
		{member, "services -n .", "shop\n"},
		{[]string{"--manifests", "."}, "explain .", ""},
		{nil, "drain .", ""},
		{nil, "explain .", ""},
		{[]string{"--hub-kubeconfig", "nowhere"}, "drain .", ""},
		{[]string{"--hub-kubeconfig", stranger}, "drain .", ""},
		{[]string{"--hub-kubeconfig", stranger}, "preview --for .", ""},
	} {
		words := strings.Fields(tc.args)
		last := len(words) - 1
		words[last] = strings.TrimSuffix(words[last], ".")
		// The flags come first: the word to complete is the last.
		command := 1
		if words[0] == "preview" && !strings.HasPrefix(words[1], "-") {
			command = 2
		}
		args := slices.Concat([]string{"__complete"}, words[:min(command, last)], tc.from, words[min(command, last):])
		_, stdout, stderr := cli(t, args...)
		if got, directive, _ := strings.Cut(stdout, ":"); got != tc.want || strings.TrimSpace(directive) != "4" || strings.Contains(stderr, "clusterset: ") {
			t.Errorf("%s: %q:%q, want %q\n%s", tc.args, got, directive, tc.want, stderr)
		}
	}
}

// A hub that accepts connections and never answers doesn't hang the shell.
func TestCompletionOfAHubThatHangs(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // the kernel accepts the connections
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x}}]\n" +
		"clusters: [{name: x, cluster: {server: 'http://" + listener.Addr().String() + "'}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		_, stdout, _ := cli(t, "__complete", "drain", "--hub-kubeconfig", kubeconfig, "--request-timeout", "1h", "")
		done <- stdout
	}()
	select {
	case stdout := <-done:
		if stdout != ":4\n" {
			t.Errorf("%q", stdout)
		}
	case <-time.After(time.Minute):
		t.Error("it hangs")
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
