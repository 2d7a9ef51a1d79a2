package index

import (
	"slices"
	"strings"
)

// NameKind is what a name stands for.
type NameKind uint8

const (
	// NameError is NXDOMAIN: neither the name nor a name below it exists (RFC 8020).
	NameError NameKind = iota
	// Empty is a name without records. It exists because of names below it.
	Empty
	// Apex is the zone's own name.
	Apex
	// NameServer is the name of the zone's name server.
	NameServer
	// Version is the name with the version of the multi-cluster DNS specification.
	Version
	// ServiceName is a service's own name: addresses, and SRV for the union of its ports.
	ServiceName
	// PortName is _port._proto in front of a service: SRV only.
	PortName
	// HostName is an endpoint of a headless service, or a cluster of a service in the dialect Global: addresses.
	HostName
	// ZoneName is a zone, and pin._zone or prefer._zone, in front of a headless service: addresses, and SRV for the union of its ports, as
	// seen from that zone. Snapshot.Zonal has to complete the Lookup.
	ZoneName
)

// Lookup is the result of looking up a name: everything that an answer needs.
type Lookup struct {
	Kind NameKind
	// Key and Set are set if the name is a service's own name or below it, even if that name doesn't exist. Set.Tier and Set.Source tell
	// where the addresses come from.
	Key ServiceKey
	Set *Set
	// Labels are the labels in front of the service's name, empty for the service's own name. They are a substring of the name looked up.
	Labels string
	// Addrs are the addresses at a ServiceName, HostName or ZoneName. Weights are their weights, nil if all are equal.
	Addrs   Addrs
	Weights Weights
	// Port is the port at a PortName.
	Port *PortTargets
	// Targets are the targets of the SRV records at a ServiceName, PortName or ZoneName. There are none if no target has an address.
	Targets Targets
	// Shares is how many records share the weight of 100, 0 for as many as there are.
	Shares int

	zone zoneName
}

// Zone describes what the names of a zone mean. Services have names of the form <service>.<namespace>.svc.<origin>. The origin is the zone
// itself or, if the zone's first label is svc as in svc.global, its parent.
type Zone struct {
	Dialect Dialect
	// Svc is set for a zone whose first label is svc.
	Svc bool
}

// Fixed returns the kind of a name that exists in every such zone, whatever services there are, or NameError. The name has the form that
// Lookup takes.
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
		"dns":         Empty, // because of ns.dns
		"ns.dns":      NameServer,
		"dns-version": Version,
	}
	// In a zone whose first label is svc, ns.dns is the Service ns in the namespace dns.
	svcNames = map[string]NameKind{
		"svc":             Apex,
		"ns.svc":          NameServer,
		"dns-version.svc": Version,
	}
)

// Lookup looks up a name, given as the labels in front of the zone's origin, in lower case and without a final dot. l must be empty.
// Lookup sets its fields instead of returning it, which would copy it, and allocates nothing.
func (s *Snapshot) Lookup(l *Lookup, zone Zone, name string) {
	rest, ok := strings.CutSuffix(name, ".svc")
	if !ok {
		l.Kind = zone.Fixed(name) // NameError for any other name
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
	// The key "<service>.<namespace>" is a substring of the name, so looking it up allocates nothing.
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
	case hasZoneLabel(l.Labels):
		l.findZone()
	case l.Labels != "" && l.Labels[0] == '_':
		l.findPort()
	default:
		l.findHost(zone.Dialect)
	}
	l.dropUseless()
}

// dropUseless removes targets without an address.
func (l *Lookup) dropUseless() {
	if l.Targets.Len() > 0 && len(l.Set.Addrs) == 0 && !l.Targets.atHosts() {
		l.Targets = Targets{}
	}
}

// findHost finds an endpoint or a cluster, depending on the dialect.
func (l *Lookup) findHost(d Dialect) {
	set := l.Set
	if set.Headless {
		if h := set.Host(l.Labels); h != nil {
			l.Kind, l.Addrs = HostName, h.Addrs
			return
		}
	}
	if d == MCS && !set.Headless {
		return // only ports exist below a ClusterSetIP service's name (specification 2.3.4)
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
		protocol, ok := protocolOf(first)
		if ok && slices.ContainsFunc(l.Set.Ports, func(p PortTargets) bool { return p.Protocol == protocol }) {
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

// protocolOf parses the label of a protocol.
func protocolOf(label string) (Protocol, bool) {
	name, ok := strings.CutPrefix(label, "_")
	i := slices.Index(protocolNames[:], name)
	return Protocol(i), ok && i >= 0 //nolint:gosec // three
}
