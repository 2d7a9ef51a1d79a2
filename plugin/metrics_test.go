package clusterset

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/ready"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/internal/version"
)

// tieredPlugin returns a plugin in cluster here, zone z, region r, which it prefers in that order. It has a service for each tier,
// with the tier's name.
func tieredPlugin(t *testing.T) *ClusterSet {
	t.Helper()
	zs := zones{newZone("clusterset.local.", index.MCS), newZone("svc.global.", index.Global)}
	c := &ClusterSet{zones: zs, ttl: defaultTTL, tiers: newTierCounters(), index: index.New(index.Options{
		Self:        topology.Location{Cluster: "here", Zone: "z", Region: "r"},
		Policy:      topology.Policy{Prefer: []topology.Tier{topology.Cluster, topology.Zone, topology.Region}},
		LongestZone: zs.longest(),
	})}
	c.index.Put(
		&index.Cluster{Name: "here", Member: topology.Member{Zones: []string{"z"}, Region: "r"}},
		&index.Cluster{Name: "inzone", Member: topology.Member{Zones: []string{"z"}, Region: "r"}},
		&index.Cluster{Name: "inregion", Member: topology.Member{Zones: []string{"y"}, Region: "r"}},
		&index.Cluster{Name: "far", Member: topology.Member{Zones: []string{"x"}, Region: "q"}},
		&index.Cluster{Name: "drained", Member: topology.Member{Zones: []string{"z"}, Region: "r", Drain: true}},
		vip("vip", "10.0.0.1"),
	)
	for service, cluster := range map[string]string{"cluster": "here", "zone": "inzone", "region": "inregion", "any": "far", "degraded": "drained"} {
		c.index.Put(
			&index.ServiceImport{Service: index.NewServiceKey("ns", service), Headless: true},
			&index.EndpointSlice{
				Namespace: "ns", Name: service, Service: index.NewServiceKey("ns", service),
				Group: index.Group{
					Cluster: cluster, Ports: []index.Port{{Name: "http", Number: 80}},
					Endpoints: []index.Endpoint{{Addr: netip.MustParseAddr("10.0.0.2"), Hostname: "pod-0", Ready: true}},
				},
			})
	}
	c.index.Publish()
	return c
}

func ask(t *testing.T, c *ClusterSet, name string, qtype uint16) *dns.Msg {
	t.Helper()
	w := &discard{}
	if _, err := c.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion(name, qtype)); err != nil {
		t.Fatal(err)
	}
	return w.msg
}

func TestPositiveAnswersAreCountedByTier(t *testing.T) {
	c := tieredPlugin(t)
	tiers := []string{"cluster", "zone", "region", "any", "vip", "degraded"}
	all := func() (sum float64) {
		for _, tier := range tiers {
			sum += counterValue(answersTotal.WithLabelValues(tier))
		}
		return sum
	}
	for _, tier := range tiers {
		of := answersTotal.WithLabelValues(tier)
		before, others := counterValue(of), all()-counterValue(of)
		ask(t, c, tier+".ns.svc.clusterset.local.", dns.TypeA)
		ask(t, c, strings.ToUpper(tier)+".NS.svc.clusterset.local.", dns.TypeSRV)
		// These have no answer, or aren't for a service's own name.
		ask(t, c, tier+".ns.svc.clusterset.local.", dns.TypeAAAA)
		ask(t, c, tier+".ns.svc.clusterset.local.", dns.TypeMX)
		ask(t, c, "missing.ns.svc.clusterset.local.", dns.TypeA)
		ask(t, c, "_http._tcp."+tier+".ns.svc.clusterset.local.", dns.TypeSRV)
		ask(t, c, "clusterset.local.", dns.TypeSOA)
		if got := counterValue(of) - before; got != 2 || all()-counterValue(of) != others {
			t.Errorf("%v answers are counted of two from %s, or others are", got, tier)
		}
	}
}

func TestMetricNamesFollowTheConventions(t *testing.T) {
	touchMetrics()
	problems, err := promlint.NewWithMetricFamilies(ourMetrics(t)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", err, problems)
	}
}

// A metric with a label for each name, address or namespace would take too much memory in an operator's Prometheus.
func TestMetricLabelsAreBounded(t *testing.T) {
	others := map[string]bool{} // series of earlier tests, whose sources have other names
	for _, f := range ourMetrics(t) {
		for _, m := range f.GetMetric() {
			others[f.GetName()+fmt.Sprint(m.GetLabel())] = true
		}
	}
	touchMetrics()
	for i := range 100 {
		c := tieredPlugin(t)
		ask(t, c, strings.Repeat("x", i%60+1)+".ns.svc.clusterset.local.", uint16(i)) //nolint:gosec // small
	}
	allowed := map[string][]string{
		"tier":   {"cluster", "zone", "region", "any", "vip", "degraded"},
		"source": {"kubernetes", "manifests"},
		// other is for objects of kinds that are not served, file for files and directories that could not be read.
		"kind": {"ServiceImport", "EndpointSlice", "GlobalService", "MemberCluster", "Reachability", "other", "file"},
		// A single series, which describes this binary.
		"version": {version.String()}, "goversion": {runtime.Version()},
	}
	families := ourMetrics(t)
	if len(families) < 8 {
		t.Errorf("only %d metrics, of those that are declared", len(families))
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if others[f.GetName()+fmt.Sprint(m.GetLabel())] {
				continue
			}
			for _, l := range m.GetLabel() {
				if !slices.Contains(allowed[l.GetName()], l.GetValue()) {
					t.Errorf("%s{%s=%q}: not one of %q", f.GetName(), l.GetName(), l.GetValue(), allowed[l.GetName()])
				}
			}
		}
	}
}

