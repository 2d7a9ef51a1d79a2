package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/fleet"
)

// title and say are those of the page, as long as nothing has failed.
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

// do does something that has no output of its own.
func (t *tour) do(f func() error) {
	if t.err == nil {
		t.err = f()
	}
}

// await waits until f returns nil.
func (t *tour) await(what string, f func(context.Context) error) {
	t.do(func() error {
		if err := fleet.Until(t.ctx, soon, f); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// clusterset runs our command line as a person would and shows what it prints, when that has all the words promised, each an
// expression of grep's kind. A command that changes something is run once, one that shows something until it shows that.
func (t *tour) clusterset(args string, promised ...check) {
	var out []byte
	t.await("bin/clusterset "+args, func(ctx context.Context) error {
		cmd := t.bin.Command(ctx, t.base, strings.Fields(args)...)
		cmd.Dir, cmd.Env = t.base, append(cmd.Env, "KUBECONFIG="+filepath.Join(folder, "kubeconfig"))
		var err error
		if out, err = cmd.CombinedOutput(); err != nil {
			return fleet.Permanent(fmt.Errorf("%w\n%s", err, out))
		}
		var errs []error
		for _, c := range promised {
			if err := c(string(out)); err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) > 0 {
			return fmt.Errorf("%w\nIt printed:\n%s", errors.Join(errs...), out)
		}
		return nil
	})
	if t.err == nil {
		t.command("bin/clusterset "+args, string(out))
	}
}

// apply does what kubectl apply would, with a file of the repository.
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

// showFile shows a file of the repository, without the comment it begins with.
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

// dig asks a member's DNS server until the answer is the one promised, in any order, and shows it. What is promised are the
// data of the records, or the one word NXDOMAIN.
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
