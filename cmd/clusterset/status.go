package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/internal/cli/objects"
	"github.com/clusterset/clusterset/internal/status"
)

// statusCommand is `clusterset status`.
type statusCommand struct {
	clusters
	output
	watch    bool
	interval time.Duration
}

func newStatus() *cobra.Command {
	var s statusCommand
	cmd := configured(&cobra.Command{
		Use:   "status",
		Short: "Show the clusters, the hub, and the services that need attention",
		Long: `Shows on one screen the clusters of the set with their phase, location, last heartbeat and number of exports, the hub, and
the services that clusters disagree about, that don't work, or that currently lead only to silent or drained clusters.

It reads the local cluster, which has a copy of each cluster's location and phase. With --hub-kubeconfig it also reads the
hub: whether it answers, the current heartbeats, and the conflicts of all services instead of only this cluster's exports.
Without a local cluster it reads only the hub.

If the hub is given and doesn't answer, that is shown, and the exit code is 1.` + exitHelp,
		Example: `  clusterset status
  clusterset status --context beijing --hub-context hub --watch
  clusterset status -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	})
	flags := cmd.Flags()
	s.clusters.addFlags(flags)
	s.addFlag(cmd, "table", "wide", "json", "yaml")
	flags.BoolVarP(&s.watch, "watch", "w", false, "refresh until interrupted")
	flags.DurationVar(&s.interval, "interval", 2*time.Second, "how long to wait between refreshes with --watch")
	return cmd
}

func (s *statusCommand) run(ctx context.Context, w io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	if s.watch && s.interval < 100*time.Millisecond {
		return usagef("--interval is %s; it must be at least 100ms", s.interval)
	}
	look, err := s.prepare()
	if err != nil {
		return err
	}
	if !s.watch {
		return s.show(ctx, w, look)
	}
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		var text strings.Builder
		// Watching is for clusters that may stop answering: show the error and continue.
		if err := s.show(ctx, &text, look); err != nil && ctx.Err() == nil {
			fmt.Fprintf(&text, "clusterset: %v\n", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if isTerminal(w) {
			_, err = io.WriteString(w, "\x1b[H\x1b[2J"+text.String())
		} else {
			_, err = io.WriteString(w, text.String())
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// prepare returns a function that reads the configured clusters.
func (s *statusCommand) prepare() (func(context.Context) (status.Facts, error), error) {
	hubConfig, err := s.hub()
	if err != nil {
		return nil, err
	}
	var local, hub *objects.Cluster
	var notes []string
	config, err := s.local()
	switch {
	case err == nil:
		if local, err = objects.Open(config, "cluster", localFlags); err != nil {
			return nil, err
		}
	case hubConfig == nil || s.hasLocal():
		return nil, err
	default:
		notes = append(notes, "only the hub is read: "+err.Error())
	}
	if hubConfig != nil {
		if hub, err = objects.Open(hubConfig, "hub", hubFlags); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) (status.Facts, error) {
		f := status.Facts{Now: time.Now(), Notes: notes}
		if local != nil {
			var err error
			if f.Local, err = status.FetchLocal(ctx, local); err != nil {
				return f, err
			}
		}
		if hub != nil {
			f.Hub = status.FetchHub(ctx, hub)
		}
		return f, nil
	}, nil
}

func (s *statusCommand) show(ctx context.Context, w io.Writer, look func(context.Context) (status.Facts, error)) error {
	facts, err := look(ctx)
	if err != nil {
		return err
	}
	report := status.Build(facts)
	err = s.write(w, report, func() string {
		return status.Screen{Wide: s.wide(), Colours: colours(w)}.Render(report)
	})
	if facts.Hub != nil {
		err = errors.Join(err, facts.Hub.Err)
	}
	return err
}
