package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// namespace is the namespace of all exported services.
const namespace = "bench"

// hub is the hub. Its API server keeps an audit log.
type hub struct {
	*fleet.Hub
	audit auditLog
}

// member is a member cluster. Its API server keeps an audit log, too.
type member struct {
	*fleet.Member
	audit auditLog

	started time.Time     // when its agent started
	others  time.Duration // processor time that all our child processes had used by then
}

func (b *bench) newMember(name string) *member {
	return &member{Member: fleet.NewMember(b.dir, b.bin, fleet.Location{Cluster: name, Zone: name}), audit: b.auditLog(name)}
}

func (b *bench) auditLog(name string) auditLog {
	return auditLog{path: filepath.Join(b.dir, name+"-audit.log")}
}

// describe describes the programs to launch, with or without far. Far's agent only exports, because importing as near's agent does would
// take processor time from what is measured. It holds no withdrawals (--hold-withdrawals 0); otherwise it would hold
// hundreds of withdrawals within seconds as a likely mistake.
func (b *bench) describe(far bool) {
	b.hub = &hub{Hub: fleet.NewHub(b.dir, b.bin), audit: b.auditLog("hub")}
	b.near = b.newMember("near")
	b.members = []*member{b.near}
	if far {
		b.far = b.newMember("far")
		b.far.AgentFlags = []string{"--exclude-namespaces", "*", "--hold-withdrawals", "0"}
		b.members = []*member{b.far, b.near}
	}
}

// launch starts the hub, the members and their processes, and joins the members.
func (b *bench) launch(ctx context.Context) error {
	policy := filepath.Join(b.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	b.say("starting %d control planes (the first time they are compiled, which takes some minutes)", 1+len(b.members))
	group, inGroup := errgroup.WithContext(ctx)
	launch := func(c *fleet.Cluster, audit auditLog, cidr string) {
		group.Go(func() error {
			return c.Launch(inGroup, kube.WithProgress(os.Stderr), kube.WithServiceCIDRs(cidr), kube.WithAPIServerArgs(
				"--audit-policy-file="+policy, "--audit-log-path="+audit.path, "--audit-log-maxsize=100000"))
		})
	}
	launch(&b.hub.Cluster, b.hub.audit, "10.96.0.0/16")
	for _, m := range b.members {
		cidr := "10.97.0.0/16"
		if m == b.far {
			cidr = "10.98.0.0/16"
		}
		launch(&m.Cluster, m.audit, cidr)
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, m := range b.members {
		if err := m.Join(ctx, b.hub.Hub); err != nil {
			return err
		}
		ns := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}")
		if err := m.Plane.ApplyContext(ctx, ns, fleet.Rights("member"), fleet.Rights("dns")); err != nil {
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
		if err := m.restartAgent(ctx); err != nil {
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

// restartAgent kills a member's agent and starts it again.
func (m *member) restartAgent(ctx context.Context) error {
	m.Agent.Kill()
	m.started, m.others = time.Now(), cpuOfAll()
	return m.Agent.Start(ctx)
}

// synced waits until an agent has read everything and compared it once.
func (b *bench) synced(ctx context.Context, m *member) error {
	return b.await(ctx, m.Agent, "it has made its first pass", func() (bool, error) {
		s, err := m.Metrics.Samples(ctx)
		return s.Sum("clusterset_exporter_first_pass_done") == 1 && s.Sum("clusterset_importer_hub_synced") == 1 && idle(s), err
	})
}

// idle reports whether no work is queued or under way.
func idle(m fleet.Samples) bool {
	return m.Sum("workqueue_depth") == 0 && m.Sum("controller_runtime_active_workers") == 0
}
