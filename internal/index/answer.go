package index

import "net/netip"

// Type is the type of a record.
type Type uint8

// The types of records that an Answer has.
const (
	TypeA Type = iota
	TypeAAAA
	TypeSRV
	TypeNS
)

// Record is one record of an Answer.
type Record struct {
	Addr netip.Addr // of an A or AAAA record
	// Host is what an SRV record points to, as a Target has it.
	Host int32
	// Target is the number of the first SRV record that points to the same host as this one, or whose target has this address.
	Target       int32
	Port, Weight uint16 // of an SRV record
	Type         Type
}

// Answer is what a name has of a type: the records of a reply's answer, then those of its additional section.
type Answer struct {
	lookup  *Lookup
	kind    Type
	targets Sample
	// addrs are the name's addresses, or those of the service that SRV records point to. v4 and v6 pick from them.
	addrs  Addrs
	v4, v6 Sample
	n4     int
}

// Answer returns what a name has of a type. most is how many records of one type a reply may have at the service's own name, 0 for any
// number. roll is called for a random number if that leaves some out; nil picks the same ones each time.
func (l *Lookup) Answer(t Type, most int, roll func() uint64) Answer {
	a := Answer{lookup: l, kind: t}
	weights := l.Weights
	a.addrs = l.Addrs
	if t == TypeSRV {
		if a.targets = l.Targets.Sample(most, roll); a.targets.Len() == 0 || !l.Targets.atItself() {
			return a
		}
		a.addrs, weights = l.Set.Addrs, l.Set.Weights
	}
	v4, _ := a.addrs.Split()
	a.n4 = len(v4)
	if t != TypeAAAA {
		a.v4 = weights.Sample(0, a.n4, most, roll)
	}
	if t != TypeA {
		a.v6 = weights.Sample(a.n4, len(a.addrs), most, roll)
	}
	return a
}

// Len returns how many records the reply's answer has. If there are none, the reply is negative.
func (a *Answer) Len() int {
	switch a.kind {
	case TypeSRV:
		return a.targets.Len()
	case TypeNS:
		return 1
	default:
		return a.v4.Len() + a.v6.Len()
	}
}

// Cut reports whether records were left out because a reply may have no more.
func (a *Answer) Cut() bool { return a.targets.Cut() || a.v4.Cut() || a.v6.Cut() }

// All yields the records, each time the same ones.
func (a *Answer) All(yield func(Record) bool) {
	switch {
	case a.kind == TypeSRV:
		_ = a.allTargets(false, yield) && a.allTargets(true, yield)
	case a.kind != TypeNS || yield(Record{Type: TypeNS}):
		a.own(0, yield)
	}
}

// allTargets yields the SRV records, or the addresses of their targets.
func (a *Answer) allTargets(additional bool, yield func(Record) bool) bool {
	picks, l := a.targets, a.lookup
	var first, last, target int32
	for i := range picks.n {
		t := l.Targets.At(picks.Next())
		switch {
		case i == 0:
			first = t.Host
		case t.Host == last:
		case t.Host == first: // targets are grouped by host, but the first pick may be in the middle of its group
			target = 0
		default:
			target = i
		}
		last = t.Host
		more := true
		if !additional {
			more = yield(Record{Type: TypeSRV, Host: t.Host, Target: target, Port: t.Port, Weight: a.weight(t)})
		} else if target == i {
			more = a.addresses(t.Host, target, yield)
		}
		if !more {
			return false
		}
	}
	return true
}

// addresses yields the addresses of a target.
func (a *Answer) addresses(host, target int32, yield func(Record) bool) bool {
	if host == ServiceItself {
		return a.own(target, yield)
	}
	for _, addr := range a.lookup.Set.TargetHosts()[host].Addrs {
		if !yield(address(addr, target)) {
			return false
		}
	}
	return true
}

// own yields the addresses picked.
func (a *Answer) own(target int32, yield func(Record) bool) bool {
	v4, v6 := a.v4, a.v6
	for range v4.n {
		if !yield(address(a.addrs[v4.Next()], target)) {
			return false
		}
	}
	for range v6.n {
		if !yield(address(a.addrs[a.n4+v6.Next()], target)) {
			return false
		}
	}
	return true
}

func address(addr netip.Addr, target int32) Record {
	if addr.Is4() {
		return Record{Type: TypeA, Addr: addr, Target: target}
	}
	return Record{Type: TypeAAAA, Addr: addr, Target: target}
}

// weight returns the weight of a target's SRV record: 100 divided by their number. If clusters differ in weight it is the cluster's weight,
// unless the targets were already picked by weight.
func (a *Answer) weight(t Target) uint16 {
	l, n := a.lookup, a.targets.Len()
	if l.Set.HostWeights != nil && t.Host != ServiceItself && !a.targets.Cut() {
		return uint16(l.Set.HostWeights[t.Host])
	}
	if l.Shares > 0 {
		n = l.Shares
	}
	return uint16(max(1, 100/n)) //nolint:gosec // at most 100
}
