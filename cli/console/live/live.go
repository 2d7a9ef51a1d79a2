// Package live keeps a console up to date: it reads the hub and the members every few seconds, and asks each what `clusterset doctor` asks.
package live

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
)

const (
	// hubEvery and memberEvery are the times between two reads. All records of a large set are many megabytes, so after a read that took long it
	// waits ten times as long: reading takes a tenth of the time at most.
	hubEvery, memberEvery, pause = 3 * time.Second, 15 * time.Second, 10
	// checkUpEvery is the time between two check-ups of a source, and checkUpPatience bounds one.
	checkUpEvery, checkUpPatience = 5 * time.Minute, 30 * time.Second
)

// Source is an API server that is read.
type Source struct {
	change func(func(*console.Source))
	every  time.Duration
	read   func(context.Context) error
	asks   func(context.Context) *doctor.Facts
	asked  time.Time // when it was checked
}

// Hub adds the hub of the kubeconfig context of that name to a console. It sends no request yet, so the hub may be down.
func Hub(config *rest.Config, name, flags string, to *console.Server) (*Source, error) {
	c, err := objects.Open(config, "hub", flags)
	if err != nil {
		return nil, err
	}
	s := &Source{change: to.AddSource(console.Source{Role: console.RoleHub, Context: name, Server: c.Server, State: console.Loading}), every: hubEvery}
	s.asks = (&doctor.Gatherer{Hub: config, HubFlags: flags}).Ask
	s.read = func(ctx context.Context) error {
		if _, err := c.HubMembers(ctx); err != nil {
			return err
		}
		hub := view.FetchHub(ctx, c)
		if hub.Err == nil {
			hub.Read = time.Now()
			to.SetHub(hub)
		}
		return hub.Err
	}
	return s, nil
}

// Member adds the member of the kubeconfig context of that name, which may be down too.
func Member(config *rest.Config, name, flags string, to *console.Server) (*Source, error) {
	c, err := objects.Open(config, "cluster", flags)
	if err != nil {
		return nil, err
	}
	s := &Source{change: to.AddSource(console.Source{Role: console.RoleMember, Context: name, Server: c.Server, State: console.Loading}), every: memberEvery}
	// It reads no Secret, and asks for no rights: what the account may not read shows anyway.
	g := &doctor.Gatherer{Cluster: config, ClusterFlags: flags, Zones: doctor.Zones}
	var pods []view.Pod
	s.asks = func(ctx context.Context) *doctor.Facts {
		facts := g.Ask(ctx)
		traffic := view.FetchTraffic(ctx, c, pods)
		s.change(func(is *console.Source) { is.Traffic = traffic })
		return facts
	}
	s.read = func(ctx context.Context) error {
		local, err := view.FetchLocal(ctx, c)
		if err != nil {
			return err
		}
		pods = local.Pods
		services := view.Build(view.Facts{Now: time.Now(), Local: local}).Services
		s.change(func(is *console.Source) {
			is.Cluster, is.Local, is.Imported, is.Exported = local.Cluster, local, services.Imported, services.Exported
		})
		return nil
	}
	return s, nil
}

// Run reads a source until the context is done.
func (s *Source) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(s.look(ctx)):
		case <-ctx.Done():
		}
	}
}

// look reads it once, and returns how long to wait for the next time.
func (s *Source) look(ctx context.Context) time.Duration {
	began := time.Now()
	err := s.read(ctx)
	took := time.Since(began)
	s.change(func(is *console.Source) {
		switch {
		case err == nil:
			is.State, is.Error, is.LastAnswer = console.Live, "", time.Now()
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			is.State, is.Error = console.Refused, err.Error()
		default:
			is.State, is.Error = console.Away, err.Error()
		}
	})
	if err != nil {
		return s.every
	}
	if time.Since(s.asked) >= checkUpEvery {
		s.checkUp(ctx)
	}
	return max(s.every, pause*took)
}

// checkUp asks what only the doctor wants to know. If the source doesn't answer, what it said before is kept.
func (s *Source) checkUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkUpPatience)
	defer cancel()
	facts := s.asks(ctx)
	for _, server := range []*doctor.Server{facts.Cluster, facts.Hub} {
		if server != nil && server.Err != nil {
			return
		}
	}
	s.asked = time.Now()
	s.change(func(is *console.Source) { is.Asked = facts })
}
