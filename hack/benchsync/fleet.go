package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// namespace is the namespace of all exported services.
const namespace = "bench"

// limit is how long anything may take: what takes longer is given up.
const limit = 15 * time.Minute

// describe describes the programs to launch, with or without far. Far's agent only exports, because importing as near's agent does would
// take processor time from what is measured. It holds no withdrawals: it would hold hundreds of them within seconds as a likely mistake.
func (b *bench) describe(far bool) {
	b.hub = fleet.NewHub(b.dir, b.bin)
	member := func(name string) *fleet.Member {
		m := fleet.NewMember(b.dir, b.bin, fleet.Location{Cluster: name, Zone: name})
		b.members = append(b.members, m)
		return m
	}
	if far {
		b.far = member("far")
		b.far.AgentFlags = []string{"--exclude-namespaces", "*", "--hold-withdrawals", "0"}
	}
	b.near = member("near")
}

// launch starts the hub, the members and their processes, and joins the members. Their API servers keep audit logs.
func (b *bench) launch(ctx context.Context) error {
	policy := filepath.Join(b.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	b.say("starting %d control planes (the first time they are compiled, which takes some minutes)", 1+len(b.members))
	group, inGroup := errgroup.WithContext(ctx)
	launch := func(c *fleet.Cluster, cidr string) {
		group.Go(func() error {
			return c.Launch(inGroup, kube.WithProgress(os.Stderr), kube.WithServiceCIDRs(cidr),
				kube.WithEnv(fmt.Sprintf("GOMAXPROCS=%d", runtime.NumCPU())), // as where nobody sets it
				kube.WithAPIServerArgs("--audit-policy-file="+policy, "--audit-log-path="+string(b.audit(c.Name)), "--audit-log-maxsize=100000"))
		})
	}
	launch(&b.hub.Cluster, "10.96.0.0/16")
	for _, m := range b.members {
		cidr := vips + "0.0/16"
		if m == b.far {
			cidr = "10.98.0.0/16"
		}
		launch(&m.Cluster, cidr)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, m := range b.members {
		if err := m.Join(ctx, b.hub); err != nil {
			return err
		}
		exported := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
		if err := m.Plane.ApplyContext(ctx, exported, fleet.Rights("member"), fleet.Rights("dns")); err != nil {
			return err
		}
	}
	if err := b.hub.Plane.ApplyContext(ctx, fleet.Rights("hub")); err != nil {
		return err
	}
	if err := b.hub.Process.Start(ctx); err != nil {
		return err
	}
	for _, m := range b.members {
		if err := m.Agent.Start(ctx); err != nil {
			return err
		}
		if err := b.synced(ctx, m); err != nil {
			return err
		}
	}
	return b.near.DNS.Start(ctx)
}

func (b *bench) stop() {
	for _, m := range b.members {
		m.DNS.Kill()
		m.Agent.Kill()
		m.Stop()
	}
	b.hub.Process.Kill()
	b.hub.Stop()
}

// synced waits until an agent has read everything and compared it once.
func (b *bench) synced(ctx context.Context, m *fleet.Member) error {
	return b.awaitMetrics(ctx, m, "it has made its first pass", func(s fleet.Samples) bool {
		return s.Sum("clusterset_exporter_first_pass_done") == 1 && s.Sum("clusterset_importer_hub_synced") == 1
	})
}

// settled waits until near's agent has nothing left to do.
func (b *bench) settled(ctx context.Context) error {
	return b.awaitMetrics(ctx, b.near, "it has nothing left to do", func(fleet.Samples) bool { return true })
}

// awaitMetrics waits until an agent's metrics are as wanted, and no work is queued or under way.
func (b *bench) awaitMetrics(ctx context.Context, m *fleet.Member, what string, ok func(fleet.Samples) bool) error {
	return b.await(ctx, m.Agent, what, func() (bool, error) {
		s, err := m.Metrics.Samples(ctx)
		return err == nil && ok(s) && s.Sum("workqueue_depth") == 0 && s.Sum("controller_runtime_active_workers") == 0, err
	})
}

// await polls until ok returns true. It gives up after the limit, or when the program ends. It polls four times a second at first, later at each
// hundredth of the time that it has waited: a program pays for each request for its metrics.
func (b *bench) await(ctx context.Context, p *fleet.Program, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	for {
		done, last := ok()
		if done {
			return nil
		}
		if !p.Running() {
			return fmt.Errorf("%s ended while we waited until %s\n%s", p.Name, what, process.LogSince(p.Log, 0, 10))
		}
		if err := pause(ctx, max(250*time.Millisecond, time.Since(began)/100)); err != nil {
			return fmt.Errorf("gave up waiting until %s: %w (last: %v)\n%s", what, err, last, process.LogSince(p.Log, 0, 10)) //nolint:errorlint // it may be nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
