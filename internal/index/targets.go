package index

import "slices"

// ServiceItself is the Host of a Target that points to the service's own name.
const ServiceItself = -1

// Target is what an SRV record points to: Host is an index into Set.TargetHosts, or ServiceItself.
type Target struct {
	Host int32
	Port uint16
}

// Targets are the targets of a name's SRV records: hosts, each with one or more port numbers. They are ordered by host and number,
// without duplicates. Hosts that many ports have in common are stored once: the 409,600 targets of a service with 4,096 endpoints
// and 100 ports take no more memory than its endpoints.
type Targets struct {
	n      int32
	number uint16 // the single number of every host, or 0 if hosts has the numbers
	hosts  *hostList
}

// hostList has the hosts of some Targets. A nil hostList is the service itself.
type hostList struct {
	hosts []int32
	// numbers are the numbers of every host. But if each is set, hosts[i] has only numbers[i], and if there are ends, hosts[i] has
	// the numbers from ends[i-1] to ends[i].
	numbers []uint16
	each    bool
	ends    []int32
	// sums are the running sums of the targets' weights by host, nil if all clusters have the same weight.
	sums []uint32
}

// numbersOf returns the first target of a host, and how many it has.
func (h *hostList) numbersOf(host int) (first, n int) {
	switch {
	case h.ends != nil && host > 0:
		return int(h.ends[host-1]), int(h.ends[host] - h.ends[host-1])
	case h.ends != nil:
		return 0, int(h.ends[0])
	case h.each:
		return host, 1
	}
	n = max(1, len(h.numbers))
	return host * n, n
}

// weigh computes sums from the weight of each host.
func (h *hostList) weigh(weights []uint8) *hostList {
	if weights == nil {
		return h
	}
	sum := uint32(0)
	h.sums = make([]uint32, len(h.hosts))
	for i, host := range h.hosts {
		_, n := h.numbersOf(i)
		sum += uint32(n) * uint32(weightOf(weights, host)) //nolint:gosec // at most maxPorts
		h.sums[i] = sum
	}
	return h
}

// weightOf returns a host's weight. The service itself has the default weight.
func weightOf(weights []uint8, host int32) uint8 {
	if host == ServiceItself {
		return usualWeight
	}
	return weights[host]
}

// Len returns how many targets there are.
func (t *Targets) Len() int { return int(t.n) }

// atHosts reports whether any target is not the service itself.
func (t *Targets) atHosts() bool {
	return t.hosts != nil && t.hosts.hosts[len(t.hosts.hosts)-1] != ServiceItself
}

// atItself reports whether any target is the service itself. There must be targets.
func (t *Targets) atItself() bool { return t.hosts == nil || t.hosts.hosts[0] == ServiceItself }

// At returns the i-th target, from 0 to Len()-1.
func (t *Targets) At(i int) Target {
	h := t.hosts
	switch {
	case h == nil:
		return Target{ServiceItself, t.number}
	case t.number != 0:
		return Target{h.hosts[i], t.number}
	case h.each:
		return Target{h.hosts[i], h.numbers[i]}
	case h.ends == nil:
		return Target{h.hosts[i/len(h.numbers)], h.numbers[i%len(h.numbers)]}
	}
	host, _ := slices.BinarySearch(h.ends, int32(i)+1) //nolint:gosec // less than n
	return Target{h.hosts[host], h.numbers[i]}
}

// TargetList collects Targets in memory that it reuses, for answers that don't come from an Index.
type TargetList struct{ list hostList }

// Reset removes all targets. Targets returned before are invalid from now on.
func (l *TargetList) Reset() {
	l.list = hostList{hosts: l.list.hosts[:0], numbers: l.list.numbers[:0], each: true}
}

// Len returns how many targets there are.
func (l *TargetList) Len() int { return len(l.list.hosts) }

// AddNew adds a target unless it is among those from index from on. Those of a host have to be added one after the other.
func (l *TargetList) AddNew(from int, t Target) {
	for i := from; i < l.Len(); i++ {
		if l.list.hosts[i] == t.Host && l.list.numbers[i] == t.Port {
			return
		}
	}
	l.list.hosts, l.list.numbers = append(l.list.hosts, t.Host), append(l.list.numbers, t.Port)
}

// Targets returns the targets.
func (l *TargetList) Targets() Targets { return Targets{n: int32(l.Len()), hosts: &l.list} } //nolint:gosec // few

