package index

import "strings"

// NameKind is what stands at a name.
type NameKind uint8

const (
	// NameError is NXDOMAIN: nothing at the name, nor below it (RFC 8020).
	NameError NameKind = iota
	// Empty is a name without records of its own, there because of others below it.
	Empty
	// Apex is the zone's own name.
	Apex
	// NameServer is the name of the zone's name server.
	NameServer
	// Version is the name that has the version of the multi-cluster DNS specification.
	Version
	// ServiceName is a service's own name: addresses, and SRV for the union of its ports.
	ServiceName
	// PortName is _port._proto in front of a service: SRV only.
	PortName
	// HostName is an endpoint of a headless service, or a cluster of a service in the dialect Global: addresses.
	HostName
)

// Lookup is what a name stands for: all that an answer is made of.
type Lookup struct {
	Kind NameKind
	// Key and Set are the service's, where the name is its own or lies below it, even if nothing is there. Set.Tier and
	// Set.Source say where its addresses come from.
	Key ServiceKey
	Set *Set
	// Labels are what stands in front of the service's name, empty at that name itself. They are a part of the name looked up.
	Labels string
	// Addrs are the addresses at a ServiceName or HostName, Weights theirs where they differ.
	Addrs   Addrs
	Weights Weights
	// Port is the one at a PortName.
	Port *PortTargets
	// Targets are what the SRV records at a ServiceName or PortName point to: none where nothing at the name has an address.
	Targets Targets
}

// Zone says what the names of a zone mean. Services have names of the form <service>.<namespace>.svc.<origin>. The origin is
// the zone, or where the zone's own first label is svc, as in svc.global, the domain above it.
type Zone struct {
	Dialect Dialect
	// Svc is set for a zone whose first label is svc.
	Svc bool
}

// Fixed returns what every such zone has at a name, whatever services there are, or NameError. The name is that of Lookup.
func (z Zone) Fixed(name string) NameKind {
	if z.Svc {
		return svcNames[name]
	}
	return zoneNames[name]
}

var (
	zoneNames = map[string]NameKind{
		"":            Apex,
		"svc":         Empty,
		"dns":         Empty, // ns.dns lies below it
		"ns.dns":      NameServer,
		"dns-version": Version,
	}
	// In a zone whose first label is svc, ns.dns is the Service ns of the namespace dns.
	svcNames = map[string]NameKind{
		"svc":             Apex,
		"ns.svc":          NameServer,
		"dns-version.svc": Version,
	}
)

// Lookup finds what a name stands for: the labels in front of the zone's origin, in lower case and without a final dot. It sets
// the fields of an empty l rather than return it, which would copy it, and allocates nothing.
func (s *Snapshot) Lookup(l *Lookup, zone Zone, name string) {
	rest, ok := strings.CutSuffix(name, ".svc")
	if !ok {
		l.Kind = zone.Fixed(name) // NameError for any other
		return
	}
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 {
		l.Kind = zone.Fixed(name)
		if l.Kind == NameError && s.HasNamespace(rest) {
			l.Kind = Empty
		}
		return
	}
	// The key "<service>.<namespace>" is a part of the name: no string has to be made to look it up.
	key := strings.LastIndexByte(rest[:dot], '.') + 1
	svc := s.Service(rest[key:])
	if svc == nil {
		return
	}
	l.Key, l.Set = svc.Key(), svc.Set(zone.Dialect)
	if key > 0 {
		l.Labels = rest[:key-1]
	}
	switch {
	case l.Set.Absent():
	case key == 0:
		l.Kind, l.Addrs, l.Weights, l.Targets = ServiceName, l.Set.Addrs, l.Set.Weights, l.Set.Targets
	case l.Labels != "" && l.Labels[0] == '_':
		l.findPort()
	default:
		l.findHost(zone.Dialect)
	}
	if l.Targets.Len() > 0 && len(l.Set.Addrs) == 0 {
		l.Targets = Targets{} // an SRV record whose target has no address is of no use
	}
}

// SRVWeight returns the weight of the SRV record of one of n targets: 100 shared out among them. Where clusters differ in weight it is the
// cluster's, unless the targets were picked by it already, which cut says.
func (l *Lookup) SRVWeight(t Target, n int, cut bool) uint16 {
	if l.Set.HostWeights != nil && t.Host != ServiceItself && !cut {
		return uint16(l.Set.HostWeights[t.Host])
	}
	return uint16(max(1, 100/n)) //nolint:gosec // at most 100
}

// findHost finds an endpoint, or what the dialect has at a cluster.
func (l *Lookup) findHost(d Dialect) {
	set := l.Set
	if set.Headless {
		if h := set.Host(l.Labels); h != nil {
			l.Kind, l.Addrs = HostName, h.Addrs
			return
		}
	}
	if d == MCS && !set.Headless {
		return // a ClusterSetIP service has nothing below its name but ports (specification 2.3.4)
	}
	if cluster := set.Cluster(l.Labels); cluster != nil {
		if d == Global {
			l.Kind, l.Addrs = HostName, cluster.Addrs
		} else {
			l.Kind = Empty // specification 2.4.4: no records at a cluster, only below it
		}
		return
	}
	if set.EmptyNonTerminal(l.Labels) {
		l.Kind = Empty
	}
}

// findPort finds _port._proto, or _proto alone, which is an empty non-terminal above its ports.
func (l *Lookup) findPort() {
	first, proto, ok := strings.Cut(l.Labels, ".")
	if !ok {
		if protocol, ok := protocolOf(first); ok && l.Set.hasProtocol(protocol) {
			l.Kind = Empty
		}
		return
	}
	protocol, ok := protocolOf(proto)
	if !ok || len(first) < 2 {
		return
	}
	ports := l.Set.Ports
	for i := range ports {
		if p := &ports[i]; p.Name == first[1:] && p.Protocol == protocol {
			l.Kind, l.Port, l.Targets = PortName, p, p.Targets
			return
		}
	}
}

// hasProtocol reports whether the service has a named port of the protocol.
func (s *Set) hasProtocol(p Protocol) bool {
	for i := range s.Ports {
		if s.Ports[i].Protocol == p {
			return true
		}
	}
	return false
}

// protocolOf reads the label of a protocol.
func protocolOf(label string) (Protocol, bool) {
	switch label {
	case "_tcp":
		return TCP, true
	case "_udp":
		return UDP, true
	case "_sctp":
		return SCTP, true
	default:
		return 0, false
	}
}
