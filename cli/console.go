package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/console/live"
	"github.com/clusterset/clusterset/cli/preview"
)

// consoleCommand is `clusterset console`.
type consoleCommand struct {
	previewCommand
	contexts []string
	port     uint16
	noOpen   bool
}

func newConsole() *cobra.Command {
	var c consoleCommand
	cmd := configured(&cobra.Command{
		Use:   "console",
		Short: "Show the set in a browser, live, and what changes would do",
		Long: `Serves a page at 127.0.0.1 and opens it in the browser: the map of the clusters, the services, what each place uses of a service
and why, and what would change if clusters went down, were drained, left or moved, or a service had another policy.

It reads the hub with the rights of your kubeconfig, and changes nothing. With --context it also reads members: the problems that
clusterset status and doctor find there. Only this machine can open the page, and only with the address that is printed. It ends with the command.

--manifests shows what a hub has from files, as written by
` + recordsCommand + ` on the hub.` + exitHelp,
		Example: `  clusterset console --hub-context hub
  clusterset console --hub-context hub --context beijing --context shanghai --no-open`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := map[string]string{}
			cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = strings.Trim(f.Value.String(), "[]") }) // a list has brackets
			return c.run(cmd.Context(), cmd.OutOrStdout(), given)
		},
	})
	flags := cmd.Flags()
	c.addHubFlags(flags, "whose records are shown (it, --hub-context or --manifests is required)")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the members (default: as for kubectl)")
	flags.StringSliceVar(&c.contexts, "context", nil, "`contexts` of that file whose clusters are read as well (default: none)")
	flags.StringVar(&c.manifests, "manifests", "", "read the hub's records from the files in this `directory`, or from one file, and no cluster")
	c.addAssumedFlags(flags)
	flags.Uint16Var(&c.port, "port", 0, "`port` of the page at 127.0.0.1 (default: any free port)")
	flags.BoolVar(&c.noOpen, "no-open", false, "only print the address, and open no browser")
	return cmd
}

func (c *consoleCommand) run(ctx context.Context, w io.Writer, flags map[string]string) error {
	o, err := c.assumed()
	if err != nil {
		return err
	}
	page := console.New(console.Options{Preview: o, Flags: flags, Records: func(ctx context.Context, e *preview.Export) ([]string, error) {
		return c.read(ctx, e, nil)
	}})
	run, err := c.sources(page)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(c.port))))
	if err != nil {
		return fmt.Errorf("--port %d: %w", c.port, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	for _, f := range run {
		workers.Go(func() { f(ctx) })
	}
	address := "http://" + l.Addr().String() + "/?token="
	if _, err := fmt.Fprintf(w, "The console is at %s\nCtrl-C ends it.\n", address+page.Token()); err != nil {
		return err
	}
	if !c.noOpen {
		open(ctx, address+page.Once())
	}
	err = page.Serve(ctx, l)
	stop()
	workers.Wait()
	return err
}

// sources sets up what the page reads, and returns what to run.
func (c *consoleCommand) sources(page *console.Server) (run []func(context.Context), err error) {
	if c.manifests != "" {
		if len(c.contexts) > 0 {
			return nil, usagef("--manifests and --context can't be used together")
		}
		_, found, err := c.readState()
		if err == nil {
			page.AddSource(console.Source{Role: console.RoleFiles, Context: c.manifests, State: console.Live, LastAnswer: time.Now()})
			page.SetRecords(found)
		}
		return nil, err
	}
	config, err := c.hub()
	switch {
	case err != nil:
		return nil, err
	case config == nil:
		return nil, usagef("--hub-kubeconfig, --hub-context or --manifests is required: the console shows the hub's records")
	}
	hub, err := live.Hub(config, c.hubContext, hubFlags, page)
	if err != nil {
		return nil, err
	}
	run = append(run, hub.Run)
	for _, name := range c.contexts {
		config, err := c.in(name).local()
		if err != nil {
			return nil, err
		}
		m, err := live.Member(config, name, localFlags, page)
		if err != nil {
			return nil, err
		}
		run = append(run, m.Run)
	}
	return run, nil
}

// open opens an address in the browser. If that fails, the user has the printed address.
func open(ctx context.Context, address string) {
	command := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if command == nil {
		command = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], address)...) //nolint:gosec // our own address
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
