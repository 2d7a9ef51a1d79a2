package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// statusCommand is `clusterset status`.
type statusCommand struct {
	clusters
	output
	waiting
}

func newStatus() *cobra.Command {
	var s statusCommand
	cmd := configured(&cobra.Command{
		Use:   "status",
		Short: "Show the clusters, the hub, and the services that need attention",
		Long: `Shows on one screen the clusters of the set with their phase, location, last heartbeat and number of exports, the hub, and
the services that clusters disagree about, that don't work, or that currently lead only to silent, drained or unreachable clusters.

It reads the local cluster, which has a copy of each cluster's location and phase. With --hub-kubeconfig it also reads the
hub: whether it answers, the current heartbeats, and the conflicts of all services instead of only this cluster's exports.
Without a local cluster, or if the current context isn't a member or is down, it reads only the hub. -o wide also reads the metrics of the
local cluster's DNS servers: what share of their answers left the zone and the region.

The exit code is 1 if there is a problem: a cluster that is silent or has never been heard; this one, if it has left; a service that isn't exported or
imported as it should be, or whose name has no address because only Expired clusters have endpoints of it; a cluster that doesn't follow the hub;
a namespace that is missing here or, by its last report, in another cluster that would import from it; or the hub, if it is given, doesn't answer. Conflicts and services at their last resort are shown, and are no problems:
their names are answered. clusterset doctor checks more.` + exitHelp,
		Example: `  clusterset status
  clusterset status --context beijing --hub-context hub
  clusterset status --hub-context hub --wait --timeout 2m
  clusterset status -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	})
	flags := cmd.Flags()
	s.clusters.addFlags(flags)
	s.addFlag(cmd, "table", "wide", "json", "yaml")
	s.waiting.addFlags(flags, "there is no problem, then show the status once")
	return cmd
}

func (s *statusCommand) run(ctx context.Context, w io.Writer) error {
	hub, err := s.openHub()
	if err != nil {
		return err
	}
	local, unknown := s.openLocal()
	if unknown != nil && (hub == nil || s.hasLocal()) {
		return unknown
	}
	look := func(ctx context.Context) (view.Facts, error) { return s.look(ctx, local, hub, unknown) }
	if s.wait {
		return s.showWhenGood(ctx, w, look)
	}
	return s.show(ctx, w, look)
}

// look reads the clusters, or the hub alone if the local one is unknown or can't be read. That is an error only if the local one was chosen.
func (s *statusCommand) look(ctx context.Context, local, hub *objects.Cluster, unknown error) (view.Facts, error) {
	why := unknown
	if why == nil {
		f, err := view.Fetch(ctx, local, hub)
		if err == nil && s.wide() {
			f.Traffic = view.FetchTraffic(ctx, local, f.Local.Pods)
		}
		if err == nil || hub == nil || ctx.Err() != nil {
			return f, err
		}
		why = err
	}
	alone, _ := view.Fetch(ctx, nil, hub) // that the hub can't be read is one of the facts
	alone.Notes = []string{"only the hub is read: " + why.Error()}
	if s.hasLocal() {
		return alone, why
	}
	return alone, nil
}

// showWhenGood shows the status when there is no problem any more, or the last one when the time is over.
func (s *statusCommand) showWhenGood(ctx context.Context, w io.Writer, look func(context.Context) (view.Facts, error)) error {
	var last string
	late := s.until(ctx, func(ctx context.Context) (string, error) {
		var text strings.Builder
		err := s.show(ctx, &text, look)
		if text.Len() > 0 && ctx.Err() == nil {
			last = text.String()
		}
		if err != nil && text.Len() > 0 { // the hub may answer in time
			return err.Error(), nil
		}
		return "", err
	})
	if _, err := io.WriteString(w, last); err != nil {
		return err
	}
	return late
}

func (s *statusCommand) show(ctx context.Context, w io.Writer, look func(context.Context) (view.Facts, error)) error {
	facts, failed := look(ctx)
	if failed != nil && facts.Hub == nil {
		return failed
	}
	report := view.Build(facts)
	for i := range report.Problems {
		report.Problems[i].Cure = s.filled(report.Problems[i].Cure)
	}
	err := s.write(w, report, func() string {
		return view.Screen{Wide: s.wide(), Colours: colours(w)}.Render(report)
	})
	switch n := len(report.All()); {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case facts.Hub != nil && facts.Hub.Err != nil:
		return facts.Hub.Err
	case n > 0:
		return errors.New(screen.Counted(n, "problem") + ", shown above")
	}
	return nil
}
