package clusterset

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// replySRV answers SRV (RFC 2782) at a service's own name, for the union of its named ports, or at one port. It returns nil if
// there are no targets.
func (c *ClusterSet) replySRV(r *dns.Msg, l *index.Lookup, fits *room) *dns.Msg {
	n := l.Targets.Len()
	if n == 0 {
		return nil
	}
	picks := l.Targets.Sample(c.most(n), c.roll(n, fits))
	if l.Targets.AtHosts() {
		return c.replyHostSRV(r, l, &picks, fits)
	}
	return c.replyServiceSRV(r, l, &picks, fits)
}

// replyServiceSRV points to the service's own name. Its addresses go into the additional section.
func (c *ClusterSet) replyServiceSRV(r *dns.Msg, l *index.Lookup, picks *index.Sample, fits *room) *dns.Msg {
	name := r.Question[0].Name
	target := serviceName(l, name)
	records := make([]dns.SRV, fits.take(picks.Len(), sizeSRV+len(target)))
	var extra extras
	c.takeExtras(&extra, l.Set.Addrs, l.Set.Weights, fits)
	p := newReply(r, len(records), extra.len())
	for i := range records {
		t := l.Targets.At(picks.Next())
		c.setSRV(&records[i], name, target, t.Port, l.SRVWeight(t, picks.Len(), picks.Cut()))
		p.Answer[i] = &records[i]
	}
	c.fillExtras(p.Extra, target, &extra)
	return &p.Msg
}

// replyHostSRV points to the endpoints of a headless service, or to clusters. A record and its target's addresses are in one array
// element; only a host with several addresses of one family needs more. It iterates over the targets three times, each with its
// own copy of picks: to count the targets that fit, to count the addresses that fit, and to build the records.
func (c *ClusterSet) replyHostSRV(r *dns.Msg, l *index.Lookup, picks *index.Sample, fits *room) *dns.Msg {
	name := r.Question[0].Name
	var names hostNames
	built := names.init(l, name, *picks, fits)
	var service extras
	p := newReply(r, built, c.takeHosts(l, built, *picks, &service, fits))
	records := make([]recordSRV, built)
	extra, room := p.Extra[:0], len(p.Extra)
	var run hostRun
	target, first := "", ""
	for i := range records {
		rec, t := &records[i], l.Targets.At(picks.Next())
		p.Answer[i] = &rec.SRV
		switch run.next(t.Host) {
		case again:
			target = first
		case another:
			if t.Host == index.ServiceItself {
				target = serviceName(l, name)
				from := len(extra)
				extra = extra[:from+service.len()]
				c.fillExtras(extra[from:], target, &service)
			} else {
				host := &l.Set.TargetHosts()[t.Host]
				target = names.make(host.Key)
				extra = c.appendHost(extra, rec, target, host.Addrs[:min(len(host.Addrs), room-len(extra))])
			}
		}
		if i == 0 {
			first = target
		}
		c.setSRV(&rec.SRV, name, target, t.Port, l.SRVWeight(t, picks.Len(), picks.Cut()))
	}
	p.Extra = extra
	return &p.Msg
}

// hostRun detects when the host changes from one target to the next. Targets are grouped by host, but may start in the middle of a
// group, so the first host may come again at the end.
type hostRun struct {
	begun       bool
	first, last int32
}

// Results of hostRun.next.
const (
	same = iota
	another
	again
)

func (h *hostRun) next(host int32) int {
	switch {
	case !h.begun:
		*h = hostRun{true, host, host}
		return another
	case host == h.last:
		return same
	}
	h.last = host
	if host == h.first {
		return again
	}
	return another
}

// serviceName returns the part of the question's name that is the service's own.
func serviceName(l *index.Lookup, qname string) string {
	if l.Labels == "" {
		return qname
	}
	return qname[len(l.Labels)+1:]
}

// hostNames builds the full names of endpoints, all in one buffer: the endpoint's own name and the service's name, both in lower
// case.
type hostNames struct {
	buf     strings.Builder
	service string
}

// init allocates the buffer for a reply to a question about qname, and returns how many of the targets fit.
func (n *hostNames) init(l *index.Lookup, qname string, picks index.Sample, fits *room) (built int) {
	n.service = lower(serviceName(l, qname))
	var run hostRun
	size, length, first := 0, 0, 0
	for ; built < picks.Len() && !fits.full(); built++ {
		t := l.Targets.At(picks.Next())
		switch run.next(t.Host) {
		case again:
			length = first
		case another:
			length = len(n.service)
			if t.Host != index.ServiceItself {
				length += len(l.Set.TargetHosts()[t.Host].Key) + len(".")
				size += length
			}
		}
		if built == 0 {
			first = length
		}
		fits.take(1, sizeSRV+length)
	}
	n.buf.Grow(size)
	return built
}

// takeHosts returns how many addresses of the first targets' hosts fit. It puts those of the service itself in service.
func (c *ClusterSet) takeHosts(l *index.Lookup, targets int, picks index.Sample, service *extras, fits *room) (addrs int) {
	var run hostRun
	for i := 0; i < targets && !fits.full(); i++ {
		t := l.Targets.At(picks.Next())
		switch {
		case run.next(t.Host) != another:
		case t.Host == index.ServiceItself:
			c.takeExtras(service, l.Set.Addrs, l.Set.Weights, fits)
			addrs += service.len()
		default:
			v4, v6 := fits.takeAddrs(l.Set.TargetHosts()[t.Host].Addrs.Split())
			addrs += len(v4) + len(v6)
		}
	}
	return addrs
}

// make returns the full name of the host with that key.
func (n *hostNames) make(key string) string {
	from := n.buf.Len()
	n.buf.WriteString(key)
	n.buf.WriteByte('.')
	n.buf.WriteString(n.service)
	return n.buf.String()[from:]
}

// appendHost appends a target's addresses, the first of each family in rec.
func (c *ClusterSet) appendHost(extra []dns.RR, rec *recordSRV, target string, addrs index.Addrs) []dns.RR {
	a, aaaa := &rec.a, &rec.aaaa
	for i := range addrs {
		if addrs[i].Is4() {
			extra = append(extra, c.setA(a, target, addrs[i:i+1]))
			if i+1 < len(addrs) && addrs[i+1].Is4() {
				a = new(recordA)
			}
			continue
		}
		extra = append(extra, c.setAAAA(aaaa, target, addrs[i:i+1]))
		if i+1 < len(addrs) {
			aaaa = new(recordAAAA)
		}
	}
	return extra
}

// setSRV sets srv to an SRV record.
func (c *ClusterSet) setSRV(srv *dns.SRV, name, target string, port, weight uint16) {
	*srv = dns.SRV{Hdr: c.header(name, dns.TypeSRV), Weight: weight, Port: port, Target: target}
}
