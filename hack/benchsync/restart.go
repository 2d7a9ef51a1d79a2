package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
)

// restarts fills the hub and measures how long near's agent takes for its first import, for a restart when nothing has changed, and for a
// restart when every slice has changed. Then it measures the latency of changes again, with all those services imported.
func (b *bench) restarts(ctx context.Context) error {
	b.near.Agent.Kill()
	if err := b.fill(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("%d slices of %d services", b.slices, b.services)
	b.say("importing them for the first time")
	if err := b.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := b.imported(ctx, 1, what+" → imported, first time"); err != nil {
		return err
	}
	if err := b.countWatches(ctx, b.clusters); err != nil {
		return err
	}
	if err := b.unchanged(ctx, what); err != nil {
		return err
	}

	b.near.Agent.Kill()
	if err := b.changeAll(ctx); err != nil {
		return err
	}
	b.say("importing them after a restart")
	if err := b.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := b.imported(ctx, 2, what+" → imported, all changed during a restart"); err != nil {
		return err
	}
	return b.latency(ctx, "among", ", with those")
}

// imported waits until near has imported every slice in the given version, and adds a row with the time since its agent started.
func (b *bench) imported(ctx context.Context, version int, what string) error {
	if err := b.importedAll(ctx, b.services, what); err != nil {
		return err
	}
	return b.checkAddresses(ctx, func(yield func(string) bool) {
		for i := range b.slices {
			for _, e := range b.exportedEndpoints(i, version).Spec.Endpoints {
				if !yield(e.Addresses[0]) {
					return
				}
			}
		}
	})
}

// importedAll waits until near has imported that many services and is idle, and adds a row with the time since its agent started.
func (b *bench) importedAll(ctx context.Context, services int, what string) error {
	err := b.await(ctx, b.near.Agent, "everything is imported", func() (bool, error) {
		m, err := b.near.Metrics.Samples(ctx)
		return m.Sum("clusterset_importer_services", "state", "imported") >= float64(services) && idle(m), err
	})
	took, cpu, all := time.Since(b.near.started), cpuOf(b.near.Agent.PID()), cpuOfAll()-b.near.others
	if err != nil {
		return err
	}
	m, err := b.near.Metrics.Samples(ctx)
	if err != nil {
		return err
	}
	b.row(what, "", "", "", fmt.Sprintf("%s, %.0f writes; processor time %s, the agent's %s; load average %s",
		round(took), m.Sum("clusterset_importer_writes_total"), round(all), round(cpu), loadAverage()))
	return nil
}

// checkAddresses makes sure that the measured work was done: near has imported EndpointSlices with each of the addresses.
func (b *bench) checkAddresses(ctx context.Context, want iter.Seq[string]) error {
	var list discoveryv1.EndpointSliceList
	if err := b.near.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{api.LabelManagedBy: api.ManagedByImporter}); err != nil {
		return err
	}
	have := map[string]bool{}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			have[e.Addresses[0]] = true
		}
	}
	for address := range want {
		if !have[address] {
			return fmt.Errorf("address %s was not imported", address)
		}
	}
	return nil
}

// unchanged restarts near's agent when nothing has changed, lets it send some heartbeats, and counts its writes. The hub process is stopped
// meanwhile, so that no phase changes: every importer writes a change of phase.
func (b *bench) unchanged(ctx context.Context, what string) error {
	b.say("restarting with nothing changed")
	b.hub.Process.Kill()
	if err := b.synced(ctx, b.near); err != nil {
		return err
	}
	b.near.Agent.Kill()
	hub, here := b.hub.audit.size(), b.near.audit.size()
	if err := b.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := b.imported(ctx, 1, what+" → compared after a restart, nothing changed"); err != nil {
		return err
	}
	err := b.await(ctx, b.near.Agent, "it has sent heartbeats", func() (bool, error) {
		m, err := b.near.Metrics.Samples(ctx)
		return m.Sum("clusterset_exporter_heartbeats_total", "result", "ok") >= 5 && idle(m), err
	})
	if err != nil {
		return err
	}
	there, heartbeats, whatThere, err := b.hub.audit.writes(hub, agentOnHub(b.near.Name))
	if err != nil {
		return err
	}
	local, _, whatLocal, err := b.near.audit.writes(here, agentHere)
	if err != nil {
		return err
	}
	b.row("writes of that restart on the hub", "", "", "", strings.TrimRight(fmt.Sprintf("%d, and %d heartbeats %s", there, heartbeats, whatThere), " "))
	b.row("writes of that restart in the member", "", "", "", strings.TrimRight(fmt.Sprintf("%d %s", local, whatLocal), " "))
	return b.hub.Process.Start(ctx)
}
