package clusterset

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// replySRV answers SRV (RFC 2782) at a service's own name, for the union of its named ports, or at one port. It returns nil
// where there is nothing to point to.
func (c *ClusterSet) replySRV(r *dns.Msg, l *index.Lookup, fits *room) *dns.Msg {
	n := l.Targets.Len()
	if c.maxAnswers > 0 {
		n = min(n, c.maxAnswers)
	}
	switch {
	case n == 0:
		return nil
	case l.Set.Headless:
		return c.replyHostSRV(r, l, n, fits)
	}
	return c.replyServiceSRV(r, l, n, fits)
}

// replyServiceSRV points at the service's own name, whose addresses go into the additional section.
func (c *ClusterSet) replyServiceSRV(r *dns.Msg, l *index.Lookup, n int, fits *room) *dns.Msg {
	name := r.Question[0].Name
	target := serviceName(l, name)
	records := make([]dns.SRV, fits.take(n, sizeSRV+len(target)))
	v4, v6 := c.serviceAddrs(l, fits)
	p := newReply(r, len(records), len(v4)+len(v6))
	for i := range records {
		c.setSRV(&records[i], name, target, l.Targets.At(i).Port, n)
		p.Answer[i] = &records[i]
	}
	c.fillA(p.Extra, target, v4)
	c.fillAAAA(p.Extra[len(v4):], target, v6)
	return &p.Msg
}

// serviceAddrs returns the addresses at the service's own name that an additional section has.
func (c *ClusterSet) serviceAddrs(l *index.Lookup, fits *room) (v4, v6 index.Addrs) {
	v4, v6 = l.Set.Addrs.Split()
	return fits.takeAddrs(limited(c, v4), limited(c, v6))
}

// replyHostSRV points at the endpoints of a headless service. A record and its target's addresses lie in one array
// element; only a host with several addresses of one family needs more.
func (c *ClusterSet) replyHostSRV(r *dns.Msg, l *index.Lookup, n int, fits *room) *dns.Msg {
	name := r.Question[0].Name
	var names hostNames
	built := names.init(l, name, n, fits)
	// An endpoint without a cluster has no name of its own; the service's stands for it. Such targets sort first.
	var v4, v6 index.Addrs
	if l.Targets.At(0).Host == index.ServiceItself {
		v4, v6 = c.serviceAddrs(l, fits)
	}
	p := newReply(r, built, takeHosts(l, built, fits)+len(v4)+len(v6))
	c.fillA(p.Extra, serviceName(l, name), v4)
	c.fillAAAA(p.Extra[len(v4):], serviceName(l, name), v6)
	records := make([]recordSRV, built)
	extra, room := p.Extra[:len(v4)+len(v6)], len(p.Extra)
	last, target := int32(index.ServiceItself), serviceName(l, name)
	for i := range records {
		rec, t := &records[i], l.Targets.At(i)
		p.Answer[i] = &rec.SRV
		if t.Host != last {
			host := &l.Set.Hosts[t.Host]
			last, target = t.Host, names.make(host.Key)
			extra = c.appendHost(extra, rec, target, host.Addrs[:min(len(host.Addrs), room-len(extra))])
		}
		c.setSRV(&rec.SRV, name, target, t.Port, n)
	}
	p.Extra = extra
	return &p.Msg
}

// serviceName returns the part of the question's name that is the service's own.
func serviceName(l *index.Lookup, qname string) string {
	if l.Labels == "" {
		return qname
	}
	return qname[len(l.Labels)+1:]
}

// hostNames makes the full names of endpoints, all in one buffer: each needs the service's name behind its own, in lower
// case, as what the data names is.
type hostNames struct {
	buf     strings.Builder
	service string
}

// init makes the names' buffer for a reply to a question about qname, and returns for how many of the first n targets there is
// room.
func (n *hostNames) init(l *index.Lookup, qname string, targets int, fits *room) (built int) {
	n.service = lower(serviceName(l, qname))
	size, last, length := 0, int32(index.ServiceItself), len(n.service)
	for built < targets && !fits.full() {
		if t := l.Targets.At(built); t.Host != last {
			last, length = t.Host, len(l.Set.Hosts[t.Host].Key)+len(".")+len(n.service)
			size += length
		}
		fits.take(1, sizeSRV+length)
		built++
	}
	n.buf.Grow(size)
	return built
}

// takeHosts counts the addresses of the first targets' hosts that there is room for.
func takeHosts(l *index.Lookup, targets int, fits *room) (addrs int) {
	last := int32(index.ServiceItself)
	for i := 0; i < targets && !fits.full(); i++ {
		if t := l.Targets.At(i); t.Host != last {
			last = t.Host
			v4, v6 := fits.takeAddrs(l.Set.Hosts[t.Host].Addrs.Split())
			addrs += len(v4) + len(v6)
		}
	}
	return addrs
}

// make returns the name of the host of that key.
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

// setSRV makes an SRV record, one of n of equal priority, among which the weight is shared out.
func (c *ClusterSet) setSRV(srv *dns.SRV, name, target string, port uint16, n int) {
	*srv = dns.SRV{
		Hdr: c.header(name, dns.TypeSRV), Weight: uint16(max(1, 100/n)), //nolint:gosec // at most 100
		Port: port, Target: target,
	}
}
