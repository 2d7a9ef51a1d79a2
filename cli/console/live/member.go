package live

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
)

// look is the time between two reads of a member.
const look = 15 * time.Second

// Members are the members for which kubeconfig contexts were given.
type Members []*Member

// Member reads a member. It doesn't watch, because a user doesn't need a member's objects within a second.
type Member struct {
	context string
	cluster *objects.Cluster
	pods    kubernetes.Interface
	source  source
	asks    *doctor.Gatherer
}

// NewMember returns a Member for the kubeconfig context of that name. It sends no request yet, so the member may be down.
func NewMember(config *rest.Config, name, flags string, all *Sources) (*Member, error) {
	c, err := objects.Open(config, "cluster", flags)
	if err != nil {
		return nil, err
	}
	pods, err := objects.PodClient(config, maxMetrics)
	if err != nil {
		return nil, c.Words(err)
	}
	// It reads no Secret, and asks for no rights: what the account may not read shows anyway.
	asks := &doctor.Gatherer{Cluster: config, ClusterFlags: flags, Zones: doctor.Zones, ClusterDNS: doctor.ClusterDNS, NodeLocalDNS: doctor.NodeLocalDNS}
	return &Member{name, c, pods, all.add(console.Source{Role: console.RoleMember, Context: name, Server: c.Server}), asks}, nil
}

// Run reads the member periodically until the context is done.
func (m *Member) Run(ctx context.Context) {
	var asks sync.WaitGroup
	defer asks.Wait()
	asks.Go(func() { m.source.checkUps(ctx, m.asks.Ask) })
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		local, err := view.FetchLocal(ctx, m.cluster)
		if ctx.Err() != nil {
			return
		}
		m.source.set(console.Live, err, func(s *console.Source) {
			if err != nil {
				return
			}
			report := view.Build(view.Facts{Now: time.Now(), Local: local})
			report.Time, report.Clusters, report.Problems = time.Time{}, nil, nil // the console has its own, with what the hub knows
			s.Cluster, s.Local, s.Report = local.Cluster, local, &report
			s.Services = &console.MemberCounts{
				Imported: *report.Services.Imported, Exported: *report.Services.Exported, Conflicts: len(report.Services.Conflicts),
				LastResort: len(report.Services.LastResort), Problems: len(report.Services.Problems),
			}
		})
		m.source.tell(ctx, m.cluster, ofMember)
	}, look)
}

// Of returns the context of a cluster, or "" if none is known.
func (m *Members) Of(cluster string) string {
	for _, member := range *m {
		if member.source.get().Cluster == cluster {
			return member.context
		}
	}
	return ""
}
