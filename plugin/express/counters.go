package express

import (
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// counters count replies in the same series as the prometheus plugin. Each reader has its own, so that finding a series takes no lock.
type counters struct {
	server, proto, writer string   // labels
	zones                 []string // labels, by zone of the Answers
	series                []series
}

// series has the series of one zone. Each is looked up when it is first counted, because the chain doesn't create series with a zero
// value either.
type series struct {
	requests                  [2][qtypes]prometheus.Counter // by family
	do                        prometheus.Counter
	duration, request, answer prometheus.Observer
	rcodes                    [2]prometheus.Counter
}

// newCounters returns nil if the server block has no metrics.
func newCounters(server, proto string, m *metrics.Metrics, a *Answers) *counters {
	if m == nil {
		return nil
	}
	c := &counters{server: server, proto: proto, series: make([]series, len(a.Zones))}
	if m.Next != nil {
		c.writer = m.Next.Name() // CoreDNS 1.15 names the plugin behind prometheus, whichever wrote the reply
	}
	for i := range a.Zones {
		zone := plugin.Zones(m.ZoneNames()).Matches(a.Zones[i].Name)
		if zone == "" {
			zone = "."
		}
		c.zones = append(c.zones, zone)
	}
	return c
}

// count counts a reply to a packet of the given length. It does nothing for nil counters.
func (c *counters) count(r *Reply, packet int, ipv6 bool) {
	if c == nil {
		return
	}
	s, zone := &c.series[r.zone], c.zones[r.zone]
	family, label := 0, "1"
	if ipv6 {
		family, label = 1, "2"
	}
	if s.request == nil {
		s.duration = vars.RequestDuration.WithLabelValues(c.server, zone, "")
		s.request = vars.RequestSize.WithLabelValues(c.server, zone, "", c.proto)
		s.answer = vars.ResponseSize.WithLabelValues(c.server, zone, "", c.proto)
	}
	if s.requests[family][r.qtype] == nil {
		s.requests[family][r.qtype] = vars.RequestCount.WithLabelValues(c.server, zone, "", c.proto, label, r.qtype.String())
	}
	rcode := 0
	if r.rcode != dns.RcodeSuccess {
		rcode = 1
	}
	if s.rcodes[rcode] == nil {
		s.rcodes[rcode] = vars.ResponseRcode.WithLabelValues(c.server, zone, "", dns.RcodeToString[int(r.rcode)], c.writer)
	}
	if r.do {
		if s.do == nil {
			s.do = vars.RequestDo.WithLabelValues(c.server, zone, "")
		}
		s.do.Inc()
	}
	s.requests[family][r.qtype].Inc()
	s.rcodes[rcode].Inc()
	s.request.Observe(float64(packet))
	s.answer.Observe(float64(r.length))
}

// took observes how long the n replies of one batch took, to zone's series.
func (c *counters) took(zones []int, d time.Duration) {
	if c == nil {
		return
	}
	seconds := d.Seconds()
	for _, zone := range zones {
		c.series[zone].duration.Observe(seconds)
	}
}
