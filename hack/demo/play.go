package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/poll"
)

// play starts the control planes and plays the page. It prints its chapters up to the unnumbered one, runs their commands, and does what their
// comments say (do). It returns the page with what the commands printed.
func (t *tour) play(ctx context.Context, page string) (played string, err error) {
	began := time.Now()
	err = during(t.terminal, "starting four control planes", func() error { return t.launch(ctx) })
	if err != nil {
		return "", err
	}
	first, last := strings.Index(page, "\n## 1. "), strings.Index(page, "\n## From here")
	if first < 0 || last < first {
		return "", errors.New(script + " lacks a chapter 1 or From here")
	}
	var b strings.Builder
	b.WriteString(page[:first])
	left := page[first:last]
	for left != "" && err == nil {
		line, after, _ := strings.Cut(left, "\n")
		b.WriteString(line + "\n")
		left = after
		comment, isComment := strings.CutPrefix(line, "<!-- ")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isComment:
			err = t.do(ctx, page, strings.Fields(strings.TrimSuffix(comment, " -->")))
		case isCommand:
			end := nextRE.FindStringIndex(left)
			if end == nil {
				return "", fmt.Errorf("the block of %q has no end", command)
			}
			var output string
			output, err = t.command(ctx, command, left[:end[0]])
			b.WriteString(output)
			left = left[end[0]:]
		case strings.HasPrefix(line, "## "):
			t.print(strings.TrimPrefix(line, "## "), "1")
		case !strings.HasPrefix(line, "```"):
			t.print(line, "")
		}
	}
	if err != nil {
		return "", err
	}
	fmt.Fprintf(t.terminal, "\nThat was all, in %s.\n", time.Since(began).Round(time.Second))
	return b.String() + page[last:], nil
}

// nextRE is where the output of a command ends.
var nextRE = regexp.MustCompile("(?m)^(\\$ |```$)")

// print writes a line to the terminal. Errors don't matter: nobody may be looking at it.
func (t *tour) print(line, colour string) {
	if t.colours && colour != "" {
		line = "\x1b[" + colour + "m" + line + "\x1b[0m"
	}
	_, _ = io.WriteString(t.terminal, line+"\n")
}

// do does what a comment of the page says, which readers don't see.
func (t *tour) do(ctx context.Context, page string, words []string) error {
	what := strings.Join(words, " ")
	switch {
	case what == "start the processes":
		return t.startProcesses(ctx)
	case words[0] == "hub":
		return t.restartHub(ctx, words[1:])
	case words[0] == "power" && len(words) == 3:
		m, err := t.member(words[2])
		if err != nil {
			return err
		}
		return power(ctx, words[1] == "on", m)
	case words[0] == "shows" && len(words) == 2:
		content, err := os.ReadFile(filepath.Join(t.root, words[1]))
		text := string(content)
		for strings.HasPrefix(text, "#") { // the comment is about the file
			_, text, _ = strings.Cut(text, "\n")
		}
		if err == nil && !strings.Contains(page, "```yaml\n"+text+"```\n") {
			err = fmt.Errorf("%s doesn't show %s as it is", script, words[1])
		}
		return err
	}
	return fmt.Errorf("%s: nobody knows how to %s", script, what)
}

// changing are commands that run once: the others are repeated until they print what the page promises.
var changing = regexp.MustCompile(`^bin/clusterset (join|drain|undrain) `)

