package clusterset

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/internal/index"
)

func init() { plugin.Register(pluginName, setup) }

func setup(c *caddy.Controller) error {
	o, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	s, err := sourcesOf(c).get(o)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	hearStop()
	cs := &ClusterSet{
		Fall:       o.fall,
		zones:      o.zones,
		ttl:        o.ttl,
		maxAnswers: o.maxAnswers,
		index: index.New(index.Options{
			Self: o.location, Policy: o.policy, Namespaces: o.namespaces, LongestZone: o.zones.longest(),
		}),
		source: s,
		tiers:  newTierCounters(),
	}
	s.indexes = append(s.indexes, cs.index)
	if o.snapshot.path != "" {
		s.keeper.indexes = append(s.keeper.indexes, keptIndex{cs.index, o.namespaces})
	}
	config := dnsserver.GetConfig(c)
	if f, ok := s.feed.(*kubernetesFeed); ok {
		f.self = append(f.self, selfGlue{&cs.self, config.Port})
	}
	s.notify = append(s.notify, &notifier{config, cs.zones, cs.index})
	c.OnStartup(func() error {
		cs.zones.nest(otherZones(c))
		if cs.Next == nil && slices.ContainsFunc(cs.zones, func(z *zone) bool { return z.name == public }) {
			log.Warning("zone global: a public top-level domain, of which clusterset knows svc.global only. No plugin after it resolves the other names, so they get NXDOMAIN. Serve svc.global instead")
		}
		cs.self.storeFirst(boundAddrs(config.ListenHosts))
		s.start()
		s.await(o.startupTimeout)
		return nil
	})
	c.OnRestartFailed(closeAbandoned)
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		cs.Next = next
		return cs
	})
	return nil
}

// await gives the source time for its first sync, so that a restarted server mostly answers its first query.
func (s *source) await(timeout time.Duration) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-s.synced:
	case <-t.C:
		answers := "SERVFAIL for every name"
		if s.keeper != nil {
			answers = s.keeper.answers(answers)
		}
		log.Warningf("%s: not synced after %v: starting, with %s until it is", s.label, timeout, answers)
	}
}

// newFeed makes the feed that a stanza asks for.
func newFeed(o *options) (feed, error) {
	if o.manifests != "" {
		return &manifestsFeed{dir: o.manifests}, nil
	}
	config := rest.CopyConfig(o.config)
	config.UserAgent = "clusterset-dns/" + buildVersion()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	return &kubernetesFeed{config: config, client: client}, nil
}

// buildVersion returns the version of the module that this binary was built from.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
