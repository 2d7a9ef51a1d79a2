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

// testErrors makes every command fail in every way that users are likely to meet: the commands of testdata/errors.txt, which has the output of
// each. An error is one line that tells what to do.
func testErrors(t *testing.T, s lookedAt) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	var paths, words []string
	for word, path := range s.kubeconfigs(t) {
		paths, words = append(paths, path, word), append(words, word, path)
	}
	toPaths, toWords := strings.NewReplacer(words...), strings.NewReplacer(paths...)
	golden, err := os.ReadFile(filepath.Join("testdata", "errors.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for line := range strings.Lines(string(golden)) {
		if strings.HasPrefix(line, "# ") {
			fmt.Fprintf(&all, "%s\n", line)
		}
		line, is := strings.CutPrefix(strings.TrimSpace(line), "$ clusterset ")
		if !is {
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

// kubeconfigs are those that testdata/errors.txt names:
//
//   - HUB and MEMBER are for administrators, AGENT for the member's account on the hub.
//   - NOBODY has no rights in the member, STRANGER none on the hub.
//   - DOWN has an address where no server listens, FOREIGN the CA of another server.
//   - LEFTOVER has a token that the hub doesn't know.
//   - NONE is a missing file, BROKEN no kubeconfig.
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
