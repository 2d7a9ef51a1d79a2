package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes" // the in-tree plugin to compare with
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	_ "github.com/clusterset/clusterset/plugin" // the plugin under test
)

// query is one kind of query. It is sent for many names in turn, so that no single service stays in a cache.
type query struct {
	name  string
	qtype uint16
	qname func(i int) string
}

func (b *bench) queries() []query {
	return []query{
		{"ClusterSetIP A", dns.TypeA, b.objects.service},
		{"headless 10 A", dns.TypeA, b.objects.headlessName},
		{"headless 100 A", dns.TypeA, func(int) string { return "hl100.ns-0.svc.clusterset.local." }},
		{"SRV", dns.TypeSRV, func(i int) string { return "_http._tcp." + b.objects.service(i) }},
		{"NXDOMAIN", dns.TypeA, func(i int) string { return fmt.Sprintf("nope-%d.ns-0.svc.clusterset.local.", i) }},
		{"NODATA", dns.TypeAAAA, b.objects.service},
	}
}

// captured holds the handlers that the capture plugin found in the running servers.
var captured = map[string]plugin.Handler{}

// The capture plugin collects the handlers of a running server. They are set up as in production, by their own setup functions from a
// Corefile.
func init() {
	dnsserver.Directives = append([]string{"capture", "clusterset"}, dnsserver.Directives...)
	plugin.Register("capture", func(c *caddy.Controller) error {
		config := dnsserver.GetConfig(c)
		c.OnStartup(func() error {
			for _, name := range []string{"clusterset", "kubernetes"} {
				if h := config.Handler(name); h != nil {
					captured[name] = h
				}
			}
			return nil
		})
		config.AddPlugin(func(next plugin.Handler) plugin.Handler { return next })
		return nil
	})
}

func handlers(ctx context.Context, b *bench) error {
	caddy.Quiet, dnsserver.Quiet = true, true
	instance, err := caddy.Start(caddy.CaddyfileInput{ServerTypeName: "dns", Contents: fmt.Appendf(nil, `
clusterset.local:0 {
    bind 127.0.0.1
    capture
    clusterset {
        kubeconfig %[1]s
        startup_timeout 60s
    }
}
.:0 {
    bind 127.0.0.2
    capture
    kubernetes cluster.local clusterset.local {
        kubeconfig %[1]s
        multicluster clusterset.local
        startup_timeout 60s
    }
}
`, b.plane.Kubeconfig())})
	if err != nil {
		return err
	}
	defer func() {
		_ = instance.ShutdownCallbacks()
		_ = instance.Stop()
	}()
	ours, theirs := captured["clusterset"], captured["kubernetes"]
	if ours == nil || theirs == nil {
		return fmt.Errorf("handlers not found: %v", captured)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "query\tours ns\tin-tree ns\tratio\tours allocs\tin-tree allocs\tratio\tours B\tin-tree B\tfresh goroutine ns\tin-tree\tratio\t")
	for _, q := range b.queries() {
		if err := agree(ctx, q, ours, theirs); err != nil {
			return err
		}
		o, t := b.duel(ctx, q, ours, theirs)
		fmt.Fprintf(out, "%s\t%.0f\t%.0f\t1/%.1f\t%.1f\t%.1f\t1/%.1f\t%.0f\t%.0f\t%.0f\t%.0f\t1/%.1f\t\n", q.name,
			o.ns, t.ns, t.ns/o.ns, o.allocs, t.allocs, t.allocs/o.allocs, o.bytes, t.bytes, o.fresh, t.fresh, t.fresh/o.fresh)
	}
	return out.Flush()
}

// agree returns an error if the two plugins answer a query differently: the ratio of an answer to an error means nothing.
func agree(ctx context.Context, q query, ours, theirs plugin.Handler) error {
	o, t := ask(ctx, ours, q), ask(ctx, theirs, q)
	if o.Rcode != t.Rcode || len(o.Answer) != len(t.Answer) {
		return fmt.Errorf("%s: ours answers rcode %d with %d records, in-tree rcode %d with %d", q.name, o.Rcode, len(o.Answer), t.Rcode, len(t.Answer))
	}
	return nil
}

type recorder struct {
	test.ResponseWriter
	msg *dns.Msg
}

// client has a TCP address. Over TCP, every answer fits and is built in full.
var client net.Addr = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}

func (*recorder) RemoteAddr() net.Addr { return client }

func (r *recorder) WriteMsg(m *dns.Msg) error {
	r.msg = m
	return nil
}

func ask(ctx context.Context, h plugin.Handler, q query) *dns.Msg {
	w := &recorder{}
	_, _ = h.ServeDNS(ctx, w, new(dns.Msg).SetQuestion(q.qname(0), q.qtype))
	return w.msg
}

// cost is the average cost of one query. fresh is its time in nanoseconds in a new goroutine (measureFresh).
type cost struct{ ns, allocs, bytes, fresh float64 }

// duel measures the two plugins alternately and returns the median of each.
func (b *bench) duel(ctx context.Context, q query, ours, theirs plugin.Handler) (cost, cost) {
	questions := make([]*dns.Msg, 1000)
	for i := range questions {
		questions[i] = new(dns.Msg).SetQuestion(q.qname(i), q.qtype)
	}
	var o, t []cost
	for range b.rounds {
		o = append(o, measure(ctx, ours, questions))
		t = append(t, measure(ctx, theirs, questions))
	}
	return medianCost(o), medianCost(t)
}

const perMeasure = 60 * time.Millisecond

func measure(ctx context.Context, h plugin.Handler, questions []*dns.Msg) cost {
	w := &recorder{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	n := 0
	for time.Since(began) < perMeasure {
		for _, r := range questions {
			_, _ = h.ServeDNS(ctx, w, r)
		}
		n += len(questions)
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	c := cost{
		ns:     float64(took.Nanoseconds()) / float64(n),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
	}
	c.fresh = measureFresh(ctx, h, questions)
	return c
}

// measureFresh serves each query in a new goroutine, as the server does. The result includes the cost of growing that goroutine's stack,
// which the loop above doesn't measure.
func measureFresh(ctx context.Context, h plugin.Handler, questions []*dns.Msg) float64 {
	done := make(chan struct{})
	began := time.Now()
	n := 0
	for time.Since(began) < perMeasure {
		for _, r := range questions {
			go func() {
				w := &recorder{}
				_, _ = h.ServeDNS(ctx, w, r)
				done <- struct{}{}
			}()
			<-done
		}
		n += len(questions)
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}

func medianCost(cs []cost) cost {
	pick := func(f func(cost) float64) float64 {
		vs := make([]float64, len(cs))
		for i, c := range cs {
			vs[i] = f(c)
		}
		return median(vs)
	}
	return cost{
		ns: pick(func(c cost) float64 { return c.ns }), allocs: pick(func(c cost) float64 { return c.allocs }),
		bytes: pick(func(c cost) float64 { return c.bytes }), fresh: pick(func(c cost) float64 { return c.fresh }),
	}
}

func median(vs []float64) float64 {
	vs = slices.Sorted(slices.Values(vs))
	if len(vs) == 0 {
		return 0
	}
	return vs[len(vs)/2]
}
