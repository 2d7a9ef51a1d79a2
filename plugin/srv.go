package clusterset

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// replySRV answers SRV (RFC 2782) at a service's own name, for the union of its named ports, or at one port. It returns nil
// where there is nothing to point to.
func (c *ClusterSet) replySRV(r *dns.Msg, l *index.Lookup) *dns.Msg {
	targets := limited(c, l.Targets)
	switch {
	case len(targets) == 0:
		return nil
	case l.Set.Headless:
		return c.replyHostSRV(r, l, targets)
	}
	return c.replyServiceSRV(r, l, targets)
}

// replyServiceSRV points at the service's own name, whose addresses go into the additional section.
func (c *ClusterSet) replyServiceSRV(r *dns.Msg, l *index.Lookup, targets []index.Target) *dns.Msg {
	v4, v6 := l.Set.Addrs.Split()
	v4, v6 = limited(c, v4), limited(c, v6)
	name := r.Question[0].Name
	target := serviceName(l, name)
	p := newReply(r, len(targets), len(v4)+len(v6))
	records := make([]dns.SRV, len(targets))
	for i := range records {
		c.setSRV(&records[i], name, target, targets[i].Port, len(targets))
		p.Answer[i] = &records[i]
	}
	c.fillA(p.Extra, target, v4)
	c.fillAAAA(p.Extra[len(v4):], target, v6)
	return &p.Msg
}

// replyHostSRV points at the endpoints of a headless service. A record and its target's addresses lie in one array
// element; only a host with several addresses of one family needs more.
func (c *ClusterSet) replyHostSRV(r *dns.Msg, l *index.Lookup, targets []index.Target) *dns.Msg {
	set, name := l.Set, r.Question[0].Name
	// An endpoint without a cluster has no name of its own; the service's stands for it. Such targets sort first.
	var v4, v6 index.Addrs
	if targets[0].Host == index.ServiceItself {
		v4, v6 = set.Addrs.Split()
		v4, v6 = limited(c, v4), limited(c, v6)
	}
	var names hostNames
	addrs := names.init(l, name, targets)
	p := newReply(r, len(targets), addrs+len(v4)+len(v6))
	c.fillA(p.Extra, serviceName(l, name), v4)
	c.fillAAAA(p.Extra[len(v4):], serviceName(l, name), v6)
	records := make([]recordSRV, len(targets))
	extra, target := p.Extra[:len(v4)+len(v6)], ""
	for i := range records {
		rec, t := &records[i], targets[i]
		p.Answer[i] = &rec.SRV
		switch {
		case t.Host == index.ServiceItself:
			target = serviceName(l, name)
		case i == 0 || targets[i-1].Host != t.Host:
			target = names.make(set.Hosts[t.Host].Key)
			extra = c.appendHost(extra, rec, target, set.Hosts[t.Host].Addrs)
		}
		c.setSRV(&rec.SRV, name, target, t.Port, len(targets))
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

// init makes room for the targets of a reply to a question about qname, and counts their addresses.
func (n *hostNames) init(l *index.Lookup, qname string, targets []index.Target) (addrs int) {
	n.service = lower(serviceName(l, qname))
	size := 0
	for i, t := range targets {
		if t.Host != index.ServiceItself && (i == 0 || targets[i-1].Host != t.Host) {
			h := &l.Set.Hosts[t.Host]
			size += len(h.Key) + len(".") + len(n.service)
			addrs += len(h.Addrs)
		}
	}
	n.buf.Grow(size)
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
