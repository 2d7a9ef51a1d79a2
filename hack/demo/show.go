package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/poll"
)

// title and say do what the page's methods do, as long as nothing has failed.
func (t *tour) title(text string) {
	if t.err == nil {
		t.page.title(text)
	}
}

func (t *tour) say(text string) {
	if t.err == nil {
		t.page.say(text)
	}
}

// do runs a step that has no output of its own.
func (t *tour) do(f func() error) {
	if t.err == nil {
		t.err = f()
	}
}

// await polls until f returns nil.
func (t *tour) await(what string, f func(context.Context) error) {
	t.do(func() error {
		if err := poll.Within(t.ctx, soon, f); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// clusterset runs a command that changes something. It runs it once and shows its output, which must be as promised.
func (t *tour) clusterset(args string, promised ...check) {
	t.do(func() error {
		out, err := t.output(t.ctx, args, promised)
		if err != nil {
			return fmt.Errorf("bin/clusterset %s: %w", args, err)
		}
		t.command("bin/clusterset "+args, out)
		return nil
	})
}

// look runs a command that changes nothing until its output is as promised, and shows that output.
func (t *tour) look(args string, promised ...check) {
	var out string
	next := time.NewTicker(500 * time.Millisecond) // each attempt starts a process
	defer next.Stop()
	t.await("bin/clusterset "+args, func(ctx context.Context) (err error) {
		if out, err = t.output(ctx, args, promised); err != nil {
			select {
			case <-next.C:
			case <-ctx.Done():
			}
		}
		return err
	})
	if t.err == nil {
		t.command("bin/clusterset "+args, out)
	}
}

// output returns the output of a clusterset command, or an error if it isn't as promised.
func (t *tour) output(ctx context.Context, args string, promised []check) (string, error) {
	cmd := t.bin.Command(ctx, t.base, strings.Fields(args)...)
	cmd.Dir, cmd.Env = t.base, append(cmd.Env, "KUBECONFIG="+filepath.Join(folder, "kubeconfig"))
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err() // the context's end has killed the command
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && strings.HasPrefix(args, "status ") {
		err = nil // it shows a problem
	}
	for _, c := range promised {
		if err == nil {
			err = c(string(out))
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w; it printed\n%s", err, out)
	}
	return string(out), nil
}

// apply does what kubectl apply would do with a file of the repository.
func (t *tour) apply(m *fleet.Member, file string) {
	if t.err != nil {
		return
	}
	content, err := os.ReadFile(filepath.Join(t.root, file))
	if err == nil {
		err = m.Plane.ApplyContext(t.ctx, content)
	}
	if err != nil {
		t.err = fmt.Errorf("apply %s to %s: %w", file, m.Name, err)
		return
	}
	t.command(fmt.Sprintf("kubectl --context %s apply -f %s", m.Name, file), "")
}

// createNamespace does what kubectl create namespace would.
func (t *tour) createNamespace(m *fleet.Member, name string) {
	t.do(func() error {
		return m.Plane.ApplyContext(t.ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}"))
	})
	if t.err == nil {
		t.command(fmt.Sprintf("kubectl --context %s create namespace %s", m.Name, name), "")
	}
}

// showFile shows a file of the repository, without its leading comment.
func (t *tour) showFile(file string) {
	t.do(func() error {
		content, err := os.ReadFile(filepath.Join(t.root, file))
		text := string(content)
		for strings.HasPrefix(text, "#") {
			_, text, _ = strings.Cut(text, "\n")
		}
		if err == nil {
			t.show("yaml", text)
		}
		return err
	})
}

// cat shows a file in the directory where the commands run.
func (t *tour) cat(file string) {
	t.do(func() error {
		content, err := os.ReadFile(filepath.Join(t.base, file))
		if err == nil {
			t.command("cat "+file, string(content))
		}
		return err
	})
}

// dig queries a member's DNS server until the answer is as promised, in any order, and shows it. promised is the data of the records, or
// one word such as NXDOMAIN.
func (t *tour) dig(m *fleet.Member, name string, qtype uint16, promised ...string) {
	var reply *dns.Msg
	question := name
	if qtype != dns.TypeA {
		question += " " + dns.TypeToString[qtype]
	}
	if t.err == nil && len(promised) == 0 {
		t.err = fmt.Errorf("%s: nothing is promised for %s", m.Name, question)
	}
	t.await(fmt.Sprintf("dig @127.0.0.1 -p %s %s, in %s", m.DNS.Port, question, m.Name), func(ctx context.Context) error {
		var err error
		if reply, err = m.DNS.Ask(ctx, name, qtype); err != nil {
			return err
		}
		if got, want := answers(reply), slices.Sorted(slices.Values(promised)); !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	if t.err == nil {
		options, text := digText(reply)
		t.command(fmt.Sprintf("dig @127.0.0.1 -p %s %s %s   # in %s", m.DNS.Port, question, options, m.Name), text)
	}
}
