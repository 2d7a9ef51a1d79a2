package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
)

// Member reads a member. It doesn't watch, because a user doesn't need a member's objects within a second.
type Member struct {
	*source
	pods kubernetes.Interface
}

// NewMember returns a Member for the kubeconfig context of that name. It sends no request yet, so the member may be down.
func NewMember(config *rest.Config, name, flags string, to *console.Server) (*Member, error) {
	c, err := objects.Open(config, "cluster", flags)
	if err != nil {
		return nil, err
	}
	pods, err := objects.PodClient(config, maxMetrics)
	if err != nil {
		return nil, c.Words(err)
	}
	m := &Member{pods: pods}
	m.source = add(to, console.Source{Role: console.RoleMember, Context: name, Server: c.Server, Counted: m.counted})
	// It reads no Secret, and asks for no rights: what the account may not read shows anyway.
	asks := &doctor.Gatherer{Cluster: config, ClusterFlags: flags, Zones: doctor.Zones, ClusterDNS: doctor.ClusterDNS}
	m.cluster, m.controllers, m.asks = c, []string{"clusterset-exporter", "clusterset-importer"}, asks.Ask
	return m, nil
}

// Run reads the member periodically until the context is done.
func (m *Member) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		local, err := view.FetchLocal(ctx, m.cluster)
		if ctx.Err() != nil {
			return
		}
		m.set(console.Live, err, func(s *console.Source) {
			if err == nil {
				s.Read(local)
			}
		})
		m.more(ctx)
	}, look)
}

const (
	answersMetric = "coredns_clusterset_answers_total"
	// metricsPatience is for all metrics of a member's DNS servers, maxServers is how many servers are read, and maxMetrics how much of one.
	metricsPatience = 5 * time.Second
	maxServers      = 20
	maxMetrics      = 4 << 20
	// maxTiers is how many tiers a server may have, a few more than there are, and maxAnswers how many answers: all numbers up to it are exact.
	maxTiers   = 16
	maxAnswers = 1 << 53
)

// counted reads the metrics of the member's DNS servers through its API server.
func (m *Member) counted(ctx context.Context) (*console.Counted, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsPatience)
	defer cancel()
	pods, err := view.Pods(ctx, m.cluster)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(p view.Pod) bool { return p.Part != view.PartDNS || p.MetricsPort == 0 })
	counted := &console.Counted{At: time.Now(), Answers: map[string]map[string]float64{}}
	if more := len(pods) - maxServers; more > 0 {
		pods, counted.Unread = pods[:maxServers], []string{fmt.Sprintf("%d servers: the console reads %d of a cluster", more, maxServers)}
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(4)
	for _, p := range pods {
		group.Go(func() error {
			answers, err := m.answers(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				counted.Unread = append(counted.Unread, m.unread(p, err))
			} else {
				counted.Answers[p.Namespace+"/"+p.Name] = answers
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	slices.Sort(counted.Unread)
	return counted, nil
}

// answers returns the positive answers of a DNS server by tier.
func (m *Member) answers(ctx context.Context, p view.Pod) (map[string]float64, error) {
	metrics, err := m.pods.CoreV1().Pods(p.Namespace).ProxyGet("http", p.Name, strconv.Itoa(int(p.MetricsPort)), "metrics", nil).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer metrics.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return nil, fmt.Errorf("read its metrics: %w", err)
	}
	answers := map[string]float64{}
	for _, metric := range families[answersMetric].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() != "tier" {
				continue
			}
			tier := label.GetValue()
			answers[tier] += metric.GetCounter().GetValue()
			if n := answers[tier]; len(answers) > maxTiers || api.CheckLabel(tier) != nil || math.IsNaN(n) || n < 0 || n > maxAnswers {
				return nil, fmt.Errorf("its %s can't be a DNS server's: tier %.63q, %v", answersMetric, tier, n)
			}
		}
	}
	return answers, nil
}

// unread says why a server couldn't be read, in not too many words: it may have chosen them.
func (m *Member) unread(p view.Pod, err error) string {
	if errors.As(err, new(*http.MaxBytesError)) {
		err = fmt.Errorf("it answers with more than %d MiB", maxMetrics>>20)
	}
	return fmt.Sprintf("%s/%s: %.500s", p.Namespace, p.Name, m.cluster.Words(err))
}
