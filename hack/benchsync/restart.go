package main

import (
	"context"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/hack/proc"
	"github.com/clusterset/clusterset/test/fleet"
)

// restarts fills the hub and measures how long near's agent takes for its first import, and for a restart when nothing has changed.
func (b *bench) restarts(ctx context.Context) error {
	b.near.Agent.Kill()
	w, err := b.filledHub(ctx)
	if err != nil {
		return err
	}
	if err := b.imports(ctx, w, w.String()+" → imported, first time"); err != nil {
		return err
	}
	return b.unchanged(ctx, w)
}

// imports starts near's agent, waits until it has imported everything and is idle, and adds a row with the time since it started.
func (b *bench) imports(ctx context.Context, w *world, what string) error {
	b.say("importing %d slices", len(w.slices))
	began, others := time.Now(), cpuOfAll()
	if err := b.near.Agent.Start(ctx); err != nil {
		return err
	}
	writes := 0.0
	if err := b.awaitMetrics(ctx, b.near, "everything is imported", func(s fleet.Samples) bool {
		writes = s.Sum("clusterset_importer_writes_total")
		return s.Sum("clusterset_importer_services", "state", "imported") >= float64(len(w.services))
	}); err != nil {
		return err
	}
	b.result(what, "%s, %.0f writes; processor time %s, the agent's %s; load average %s", round(time.Since(began)), writes,
		round(cpuOfAll()-others), round(proc.CPU(b.near.Agent.PID())), loadAverage())
	return b.checkAddresses(ctx, w)
}

// checkAddresses waits until near has imported every address: that the measured work was done.
func (b *bench) checkAddresses(ctx context.Context, w *world) error {
	return b.await(ctx, b.near.Agent, "every address is imported", func() (bool, error) {
		var list discoveryv1.EndpointSliceList
		if err := b.near.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{api.LabelManagedBy: api.ManagedByImporter}); err != nil {
			return false, err
		}
		have := map[string]bool{}
		for i := range list.Items {
			for _, e := range list.Items[i].Endpoints {
				have[e.Addresses[0]] = true
			}
		}
		for _, e := range w.slices {
			for _, address := range e.addresses {
				if !have[address] {
					return false, fmt.Errorf("address %s of %s was not imported", address, e.service)
				}
			}
		}
		return true, nil
	})
}

// unchanged restarts near's agent when nothing has changed, lets it send some heartbeats, and counts its writes. The hub process is stopped
// meanwhile, so that no phase changes: every importer writes a change of phase.
func (b *bench) unchanged(ctx context.Context, w *world) error {
	b.say("restarting with nothing changed")
	b.hub.Process.Kill()
	if err := b.synced(ctx, b.near); err != nil {
		return err
	}
	b.near.Agent.Kill()
	onHub, here := b.audit(b.hub.Name), b.audit(b.near.Name)
	fromHub, fromHere := onHub.size(), here.size()
	if err := b.imports(ctx, w, "→ compared after a restart, nothing changed"); err != nil {
		return err
	}
	if err := b.awaitMetrics(ctx, b.near, "it has sent heartbeats", func(s fleet.Samples) bool {
		return s.Sum("clusterset_exporter_heartbeats_total", "result", "ok") >= 5
	}); err != nil {
		return err
	}
	there, err := onHub.writes(fromHub, agentOnHub(b.near.Name))
	if err != nil {
		return err
	}
	local, err := here.writes(fromHere, agentHere)
	if err != nil {
		return err
	}
	b.result("writes of that restart", "on the hub %s, in the member %s", there, local)
	return b.hub.Process.Start(ctx)
}