// command runs a command until its output is as on the page, shows it, and returns it as on the page.
func (t *tour) command(ctx context.Context, line, promised string) (string, error) {
	limit := soon
	if t.rewrites {
		limit = 30 * time.Second
	}
	var output, normal string
	var known map[string]string
	err := poll.Within(ctx, limit, func(ctx context.Context) error {
		printed, err := t.output(ctx, line)
		if err != nil {
			return err
		}
		known = maps.Clone(t.known)
		output, normal = printed, t.normal(printed, known)
		if normal == promised {
			return nil
		}
		err = fmt.Errorf("it prints\n%s\nand %s has\n%s", normal, script, promised)
		if changing.MatchString(line) {
			return poll.Permanent(err)
		}
		return err
	})
	if err != nil && (!t.rewrites || normal == "" || ctx.Err() != nil) {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	t.known = known
	for i, m := range t.members {
		line = strings.ReplaceAll(line, "-p "+port(i)+" ", "-p "+m.DNS.Port+" ")
	}
	t.print("  $ "+line, "36")
	for text := range strings.Lines(output) {
		t.print("  "+strings.TrimSuffix(text, "\n"), "")
	}
	return normal, nil
}

// output returns what a command of the page prints. For kubectl and dig it does what they would.
func (t *tour) output(ctx context.Context, line string) (string, error) {
	words := strings.Fields(line)
	switch words[0] {
	case "export": // each command has that anyway
		return "", nil
	case "cat":
		content, err := os.ReadFile(filepath.Join(t.base, words[1]))
		return string(content), err
	case "kubectl":
		return "", t.kubectl(ctx, words)
	case "dig":
		return t.dig(ctx, words)
	case "bin/clusterset":
		out, err := t.clusterset(ctx, words[1:]).CombinedOutput()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
			err = nil // what it prints says so
		}
		return string(out), err
	}
	return "", poll.Permanent(fmt.Errorf("%s: nobody knows how to run %q", script, line))
}

func (t *tour) clusterset(ctx context.Context, args []string) *exec.Cmd {
	cmd := t.bin.Command(ctx, t.base, args...)
	cmd.Dir, cmd.Env = t.base, append(cmd.Env, "KUBECONFIG="+filepath.Join(folder, "kubeconfig"))
	return cmd
}

// kubectl does "kubectl --context MEMBER create namespace NAME" or "kubectl --context MEMBER apply -f FILE".
func (t *tour) kubectl(ctx context.Context, words []string) error {
	m, err := t.member(words[2])
	if err != nil {
		return err
	}
	content := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + words[5] + "}}")
	if words[3] == "apply" {
		if content, err = os.ReadFile(filepath.Join(t.root, words[5])); err != nil {
			return err
		}
	}
	return m.Plane.ApplyContext(ctx, content)
}

// dig does "dig @127.0.0.1 -p PORT NAME [TYPE] +noall +answer # in MEMBER", or the same with +comments.
func (t *tour) dig(ctx context.Context, words []string) (string, error) {
	m, err := t.member(words[len(words)-1])
	if err != nil {
		return "", err
	}
	qtype := dns.TypeA
	if of, ok := dns.StringToType[words[5]]; ok {
		qtype = of
	}
	r, err := m.DNS.Ask(ctx, words[4], qtype)
	if err != nil {
		return "", err
	}
	if slices.Contains(words, "+comments") {
		return header(r), nil
	}
	var b strings.Builder
	for _, rr := range r.Answer {
		h := rr.Header()
		fmt.Fprintf(&b, "%s%d\t%s\t%s\t%s\n", column(h.Name, 24), h.Ttl, dns.ClassToString[h.Class], dns.TypeToString[h.Rrtype], strings.TrimPrefix(rr.String(), h.String()))
	}
	return b.String(), nil
}

// header prints the header of a reply as dig does.
func header(r *dns.Msg) string {
	flags := ""
	for i, set := range []bool{r.Response, r.Authoritative, r.Truncated, r.RecursionDesired, r.RecursionAvailable} {
		if set {
			flags += " " + []string{"qr", "aa", "tc", "rd", "ra"}[i]
		}
	}
	return fmt.Sprintf(";; ->>HEADER<<- opcode: %s, status: %s, id: %d\n;; flags:%s; QUERY: %d, ANSWER: %d, AUTHORITY: %d, ADDITIONAL: %d\n",
		dns.OpcodeToString[r.Opcode], dns.RcodeToString[r.Rcode], r.Id, flags, len(r.Question), len(r.Answer), len(r.Ns), len(r.Extra))
}

// column pads a name with tabs, as dig does, or adds a space to one that is too long.
func column(name string, width int) string {
	if len(name) >= width {
		return name + " "
	}
	return name + strings.Repeat("\t", (width-len(name)+7)/8)
}
