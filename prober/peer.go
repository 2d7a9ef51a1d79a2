package prober

import (
	"net/netip"
	"slices"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
)

// How long it takes until a cluster's report is read again (D43): readEvery, and at least readSoon while no beacon answers that stays. Then it
// is as long as that has lasted, up to readSeldom, or readEvery if the cluster states no beacons.
const (
	readEvery  = 10 * time.Minute
	readSoon   = 2 * time.Second
	readSeldom = time.Minute
)

// peer is what is known of another cluster's beacons.
type peer struct {
	apart    bool           // it is in another network
	networks []netip.Prefix // where its beacons must be, if there are any
	stated   []netip.AddrPort
	odd      int              // how many more are stated, which are no addresses or too many
	allowed  []netip.AddrPort // those of stated that may be dialled
	next     int              // which of them is dialled next
	read     time.Time        // when the report was last read; zero: never
	missing  time.Time        // since when there is no beacon that answers and stays; zero: there may be
}

// due reports whether the report should be read again.
func (p *peer) due(now time.Time) bool {
	most := readSeldom
	if len(p.stated) == 0 {
		most = readEvery
	}
	missing, age := now.Sub(p.missing), now.Sub(p.read)
	switch {
	case p.read.IsZero():
		return true
	case p.missing.IsZero():
		return age >= readEvery
	}
	return missing >= readSoon && age >= min(max(missing/2, readSoon), most)
}

// learn takes over which beacons a report states. If it says nothing, those known before stay.
func (p *peer) learn(report *clustersetv1alpha1.MemberReportSpec, services bool, now time.Time) {
	p.read = now
	switch all, odd := beacon.Parse(report.BeaconServices); {
	case report.Beacons == nil:
	case services && len(all) > 0 && !p.apart:
		p.stated, p.odd = all, odd
	default:
		p.stated, p.odd = beacon.Parse(report.Beacons)
	}
	if len(p.stated) == 0 && p.missing.IsZero() {
		p.missing = now
	}
}

// choose decides which addresses may be dialled (D44, D87).
func (p *peer) choose(ours []netip.Prefix, avoid []netip.Addr) {
	before, _ := p.current()
	p.allowed = nil
	for _, a := range p.stated {
		anywhere := len(p.networks) == 0
		if !(p.apart && anywhere) && beacon.Allowed(a.Addr(), p.networks, ours, avoid) && !slices.Contains(p.allowed, a) {
			p.allowed = append(p.allowed, a)
		}
	}
	p.next = max(slices.Index(p.allowed, before), 0)
}

// current returns the address to dial.
func (p *peer) current() (netip.AddrPort, bool) {
	if p.next < len(p.allowed) {
		return p.allowed[p.next], true
	}
	return netip.AddrPort{}, false
}

// tried records how a dial ended. An address that fails, or whose agent is leaving, gives way to the next one.
func (p *peer) tried(at netip.AddrPort, stays bool, began time.Time) {
	i := slices.Index(p.allowed, at)
	switch {
	case i < 0: // it isn't dialled any more
	case stays:
		p.next, p.missing = i, time.Time{}
	case i == p.next:
		p.next = (i + 1) % len(p.allowed)
		if p.missing.IsZero() {
			p.missing = began
		}
	}
}

// dialled returns the addresses that may be dialled, sorted, and how many others are stated.
func (p *peer) dialled() (all []string, ignored int) {
	for _, a := range p.allowed {
		all = append(all, a.String())
	}
	slices.Sort(all)
	return all, len(p.stated) - len(p.allowed) + p.odd
}
