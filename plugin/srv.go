package clusterset

import (
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// replySRV answers SRV (RFC 2782) at a service's own name, for the union of its named ports, or at one port. It returns nil
// where there is nothing to point to.
func (c *ClusterSet) replySRV(r *dns.Msg, z *zone, l *lookup) *dns.Msg {
	if l.kind != service && l.kind != port {
		return nil
	}
	if l.view.VIP != nil || !l.view.Set.Headless {
		return c.replyServiceSRV(r, l)
	}
	return c.replyHostSRV(r, z, l)
}

// replyServiceSRV points at the service's own name, whose addresses go into the additional section.
func (c *ClusterSet) replyServiceSRV(r *dns.Msg, l *lookup) *dns.Msg {
	addrs := l.view.Addrs()
	var few [8]index.Target
	targets := limited(c, l.serviceTargets(few[:0]))
	if len(targets) == 0 || len(addrs) == 0 {
		return nil
	}
	v4, v6 := addrs.Split()
	v4, v6 = limited(c, v4), limited(c, v6)
	name := r.Question[0].Name
	target := l.serviceName(name)
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

// serviceTargets lists the ports that a reply about a ClusterSetIP or ClusterIP service gives: the one asked, or one for
// each number among the named ports. It appends to targets, the caller's stack, as a VIP keeps no list.
func (l *lookup) serviceTargets(targets []index.Target) []index.Target {
	switch {
	case l.port != nil:
		return l.port.Targets
	case l.view.Set != nil:
		return l.view.Set.Targets
	}
	ports := l.view.VIP.Ports
next:
	for i := range ports {
		p := &ports[i]
		if p.Name == "" || l.kind == port && (p.Name != l.portName || p.Protocol != l.protocol) {
			continue
		}
		for _, t := range targets {
			if t.Port == p.Number {
				continue next
			}
		}
		targets = append(targets, index.Target{Host: index.ServiceItself, Port: p.Number})
	}
	return targets
}

// replyHostSRV points at the endpoints of a headless service. A record and its target's addresses lie in one array
// element; only a host with several addresses of one family needs more.
func (c *ClusterSet) replyHostSRV(r *dns.Msg, z *zone, l *lookup) *dns.Msg {
	set := l.view.Set
	targets := set.Targets
	if l.port != nil {
		targets = l.port.Targets
	}
	targets = limited(c, targets)
	if len(targets) == 0 {
		return nil
	}
	name := r.Question[0].Name
	// An endpoint without a cluster has no name of its own; the service's stands for it. Such targets sort first.
	var v4, v6 index.Addrs
	if targets[0].Host == index.ServiceItself {
		v4, v6 = set.Addrs.Split()
		v4, v6 = limited(c, v4), limited(c, v6)
	}
	p := newReply(r, len(targets), countAddrs(set, targets)+len(v4)+len(v6))
	c.fillA(p.Extra, l.serviceName(name), v4)
	c.fillAAAA(p.Extra[len(v4):], l.serviceName(name), v6)
	records := make([]recordSRV, len(targets))
	extra := p.Extra[:len(v4)+len(v6)]
	for i := range records {
		rec, t := &records[i], targets[i]
		if t.Host == index.ServiceItself {
			c.setSRV(&rec.SRV, name, l.serviceName(name), t.Port, len(targets))
			p.Answer[i] = &rec.SRV
			continue
		}
		target := set.Name(z.number, t.Host)
		c.setSRV(&rec.SRV, name, target, t.Port, len(targets))
		p.Answer[i] = &rec.SRV
		if i == 0 || targets[i-1].Host != t.Host {
			extra = c.appendHost(extra, rec, target, set.Hosts[t.Host].Addrs)
		}
	}
	p.Extra = extra
	return &p.Msg
}

// countAddrs counts the addresses of the targets' hosts.
func countAddrs(set *index.Set, targets []index.Target) int {
	n := 0
	for i, t := range targets {
		if t.Host != index.ServiceItself && (i == 0 || targets[i-1].Host != t.Host) {
			n += len(set.Hosts[t.Host].Addrs)
		}
	}
	return n
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
