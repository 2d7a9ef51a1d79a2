package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterset/clusterset/test/fleet"
)

// tell starts the control planes and runs the story.
func (t *tour) tell() error {
	began := time.Now()
	if err := during(t.terminal, "starting four control planes", t.launch); err != nil {
		return err
	}
	fmt.Fprintf(t.terminal, "Started four control planes in %s.\n", time.Since(began).Round(time.Second))
	if err := t.run(); err != nil {
		return err
	}
	t.end()
	fmt.Fprintf(t.terminal, "\nThat was all, in %s.\n", time.Since(began).Round(time.Second))
	return nil
}

const preface = `# The demo

<!-- Written by ` + "`make demo TRANSCRIPT=docs/demo.md`" + `; a test holds it to that. Change hack/demo instead. -->

` + "`make demo`" + ` runs a hub and three clusters on your machine, with real API servers, agents and DNS servers, and shows what one sees
while services are exported, a cluster is drained, and later dies. It needs Go and nothing else: kubectl and dig are what
you would type, and the demo does their part itself. It takes about a minute; the first run compiles etcd, kube-apiserver and
CoreDNS, which takes six to fifteen. At the end everything is gone again, or with ` + "`DEMO=keep make demo`" + ` stays up for you to look at.

What follows is its transcript. All output is from the processes, and the demo checks each answer against what it promises;
only times, ports and the addresses that API servers pick at random are made the same for every run.
`

const afterword = `
## From here

[architecture.md](architecture.md) says how it works, [operations.md](operations.md) how to run real clusters,
[troubleshooting.md](troubleshooting.md) what happens when a part fails and how to see it.
`

// document returns the transcript.
func (t *tour) document() string { return preface + t.normal(t.markdown.String()) + afterword }

// keepsake explains how to look at what is still running.
func (t *tour) keepsake() string {
	var b strings.Builder
	b.WriteString("\nEverything stays up until you press Ctrl-C here. In another terminal, in this directory:\n\n")
	fmt.Fprintf(&b, "  export KUBECONFIG=%s/kubeconfig       # contexts: hub, xicheng, shijiazhuang, minhang\n", folder)
	b.WriteString("  bin/clusterset status --context xicheng --hub-context hub --watch\n")
	b.WriteString("  bin/clusterset explain shop/web --context minhang\n")
	b.WriteString("  bin/" + consoleArgs + "\n")
	b.WriteString("  kubectl --context minhang get serviceimports,globalservices,endpointslices -A\n")
	b.WriteString("  kubectl --context hub get memberclusters,exportedservices -A\n\n")
	for _, m := range []*fleet.Member{t.xicheng, t.shijiazhuang, t.minhang} {
		fmt.Fprintf(&b, "  dig @127.0.0.1 -p %s %-30s # in %s\n", m.DNS.Port, webGlobal, m.Name)
	}
	fmt.Fprintf(&b, "\nThe logs are %s/*.log and %s/*/*.log. Ctrl-C ends everything and removes %s.\n", folder, folder, folder)
	return b.String()
}

const consoleArgs = "clusterset console --hub-context hub --context xicheng,shijiazhuang,minhang"

// console runs clusterset console, which prints its address, until the demo ends.
func (t *tour) console(w io.Writer) error {
	cmd := t.bin.Command(t.ctx, t.base, append(strings.Fields(consoleArgs)[1:], "--no-open")...)
	cmd.Dir, cmd.Env = t.base, append(cmd.Env, "KUBECONFIG="+filepath.Join(folder, "kubeconfig"))
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	return cmd.Run()
}
