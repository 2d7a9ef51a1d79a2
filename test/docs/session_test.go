package docs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/kube"
)

// sessions are the pages whose console blocks are run, in this order: each page starts from the state that the previous one left.
var sessions = []string{"docs/quickstart.md", "docs/forwarding.md", "docs/ingress.md", "docs/own-names.md", "docs/operations.md", "docs/migrate-from-fabdns.md"}

// before prepares the state that a page needs if the previous page doesn't leave it.
var before = map[string]func(*world) error{"docs/own-names.md": podOfWeb, "docs/migrate-from-fabdns.md": fabdns}

// podOfWeb does what the endpointslice controller, which the world hasn't, does for a ready pod of beijing's web.
func podOfWeb(w *world) error {
	return w.nodes[0].plane.ApplyContext(context.Background(), []byte(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: default, name: web-pod, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: "", port: 80, protocol: TCP}]
endpoints: [{addresses: [10.1.2.3], conditions: {ready: true}}]
`))
}

// TestSessions runs every command of the pages' console blocks in a shell, in a world of real API servers, and compares the output
// with the page. A command without output on the page must succeed. A command with output must print that output, except for what
// differs between runs (see normal); a line "..." stands for any number of lines. Commands that only read are repeated until the
// output matches, as a reader would wait.
func TestSessions(t *testing.T) {
	w := newWorld(t)
	for i, page := range append(sessions, sessions[0]) {
		args := ""
		if i == len(sessions) { // what ends the world comes last
			args = "uninstall"
		}
		ok := t.Run(page+" "+args, func(t *testing.T) {
			began := time.Now()
			if prepare := before[page]; prepare != nil {
				if err := prepare(w); err != nil {
					t.Fatal(err)
				}
			}
			s := w.shell(t)
			like := newLikeness()
			for _, b := range blocks(t, page) {
				if b.kind == "console" && b.args == args {
					for _, step := range steps(t, b) {
						s.do(t, step, like)
					}
				}
			}
			t.Logf("took %s", time.Since(began).Round(time.Second))
		})
		if !ok {
			t.FailNow() // the next page would start from an incomplete state
		}
	}
}

// step is a command with the output that the page shows.
type step struct {
	place, command, output string
}

// steps reads a console block. "$ " begins a command; a "\", "|" or "&&" at the end of a line, or a "<<EOF", continues it.
func steps(t *testing.T, b block) []step {
	t.Helper()
	var all []step
	var until string // the line that ends a here-document, or ""
	more := false    // the command continues on the next line
	for i, line := range strings.Split(strings.TrimRight(b.text, "\n"), "\n") {
		switch {
		case until != "" || more:
			last := &all[len(all)-1]
			last.command += "\n" + line
			if more = until == "" && goesOnRE.MatchString(line); line == until {
				until = ""
			}
			continue
		case strings.HasPrefix(line, "$ "):
			line = line[2:]
			all = append(all, step{place: fmt.Sprintf("%s:%d", b.page, b.line+1+i), command: line})
			more = goesOnRE.MatchString(line)
		case len(all) == 0:
			t.Fatalf("%s: a console block begins with a command, as \"$ kubectl get nodes\"", b)
		default:
			all[len(all)-1].output += line + "\n"
		}
		if m := heredocRE.FindStringSubmatch(line); m != nil && strings.HasPrefix(all[len(all)-1].command, line) {
			until = m[1]
		}
	}
	return all
}

// goesOnRE matches a line on which the command doesn't end.
var goesOnRE = regexp.MustCompile(`(\\|\||&&)$`)

var heredocRE = regexp.MustCompile(`<<-?'?(\w+)'?`)

// looksRE matches commands that change nothing, and so can be repeated until their output matches.
var looksRE = regexp.MustCompile(`^(\w+=\$\()?(dig |clusterset (status|explain|preview|doctor|version)|kubectl ([-\w]+[= ]\S+ )*?(get|describe|rollout status|wait|events|api-resources) ?|helm (list|status|history))`)

// shell is a running bash.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

func (w *world) shell(t *testing.T) *shell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile")
	cmd.Dir, cmd.Env = w.dir, w.env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &shell{in, bufio.NewReader(out)}
}

const endOfCommand = "--- end of command "

// run runs a command in the shell, and returns its output and whether it succeeded.
func (s *shell) run(t *testing.T, command string) (string, bool) {
	t.Helper()
	// The command's standard input is empty, or it would consume the commands that follow.
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null; echo \"%s$?\"\n", command, endOfCommand); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for {
		line, err := s.out.ReadString('\n')
		if before, code, ok := strings.Cut(line, endOfCommand); ok {
			return out.String() + before, code == "0\n"
		}
		out.WriteString(line)
		if err != nil {
			t.Fatalf("the shell ended: %v\n%s", err, out.String())
		}
	}
}

// do runs a command until its output is what the page shows. A command that changes something runs only once.
func (s *shell) do(t *testing.T, step step, like *likeness) {
	t.Helper()
	began := time.Now()
	var said string
	try := func() error {
		out, ok := s.run(t, step.command)
		err := step.check(out, ok, like)
		if text, _ := normal(out); err != nil && text != said {
			said = text
			t.Logf("%s: after %s, not yet what the page shows:\n%s", step.place, time.Since(began).Round(10*time.Millisecond), indented(out))
		}
		if err != nil {
			return fmt.Errorf("%s: %s\n%w", step.place, step.command, err)
		}
		return nil
	}
	if looksRE.MatchString(step.command) {
		kube.Eventually(t, try)
	} else if err := try(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s (%s)", step.place, step.command, time.Since(began).Round(10*time.Millisecond))
}

// check returns nil if the output is what the page shows. A command may fail only if the page shows its output.
func (s step) check(out string, ok bool, like *likeness) error {
	if s.output != "" {
		return like.differs(s.output, out)
	}
	if !ok {
		return fmt.Errorf("it failed:\n%s", indented(out))
	}
	return nil
}
