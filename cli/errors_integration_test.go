package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// wrong lists command lines that fail; testdata/errors.txt has the output of each. The words in capitals are kubeconfigs:
//
//   - HUB and MEMBER are for administrators.
//   - AGENT is for the member's account on the hub.
//   - NOBODY has no rights in the member, STRANGER none on the hub.
//   - DOWN has an address where no server listens.
//   - FOREIGN has the CA of another server.
//   - LEFTOVER has a token that the hub doesn't know.
//   - NONE is a missing file.
//   - BROKEN is not a kubeconfig.
var wrong = []string{
	"# Bad names and values.",
	"join Bei_jing --hub-kubeconfig HUB",
	"join --hub-kubeconfig HUB",
	"join beijing.west --hub-kubeconfig HUB",
	"join lyon --hub-kubeconfig HUB --cidrs 10.1.2.3/16",
	"join lyon --hub-kubeconfig HUB --cidrs 10.1.0.0/16,services",
	"join lyon --hub-kubeconfig HUB --community payments --community Edge_Asia",
	"join lyon --hub-kubeconfig HUB --secret credentials",
	"join lyon --hub-kubeconfig HUB --token-lifetime 1m",
	"join lyon --hub-kubeconfig HUB --revoke",
	"join --hub-kubeconfig HUB lyon nice",
	"leave --hub-kubeconfig HUB",
	"leave Bei_jing --hub-kubeconfig HUB",
	"drain --hub-kubeconfig HUB Bei_jing",
	"drain --hub-kubeconfig HUB",
	"explain --kubeconfig MEMBER web",
	"explain --kubeconfig MEMBER shop/web --from a/b/c/d",
	"doctor --kubeconfig MEMBER --for world",
	"doctor --kubeconfig MEMBER --dns a:b:c",
	"status --kubeconfig MEMBER -o xml",
	"member --hub-kubeconfig HUB --export-namespaces shop,Team-*",
	"member --hub-kubeconfig HUB --exclude-export-namespaces kube-[",
	"hub --kubeconfig HUB --hub-server https://hub.example.com",
	"hub --kubeconfig HUB --manage-members --hub-server hub.example.com",
	"statsu",

	"# Names that aren't there, or are taken.",
	"join beijing --hub-kubeconfig HUB",
	"leave beijin --hub-kubeconfig HUB",
	"drain --hub-kubeconfig HUB beijin",
	"undrain --hub-kubeconfig HUB beijin",
	"explain --kubeconfig MEMBER shop/webs",

	"# No kubeconfig, or none that can be used.",
	"join lyon",
	"join lyon --hub-kubeconfig NONE",
	"join lyon --hub-kubeconfig BROKEN",
	"leave beijing",
	"leave beijing --hub-kubeconfig NONE",
	"drain beijing",
	"drain --hub-kubeconfig NONE beijing",
	"status",
	"status --kubeconfig NONE",
	"status --kubeconfig BROKEN",
	"explain shop/web",
	"doctor",
	"member --hub-kubeconfig NONE --kubeconfig MEMBER",
	"member --hub-kubeconfig BROKEN --kubeconfig MEMBER",

	"# The wrong context, the wrong cluster.",
	"join lyon --hub-kubeconfig HUB --hub-context nope",
	"join lyon --hub-kubeconfig HUB --kubeconfig MEMBER --context nope",
	"leave beijing --hub-kubeconfig HUB --hub-context nope",
	"drain --hub-kubeconfig HUB --hub-context nope beijing",
	"status --kubeconfig MEMBER --context nope",
	"explain --kubeconfig MEMBER --context nope shop/web",
	"doctor --kubeconfig MEMBER --context nope",
	"drain --hub-kubeconfig MEMBER beijing",
	"join lyon --hub-kubeconfig MEMBER",
	"leave beijing --hub-kubeconfig MEMBER",
	"join lyon --hub-kubeconfig HUB --kubeconfig MEMBER",
	"leave shanghai --hub-kubeconfig HUB --kubeconfig MEMBER",
	"explain --kubeconfig HUB shop/web",

	"# A server that can't be reached, or isn't the one.",
	"join lyon --hub-kubeconfig DOWN",
	"join lyon --hub-kubeconfig DOWN --install-crds",
	"join lyon --hub-kubeconfig HUB --kubeconfig DOWN",
	"leave beijing --hub-kubeconfig DOWN",
	"drain --hub-kubeconfig DOWN beijing",
	"status --kubeconfig DOWN",
	"status --kubeconfig MEMBER --hub-kubeconfig DOWN",
	"explain --kubeconfig DOWN shop/web",
	"doctor --kubeconfig DOWN",
	"join lyon --hub-kubeconfig FOREIGN",
	"leave beijing --hub-kubeconfig FOREIGN",
	"drain --hub-kubeconfig FOREIGN beijing",
	"status --kubeconfig FOREIGN",

	"# An account that may not.",
	"join lyon --hub-kubeconfig STRANGER",
	"join lyon --hub-kubeconfig AGENT",
	"join lyon --hub-kubeconfig AGENT --install-crds",
	"leave beijing --hub-kubeconfig STRANGER",
	"leave beijing --hub-kubeconfig AGENT",
	"drain --hub-kubeconfig STRANGER beijing",
	"drain --hub-kubeconfig AGENT beijing",
	"status --kubeconfig NOBODY",
	"explain --kubeconfig NOBODY shop/web",
	"join lyon --hub-kubeconfig LEFTOVER",
	"leave beijing --hub-kubeconfig LEFTOVER",
	"drain --hub-kubeconfig LEFTOVER beijing",
	"status --kubeconfig LEFTOVER",
}

