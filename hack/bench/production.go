package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"
)

// productionBody is the usual configuration around the plugin that answers (corefile.example), with the cluster's own names out of the cache as in
// docs/cluster-dns.md: there are few of them here, and answers from the cache would be compared.
const productionBody = `    errors
    prometheus 127.0.0.1:PORT
    shed
    bufsize 1232
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loadbalance
    reload
`

// localBody answers the cluster's own names behind our plugin. In inTreeBody, one plugin answers both.
const localBody = `
    kubernetes cluster.local {
        kubeconfig KUBECONFIG
        startup_timeout 60s
    }`

// production measures servers with the usual Corefile: ours with and without the express path, and the in-tree plugin. The echo shows the
// cost of the packets, erratic that of CoreDNS.
func production(ctx context.Context, b *bench) error {
	servers, err := b.startProduction(ctx)
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	inTreeA, err := b.flood(ctx, servers)
	if err != nil {
		return err
	}
	if err := b.steady(ctx, servers, inTreeA/3); err != nil {
		return err
	}
	return b.bystanders(ctx, [2]*server{servers[0], servers[1]})
}

func (b *bench) startProduction(ctx context.Context) (servers []*server, err error) {
	front := productionBody
	if b.profiles != "" {
		front = "    pprof 127.0.0.1:PROFILES\n" + front
	}
	ours := strings.Replace(oursBody, "clusterset {", "clusterset clusterset.local {", 1) + localBody
	for _, s := range []struct{ name, body string }{
		{"ours", front + ours},
		{"ours-off", front + strings.Replace(ours, "clusterset.local {", "clusterset.local {\n        express off", 1)},
		{"in-tree", front + inTreeBody},
		{"erratic", erraticBody},
	} {
		srv, err := b.start(ctx, s.name, ".", s.body)
		if err != nil {
			return servers, err
		}
		servers = append(servers, srv)
		for _, name := range []string{b.objects.headlessName(0), b.objects.local(0), b.objects.localHeadless(0)} {
			if err := srv.await(ctx, name); err != nil {
				return servers, err
			}
		}
		if s.name == "erratic" {
			if srv.asked, err = b.dnsperfData(b.plain()); err != nil {
				return servers, err
			}
		}
	}
	e, err := b.startEcho(ctx, "udp")
	if err != nil {
		return servers, err
	}
	servers = append(servers, e)
	if err := e.await(ctx, b.objects.service(0)); err != nil {
		return servers, err
	}
	nsd, err := b.startNSD(ctx, "udp")
	return append(servers, nsd...), err
}

// mixed asks for names in cluster.local and clusterset.local by turns.
func (b *bench) mixed() query {
	return query{"mixed A", dns.TypeA, func(i int) string {
		if i%2 == 0 {
			return b.objects.local(i)
		}
		return b.objects.service(i)
	}}
}

// cluster asks for the cluster's own names: those of Services, and the names that pods' search paths make of others.
func (b *bench) cluster() []query {
	return []query{
		{"cluster.local A", dns.TypeA, b.objects.local},
		{"cluster.local headless, 10 A", dns.TypeA, b.objects.localHeadless},
		{"cluster.local SRV", dns.TypeSRV, func(i int) string { return "_http._tcp." + b.objects.local(i) }},
		{"search path NXDOMAIN", dns.TypeA, b.objects.searched},
		b.mixed(),
	}
}

// flood sends queries as fast as the servers answer, and returns how many A queries per second the in-tree plugin answers.
func (b *bench) flood(ctx context.Context, servers []*server) (inTreeA float64, err error) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "flooded\techo µs/q\texpress\texpress off\tin-tree\terratic A\tNSD\texpress/echo\texpress/NSD\toff/express\tin-tree/express\techo qps\texpress\toff\tin-tree\texpress/in-tree\t")
	for i, q := range append(b.queries(), b.cluster()...) {
		if q.name == "headless 100 A" {
			continue // over 512 bytes: it would measure truncation
		}
		asked := servers
		if i >= len(b.queries()) {
			asked = withoutNSD(servers)
		}
		r, err := b.contest(ctx, q, asked)
		if err != nil {
			return 0, err
		}
		if err := b.profile(ctx, q, servers[:2]); err != nil {
			return 0, err
		}
		e, ours, off, inTree := r["echo"], r["ours"], r["ours-off"], r["in-tree"]
		fmt.Fprintf(out, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%.2f\t%s\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t\n", q.name,
			e.micros, ours.micros, off.micros, inTree.micros, r["erratic"].micros, figure(r["nsd"].micros),
			ours.micros/e.micros, figure(ours.micros/r["nsd"].micros), off.micros/ours.micros, inTree.micros/ours.micros,
			e.qps, ours.qps, off.qps, inTree.qps, ours.qps/inTree.qps)
		if inTreeA == 0 {
			inTreeA = inTree.qps
		}
	}
	return inTreeA, out.Flush()
}

// steady sends A queries at a fixed rate that all servers can sustain.
func (b *bench) steady(ctx context.Context, servers []*server, rate float64) error {
	data, err := b.dnsperfData(b.plain())
	if err != nil {
		return err
	}
	micros, half, most := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for range b.rounds {
		for _, s := range servers {
			l, err := b.turn(ctx, s, data, "-v", "-Q", strconv.Itoa(int(rate)))
			if err != nil {
				return err
			}
			if len(l.waits) == 0 {
				return fmt.Errorf("dnsperf printed no waits for %s", s.name)
			}
			micros[s.name] = append(micros[s.name], l.micros)
			half[s.name] = append(half[s.name], l.waits[len(l.waits)/2])
			most[s.name] = append(most[s.name], l.waits[len(l.waits)*99/100])
		}
	}
	fmt.Println()
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "A at %.0f a second\tµs/q\t/ echo\tp50 / echo\tp99 / echo\t\n", rate)
	for _, s := range servers {
		fmt.Fprintf(out, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", s.name, median(micros[s.name]), median(micros[s.name])/median(micros["echo"]),
			median(half[s.name])/median(half["echo"]), median(most[s.name])/median(most["echo"]))
	}
	return out.Flush()
}

// bystanders compares the cost of queries that the chain answers with and without the express path, in pairs of turns. args are further
// arguments of dnsperf.
func (b *bench) bystanders(ctx context.Context, pair [2]*server, args ...string) error {
	data, err := b.dnsperfData(query{"cluster.local TXT", dns.TypeTXT, b.objects.local})
	if err != nil {
		return err
	}
	var logs []float64
	for i := range 3 * b.rounds {
		var micros [2]float64
		for j := range pair {
			at := (i + j) % 2 // neither is always the first
			l, err := b.turn(ctx, pair[at], data, args...)
			if err != nil {
				return err
			}
			micros[at] = l.micros
		}
		logs = append(logs, math.Log(micros[0]/micros[1]))
	}
	mean, spread := interval(logs)
	fmt.Printf("\ncluster.local TXT, express / express off: %.3f (95 %% confidence: %.3f to %.3f, %d pairs)\n",
		math.Exp(mean), math.Exp(mean-spread), math.Exp(mean+spread), len(logs))
	return nil
}

// interval returns the mean of values, and half the width of the 95 % confidence interval of their true mean.
func interval(values []float64) (mean, spread float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		spread += (v - mean) * (v - mean) / (n - 1)
	}
	// Student's t for n-1 degrees of freedom, by its expansion in 1/(n-1).
	const z = 1.959964
	f := n - 1
	t := z + (z*z*z+z)/(4*f) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*f*f)
	return mean, t * math.Sqrt(spread/n)
}