// touchMetrics creates a series of every metric with labels.
func touchMetrics() {
	newTierCounters()
	for _, k := range index.Kinds {
		objectsGauge.WithLabelValues("manifests", k.String())
		syncedGauge.WithLabelValues("manifests", k.String())
		absentGauge.WithLabelValues("kubernetes", k.String())
		errorsTotal.WithLabelValues("kubernetes", k.String())
		invalidTotal.WithLabelValues("manifests", k.String())
		programmingSeconds.WithLabelValues(k.String())
	}
}

func ourMetrics(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "coredns_clusterset_") })
}

func TestMetadataDescribesTheQuestion(t *testing.T) {
	c := tieredPlugin(t)
	for name, want := range map[string]string{ // the labels that aren't empty
		"vip.ns.svc.clusterset.local.":               "dialect=mcs namespace=ns service=vip tier=vip zone=clusterset.local.",
		"Zone.NS.svc.ClusterSet.local.":              "dialect=mcs namespace=ns service=zone tier=zone zone=clusterset.local.",
		"zone.ns.svc.global.":                        "dialect=global namespace=ns service=zone tier=zone zone=svc.global.",
		"degraded.ns.svc.clusterset.local.":          "dialect=mcs namespace=ns service=degraded tier=degraded zone=clusterset.local.",
		"_http._tcp.region.ns.svc.clusterset.local.": "dialect=mcs namespace=ns port=http protocol=tcp service=region tier=region zone=clusterset.local.",
		"pod-0.far.any.ns.svc.clusterset.local.":     "dialect=mcs endpoint=pod-0.far namespace=ns service=any tier=any zone=clusterset.local.",
		"missing.ns.svc.clusterset.local.":           "dialect=mcs zone=clusterset.local.",
		"clusterset.local.":                          "dialect=mcs zone=clusterset.local.",
		"example.org.":                               "",
	} {
		ctx := metadata.ContextWithMetadata(context.Background())
		state := request.Request{W: &test.ResponseWriter{}, Req: new(dns.Msg).SetQuestion(name, dns.TypeA)}
		ctx = c.Metadata(ctx, state)
		var got []string
		for label, value := range metadata.ValueFuncs(ctx) {
			if !metadata.IsLabel(label) {
				t.Errorf("%s is no label", label)
			}
			if v := value(); v != "" {
				got = append(got, strings.TrimPrefix(label, pluginName+"/")+"="+v)
			}
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestMetadataIsEmptyBeforeTheFirstSync(t *testing.T) {
	c := newTestPlugin(t)
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	state := request.Request{W: &test.ResponseWriter{}, Req: new(dns.Msg).SetQuestion("a.ns.svc.clusterset.local.", dns.TypeA)}
	ctx := c.Metadata(metadata.ContextWithMetadata(context.Background()), state)
	if tier := metadata.ValueFunc(ctx, "clusterset/tier")(); tier != "" {
		t.Errorf("the tier is %q", tier)
	}
}

// A server that isn't ready is removed from its Service. So it must report not ready until it has read every kind, and never after
// that.
func TestReadyOnceEveryKindWasRead(t *testing.T) {
	c := newTestPlugin(t)
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	var _ ready.Readiness = c
	s := newSource(&manifestsFeed{})
	s.indexes = append(s.indexes, c.index)
	c.source = s
	before := counterValue(unsyncedAnswers)
	for _, k := range index.Kinds {
		if c.Ready() {
			t.Errorf("ready before %s was read", k)
		}
		if m := ask(t, c, "a.ns.svc.clusterset.local.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("got %s before %s was read", dns.RcodeToString[m.Rcode], k)
		}
		s.replace(k, nil)
	}
	// The alert ClustersetDNSServfail sees by this counter that a server knows nothing.
	if got := counterValue(unsyncedAnswers) - before; !c.Ready() || got != float64(len(index.Kinds)) {
		t.Errorf("ready: %t; %v queries before the first sync were counted", c.Ready(), got)
	}
	for _, k := range index.Kinds {
		s.reachable(k, false)
	}
	if !c.Ready() {
		t.Error("no longer ready because the source is lost, though the last known answers are served")
	}
	if m := ask(t, c, "a.ns.svc.clusterset.local.", dns.TypeA); m.Rcode != dns.RcodeNameError {
		t.Errorf("got %s after every kind was read", dns.RcodeToString[m.Rcode])
	}
}