// testErrors makes every command fail in every way that users are likely to meet. An error is one line that tells what to do.
func testErrors(t *testing.T, s lookedAt) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	files := s.kubeconfigs(t)
	var paths, words []string
	for word, path := range files {
		paths, words = append(paths, path, word), append(words, word, path)
	}
	toPaths, toWords := strings.NewReplacer(words...), strings.NewReplacer(paths...)
	var all strings.Builder
	for _, line := range wrong {
		if strings.HasPrefix(line, "# ") {
			fmt.Fprintf(&all, "%s\n\n", line)
			continue
		}
		code, stdout, stderr := cli(t, strings.Fields(toPaths.Replace(line))...)
		if code == 0 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("clusterset %s: exit code %d, want a failure and one line: %q", line, code, stderr)
		}
		if strings.HasPrefix(line, "doctor") || strings.HasPrefix(line, "status --kubeconfig MEMBER --hub") {
			stdout = "" // it is compared with golden files of its own
		}
		fmt.Fprintf(&all, "$ clusterset %s\n%s%s[%d]\n\n", line, stdout, toWords.Replace(stderr), code)
	}
	s.same(t, "errors.txt", all.String())
	for _, c := range []*kube.ControlPlane{s.hub, s.member} {
		members, err := s.open(t, c).MemberClusters(t.Context())
		if names := memberNames(members); err != nil || !slices.Equal(names, []string{"beijing", "shanghai"}) {
			t.Errorf("%s has members %v after commands that all failed, %v", c.URL(), names, err)
		}
	}
}

func (s lookedAt) kubeconfigs(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	nobody, err := s.member.KubeconfigFor("nobody")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := s.hub.KubeconfigFor("stranger")
	if err != nil {
		t.Fatal(err)
	}
	agent := s.agentKubeconfig(t)
	hub := read(s.hub.Kubeconfig())
	return map[string]string{
		"HUB": s.hub.Kubeconfig(), "MEMBER": s.member.Kubeconfig(), "AGENT": agent, "NOBODY": nobody, "STRANGER": stranger,
		"DOWN":     write("down", strings.ReplaceAll(hub, s.hub.URL(), "https://127.0.0.1:1")),
		"FOREIGN":  write("foreign", strings.ReplaceAll(read(s.member.Kubeconfig()), s.member.URL(), s.hub.URL())),
		"LEFTOVER": write("leftover", withToken(t, read(agent), "e30.e30.e30")),
		"NONE":     filepath.Join(dir, "none"),
		"BROKEN":   write("broken", string(bytes.Repeat([]byte("apiVersion: v1\n kind"), 2))),
	}
}
