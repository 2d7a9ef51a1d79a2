package express

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/kubernetes"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// clusterOptions are the options of CoreDNS 1.15's plugin kubernetes with which the express path answers for its zones. Any other option
// leaves them to the chain.
var clusterOptions = []string{
	// How the API server is asked.
	"endpoint", "tls", "kubeconfig", "startup_timeout", "apiserver_qps", "apiserver_burst", "apiserver_max_inflight",
	// Their effect is in the store.
	"labels", "namespace_labels", "noendpoints",
	// They change only names that are left to the chain.
	"pods", "zonal",
	// The handler tells them.
	"ttl", "namespaces", "fallthrough",
	// newCluster reads them.
	"endpoint_pod_names", "ignore",
}

const (
	// maxClusterTTL is the TTL above which the SOA in negative replies has another one.
	maxClusterTTL = 300
	// minCacheTTL and maxCacheTTL are what the plugin cache raises and, without a number in the Corefile, cuts the TTLs of all replies to.
	minCacheTTL, maxCacheTTL = 5, 1800
)

// Clusters returns the zones of the plugin kubernetes that the express path can answer for, and why it can't for others. next is the
// handler after clusterset, and ours are the zones of clusterset.
func (b *Block) Clusters(next plugin.Handler, ours []Zone) (zones []Zone, refusal string) {
	options, known := b.Tokens["kubernetes"]
	if !known {
		return nil, ""
	}
	k, ok := next.(*kubernetes.Kubernetes)
	if !ok {
		return nil, "the plugin kubernetes doesn't come directly after clusterset"
	}
	c, refusal := newCluster(k, options)
	if refusal == "" {
		refusal = refuseCache(b.Tokens["cache"], int(c.replies.TTL))
	}
	if refusal != "" {
		return nil, refusal
	}
	for _, name := range k.Zones {
		switch {
		case dns.IsSubDomain("arpa.", name) || name == ".":
		case slices.ContainsFunc(ours, func(z Zone) bool { return dns.IsSubDomain(z.Name, name) }): // clusterset answers, or passes it on
		default:
			through := slices.ContainsFunc(k.Fall.Zones, func(t string) bool { return dns.IsSubDomain(t, name) || dns.IsSubDomain(name, t) })
			zones = append(zones, Zone{Name: name, Origin: name, NameServer: "ns.dns." + name, Mailbox: "hostmaster." + name, NameErrors: through, Cluster: c})
		}
	}
	if refusal = b.refuseZones(zones); refusal != "" {
		return nil, refusal
	}
	return zones, ""
}

// newCluster reads the options of a stanza as kubernetes.ParseStanza does.
func newCluster(k *kubernetes.Kubernetes, options []caddyfile.Token) (c *Cluster, refusal string) {
	c = &Cluster{store: storeOf(k), namespaces: k.Namespaces}
	c.replies = Answers{TTL: k.MinTTL(request.Request{}), Refresh: 7200, Retry: 1800, Expire: 86400}
	if c.replies.TTL > maxClusterTTL {
		return nil, fmt.Sprintf("the ttl of kubernetes is %d, above %d", c.replies.TTL, maxClusterTTL)
	}
	d := caddyfile.NewDispenserTokens("", options)
	for d.Next() {
		d.RemainingArgs()
		for d.NextBlock() {
			switch option := d.Val(); option {
			case "endpoint_pod_names":
				c.podNames = true
			case "ignore": // empty_service is all that it can ignore
				c.ignoreEmpty = c.ignoreEmpty || d.NextArg()
			default:
				if !slices.Contains(clusterOptions, option) {
					return nil, "the express path doesn't know the option " + option + " of kubernetes"
				}
			}
			d.RemainingArgs()
		}
	}
	return c, ""
}

// refuseCache returns why the express path can't answer behind a cache, or "". Only a cache that changes the TTL changes a reply that isn't
// in it yet.
func refuseCache(cache []caddyfile.Token, ttl int) string {
	limit := maxCacheTTL
	d := caddyfile.NewDispenserTokens("", cache)
	for d.Next() {
		if args := d.RemainingArgs(); len(args) > 0 {
			if n, err := strconv.Atoi(args[0]); err == nil {
				limit = n
			}
		}
		for d.NextBlock() {
			option := d.Val()
			switch args := d.RemainingArgs(); option {
			case "success", "denial":
				if len(args) > 1 {
					return "cache sets a TTL of its own for " + option
				}
			case "prefetch", "serve_stale", "serve_stale_policy", "servfail", "disable", "keepttl":
			default:
				return "the express path doesn't know the option " + option + " of cache"
			}
		}
	}
	if len(cache) > 0 && (ttl < minCacheTTL || ttl > limit) {
		return fmt.Sprintf("cache changes the ttl of kubernetes, %d", ttl)
	}
	return ""
}
