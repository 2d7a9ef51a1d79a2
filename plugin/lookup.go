package clusterset

import (
	"strings"

	"github.com/clusterset/clusterset/internal/index"
)

// kind is what was found at a name.
type kind uint8

const (
	// nameError is NXDOMAIN: nothing at the name, nor below it (RFC 8020).
	nameError kind = iota
	// empty is a name without records of its own, there because of others below it, or because it has none yet.
	empty
	apex
	nameServer
	version
	// service is the service's own name: addresses, and SRV for the union of its ports.
	service
	// port is _port._proto in front of a service: SRV only.
	port
	// host is an endpoint of a headless service, or a cluster of a service in the global dialect: addresses.
	host
)

// lookup is what a name stands for. It lives on the stack of ServeDNS.
type lookup struct {
	kind kind
	key  index.ServiceKey
	set  *index.Set
	// addrs are the addresses at the name.
	addrs index.Addrs
	// labels is what stands in front of the service's key: the port, the host or the cluster.
	labels string
	port   *index.PortTargets
}

// lookup finds what name, in lower case and in the zone, stands for. It sets fields of l rather than return it, which would
// copy it.
func (z *zone) lookup(l *lookup, snapshot *index.Snapshot, name string) {
	below := z.below(name)
	rest, ok := strings.CutSuffix(below, ".svc")
	if !ok {
		l.kind = fixedNames[below] // nameError for any other
		return
	}
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 {
		if snapshot.HasNamespace(rest) {
			l.kind = empty
		}
		return
	}
	// The key "<service>.<namespace>" is a part of the name: no string has to be made to look it up.
	key := strings.LastIndexByte(rest[:dot], '.') + 1
	svc := snapshot.Service(rest[key:])
	if svc == nil {
		return
	}
	l.key, l.set = svc.Key(), z.set(svc)
	if l.set.Absent() {
		return
	}
	if key == 0 {
		l.kind, l.addrs = service, l.set.Addrs
		return
	}
	l.labels = rest[:key-1]
	if strings.HasPrefix(l.labels, "_") {
		l.findPort()
		return
	}
	l.findHost(z.dialect)
}

// fixedNames are the names that every zone has, without the zone.
var fixedNames = map[string]kind{
	"":            apex,
	"svc":         empty,
	"dns":         empty, // ns.dns lies below it
	"ns.dns":      nameServer,
	"dns-version": version,
}

// set returns the service as the zone's dialect sees it.
func (z *zone) set(svc *index.Service) *index.Set {
	if z.dialect == global {
		return svc.Global()
	}
	return svc.MCS()
}

// serviceName returns the part of the question's name that is the service's own.
func (l *lookup) serviceName(qname string) string {
	if l.labels == "" {
		return qname
	}
	return qname[len(l.labels)+1:]
}

// findHost finds an endpoint, or what the dialect has at a cluster.
func (l *lookup) findHost(d dialect) {
	set := l.set
	if set.Headless {
		if h := set.Host(l.labels); h != nil {
			l.kind, l.addrs = host, h.Addrs
			return
		}
	}
	if d == mcs && !set.Headless {
		return // a ClusterSetIP service has nothing below its name but ports (specification 2.3.4)
	}
	if cluster := set.Cluster(l.labels); cluster != nil {
		if d == global {
			l.kind, l.addrs = host, cluster.Addrs
		} else {
			l.kind = empty // specification 2.4.4: no records at a cluster, only below it
		}
		return
	}
	if set.EmptyNonTerminal(l.labels) {
		l.kind = empty
	}
}

// findPort finds _port._proto, or _proto alone, which is an empty non-terminal above its ports.
func (l *lookup) findPort() {
	first, proto, ok := strings.Cut(l.labels, ".")
	if !ok {
		if protocol, ok := protocolOf(first); ok && l.hasProtocol(protocol) {
			l.kind = empty
		}
		return
	}
	protocol, ok := protocolOf(proto)
	if !ok || len(first) < 2 {
		return
	}
	name, ports := first[1:], l.set.Ports
	for i := range ports {
		if ports[i].Name == name && ports[i].Protocol == protocol {
			l.kind, l.port = port, &ports[i]
			return
		}
	}
}

// hasProtocol reports whether the service has a named port of the protocol.
func (l *lookup) hasProtocol(p index.Protocol) bool {
	for i := range l.set.Ports {
		if l.set.Ports[i].Protocol == p {
			return true
		}
	}
	return false
}

// protocolOf reads the label of a protocol.
func protocolOf(label string) (index.Protocol, bool) {
	switch label {
	case "_tcp":
		return index.TCP, true
	case "_udp":
		return index.UDP, true
	case "_sctp":
		return index.SCTP, true
	default:
		return 0, false
	}
}
