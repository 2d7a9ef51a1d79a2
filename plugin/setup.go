package clusterset

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
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
	registerStop()
	cs := &ClusterSet{
		Fall:       o.fall,
		zones:      o.zones,
		ttl:        o.ttl,
		maxAnswers: o.maxAnswers,
		index: index.New(index.Options{
			Self: o.location, Policy: o.policy, Namespaces: o.namespaces, LongestZone: o.zones.longest(), Serials: &serials,
		}),
		source: s,
		tiers:  newTierCounters(),
	}
	s.indexes = append(s.indexes, cs.index)
	if o.snapshot.path != "" {
		s.keeper.indexes = append(s.keeper.indexes, cs.index)
	}
	config := dnsserver.GetConfig(c)
	if f, ok := s.feed.(*kubernetesFeed); ok {
		f.self = append(f.self, selfGlue{&cs.self, config.Port, cs.index})
	}
	s.notify = append(s.notify, &notifier{config, cs.zones, cs.index})
	c.OnStartup(func() error {
		cs.zones.nest(otherZones(c))
		if !cs.Fall.Through(".") && slices.ContainsFunc(cs.zones, func(z *zone) bool { return z.name == "." }) {
			log.Warning("zone .: clusterset answers every name, with NXDOMAIN unless it is one of its own. Name other zones, such as clusterset clusterset.local svc.global, or set fallthrough")
		}
		if cs.Next == nil && slices.ContainsFunc(cs.zones, func(z *zone) bool { return z.name == public }) {
			log.Warning("zone global: this is a public top-level domain, and clusterset only answers svc.global in it. No later plugin resolves the other names, so they get NXDOMAIN. Serve svc.global instead")
		}
		cs.self.storeFirst(boundAddrs(config.ListenHosts))
		s.start()
		return nil
	})
	cs.setupExpress(c, o.express)
	c.OnRestartFailed(closeAbandoned)
	var waits sync.Once
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		// CoreDNS builds the chains, one per socket, after it has set up all plugins, so this OnStartup runs after those of
		// all other plugins. Some of them wait as well, such as kubernetes for the same API server, and our timeout runs
		// meanwhile.
		waits.Do(func() {
			c.OnStartup(func() error {
				cs.await(o.startupTimeout)
				return nil
			})
		})
		cs.Next = next
		return cs
	})
	return nil
}

// await waits for the source's first sync, so that a restarted server can usually answer its first query. The timeout counts
// from the source's start, so that server blocks wait together. A server that answers from a snapshot file doesn't wait,
// except in a reload: there the old server still has better answers. When they end, its objects are better than none.
func (c *ClusterSet) await(timeout time.Duration) {
	if c.index.Snapshot() != nil && !c.source.corefile.replacesOneThatAnswers() {
		return
	}
	t := time.NewTimer(time.Until(c.source.startedAt.Add(timeout)))
	defer t.Stop()
	select {
	case <-c.source.synced:
	case <-t.C:
		c.source.inherit(c.index) // only now: it costs as much as a sync
		answers := "SERVFAIL for every name"
		if c.index.Snapshot() != nil {
			answers = "answers from the last known state"
		}
		log.Warningf("%s: not synced after %v: starting anyway, with %s until it is", c.source.label, timeout, answers)
	}
}

// newFeed returns the feed that a stanza asks for.
func newFeed(o *options) (feed, error) {
	if o.manifests != "" {
		return &manifestsFeed{dir: o.manifests}, nil
	}
	config := rest.CopyConfig(o.config)
	config.UserAgent, config.DisableCompression = "clusterset-dns/"+buildVersion(), true // the API server is near, and would compress each event of a watch
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