// equal relies on equal Targets being stored in the same way.
func (t Targets) equal(o Targets) bool {
	if t.n != o.n || t.number != o.number || t.hosts == nil || o.hosts == nil {
		return t == o
	}
	return t.hosts == o.hosts || slices.Equal(t.hosts.hosts, o.hosts.hosts) && t.hosts.each == o.hosts.each &&
		slices.Equal(t.hosts.numbers, o.hosts.numbers) && slices.Equal(t.hosts.ends, o.hosts.ends) &&
		slices.Equal(t.hosts.sums, o.hosts.sums)
}

// targetBuilder builds Targets from hosts that are added in order. It can be reused after build.
type targetBuilder struct {
	hosts []int32
	// numbers are the numbers of every host, as long as they are the same. Once a host has different numbers, numbers has those of
	// each host in turn, and ends has where each host's numbers end.
	numbers []uint16
	ends    []int32
	last    *hostList // with one number per host, to be shared
	weights []uint8   // of all hosts; nil if all are equal
}

// add adds a host with its port numbers, which are sorted. The same host may be added again directly after.
func (b *targetBuilder) add(host int32, numbers ...uint16) {
	if len(numbers) == 0 {
		return
	}
	if last := len(b.hosts) - 1; last >= 0 && b.hosts[last] == host {
		numbers = sortedNumbers(slices.Concat(b.takeLast(), numbers))
	}
	switch {
	case len(b.hosts) == 0:
		b.numbers = append(b.numbers[:0], numbers...)
	case len(b.ends) == 0 && !slices.Equal(b.numbers, numbers):
		b.spread()
		fallthrough
	case len(b.ends) > 0:
		b.numbers = append(b.numbers, numbers...)
		b.ends = append(b.ends, int32(len(b.numbers))) //nolint:gosec // endpoints times maxPorts
	}
	b.hosts = append(b.hosts, host)
}

// takeLast removes the last host and returns its numbers.
func (b *targetBuilder) takeLast() []uint16 {
	last, from := len(b.hosts)-1, 0
	b.hosts = b.hosts[:last]
	numbers := b.numbers
	if len(b.ends) > 0 {
		b.ends = b.ends[:last]
		if last > 0 {
			from = int(b.ends[last-1])
		}
		b.numbers = b.numbers[:from]
	}
	return numbers[from:]
}

// spread gives each host numbers of its own.
func (b *targetBuilder) spread() {
	n := len(b.numbers)
	b.numbers = slices.Grow(b.numbers, n*cap(b.hosts))
	for i := range b.hosts {
		if i > 0 {
			b.numbers = append(b.numbers, b.numbers[:n]...)
		}
		b.ends = append(b.ends, int32(len(b.numbers))) //nolint:gosec // endpoints times maxPorts
	}
}

func (b *targetBuilder) build() (t Targets) {
	if len(b.hosts) == 0 {
		return t
	}
	b.gather()
	t.n = int32(len(b.numbers)) //nolint:gosec // endpoints times maxPorts
	if len(b.ends) == 0 {
		t.n *= int32(len(b.hosts)) //nolint:gosec // some thousand
	}
	if len(b.ends) == 0 && len(b.numbers) == 1 {
		t.number = b.numbers[0]
		if len(b.hosts) > 1 || b.hosts[0] != ServiceItself {
			t.hosts = b.share()
		}
	} else {
		t.hosts = b.list().weigh(b.weights)
	}
	b.hosts, b.ends = b.hosts[:0], b.ends[:0]
	return t
}

// gather undoes spread if all hosts have the same numbers after all.
func (b *targetBuilder) gather() {
	if len(b.ends) == 0 {
		return
	}
	n := int(b.ends[0])
	for i, end := range b.ends {
		if int(end) != (i+1)*n {
			return
		}
	}
	if slices.Equal(b.numbers[n:], b.numbers[:len(b.numbers)-n]) { // every host has the same numbers as the one before
		b.numbers, b.ends = b.numbers[:n], b.ends[:0]
	}
}

// share returns the hosts. It reuses the list of the last Targets if the hosts are the same.
func (b *targetBuilder) share() *hostList {
	if b.last == nil || !slices.Equal(b.last.hosts, b.hosts) {
		b.last = (&hostList{hosts: slices.Clone(b.hosts)}).weigh(b.weights)
	}
	return b.last
}

// list returns the hosts with several numbers, or different ones.
func (b *targetBuilder) list() *hostList {
	h := &hostList{hosts: b.share().hosts, numbers: slices.Clone(b.numbers), each: len(b.numbers) == len(b.ends)}
	if !h.each && len(b.ends) > 0 {
		h.ends = slices.Clone(b.ends)
	}
	return h
}

func sortedNumbers(numbers []uint16) []uint16 {
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
